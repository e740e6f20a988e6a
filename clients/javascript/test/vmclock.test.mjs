// The VMClock device, in a file of its layout.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { IdGenerator } from '../src/index.js'

const folder = mkdtempSync(join(tmpdir(), 'vmclock-'))
const device = join(folder, 'vmclock0')
test.after(() => rmSync(folder, { recursive: true }))

function write (generation, { magic = 0x4b4c4356, version = 1, flags = 1n << 8n } = {}) {
  const page = Buffer.alloc(4096)
  page.writeUInt32LE(magic, 0)
  page.writeUInt16LE(version, 8)
  page.writeBigUInt64LE(flags, 24)
  page.writeBigUInt64LE(generation, 104)
  writeFileSync(device, page, { flag: 'r+' })
}

// A sidecar with blocks of ten IDs, on stopped clocks.
async function sidecar (during) {
  let first = 1n << 22n
  let meanwhile = () => {}
  const server = createServer((request, answer) => {
    const nonce = new URL(request.url, 'http://x').searchParams.get('nonce')
    meanwhile()
    answer.end(JSON.stringify({
      nonce, pool: 'p', node_id: 3, node_bits: 10, first: String(first), count: 10, left_ms: 500,
      layout: { epoch_ms: 1735689600000, tick_ms: 1, time_bits: 41, node_bits: 10, sequence_bits: 12, node_last: false }
    }))
    first += 10n
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const ids = new IdGenerator({ sidecar: `http://127.0.0.1:${server.address().port}`, timeout: 60_000, clocks: () => [1, 1, 1], vmClock: device })
  try { await during(ids, (f) => { meanwhile = f }) } finally {
    ids.close()
    server.close()
  }
}

test('a restored machine has no block', async () => {
  writeFileSync(device, '')
  write(7n)
  await sidecar(async (ids, on) => {
    const id = await ids.next()
    assert.equal(await ids.next(), id + 1n)
    write(8n)
    assert.equal(ids.tryNext(), undefined)
    assert.equal(await ids.next(), id + 10n)
    // A block in flight when the machine was copied is not used, either.
    write(9n)
    let requests = 0
    on(() => { if (requests++ === 0) write(10n) })
    assert.equal(await ids.next(), id + 30n)
    assert.equal(requests, 2)
  })
})

test('without the device, or with another one, the clocks are all there is', async () => {
  for (const wrong of [undefined, { magic: 1 }, { version: 2 }, { flags: 0n }]) {
    writeFileSync(device, '')
    if (wrong) write(7n, wrong)
    await sidecar(async (ids) => {
      const id = await ids.next()
      write(8n, wrong)
      assert.equal(await ids.next(), id + 1n)
    })
  }
})
