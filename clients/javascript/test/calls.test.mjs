// Time-outs, and calls side by side, with a sidecar that gives blocks of ten IDs.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { IdGenerator, layouts, NodeleaseError } from '../src/index.js'

const LARGE = 3000 // IDs of a batch that needs hundreds of blocks

async function sidecar (options, during, { delay = 0, other, broken, more } = {}) {
  let first = 1n << 22n
  const server = createServer(async (request, answer) => {
    if (delay) await sleep(delay)
    if (broken?.(answer)) return setImmediate(() => request.socket.destroy())
    if (other) return answer.writeHead(502).end(other)
    const nonce = new URL(request.url, 'http://x').searchParams.get('nonce')
    answer.end(JSON.stringify({
      nonce, pool: 'p', node_id: 3, node_bits: 10, first: String(first), count: 10, left_ms: 500,
      layout: { epoch_ms: 1735689600000, tick_ms: 1, time_bits: 41, node_bits: 10, sequence_bits: 12, node_last: false, ...more?.() },
      ...more?.()
    }))
    first += 10n
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const ids = new IdGenerator({ sidecar: `http://127.0.0.1:${server.address().port}`, clocks: () => [1, 1, 1], ...options })
  try { await during(ids) } finally {
    ids.close()
    server.close()
  }
}

test('a time-out without end', async () => {
  for (const timeout of [Infinity, 2 ** 31, 1e300]) {
    await sidecar({ timeout }, async (ids) => {
      // A timer that ends after 1 ms ends each request, again and again.
      const failed = AbortSignal.timeout(30_000)
      assert.ok(await Promise.race([ids.next(), once(failed, 'abort')]) > 0n)
    }, { delay: 30 })
  }
})

test('calls take turns', async () => {
  await sidecar({ timeout: 60_000 }, async (ids) => {
    let done = false
    const large = [1, 2].map(() => ids.batch(LARGE).finally(() => { done = true }))
    const single = await Promise.all(Array.from({ length: 20 }, () => ids.next()))
    for (let i = 0; i < 10; i++) single.push(await ids.next(), ...await ids.batch(15))
    assert.equal(done, false, 'next waited for a large batch')
    const made = await Promise.all(large)
    for (const batch of made) for (let i = 1; i < LARGE; i++) assert.ok(batch[i] > batch[i - 1])
    const all = new Set([...single, ...made[0], ...made[1]])
    assert.equal(all.size, 2 * LARGE + 180)
    assert.equal(ids.requests, all.size / 10, 'an ID was left out')
  })
})

test('a batch without a number is no batch', async () => {
  await sidecar({}, async (ids) => {
    for (const n of [undefined, null, {}, [3], '3', true, 3n, 1.5, -1, NaN]) await assert.rejects(ids.batch(n), RangeError, typeof n)
    assert.deepEqual(await ids.batch(0), [])
    assert.equal((await ids.batch(3)).length, 3)
  })
})

test('a block that comes after close is dropped', async () => {
  let requests = 0
  let reads = 0
  const clocks = () => {
    if (++reads === 2) closing.close() // the second request is about to be sent
    return [1, 1, 1]
  }
  let closing
  await sidecar({ timeout: 60_000, clocks }, async (ids) => {
    closing = ids
    await assert.rejects(ids.next(), /the generator is closed/)
    assert.equal(ids.tryNext(), undefined)
    assert.equal(ids.requests, 0)
  }, { broken: () => requests++ === 0 })
})

test('an answer that breaks off leaves no timer', async () => {
  let requests = 0
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  await sidecar({ timeout: 60_000 }, async (ids) => {
    const before = timers()
    await ids.next()
    assert.equal(requests, 2)
    assert.equal(timers(), before, 'the program would not end for a minute')
  }, { broken: (answer) => requests++ === 0 && answer.writeHead(200, { 'Content-Length': 100 }).write('{') })
})

test('a later release of the sidecar adds fields', async () => {
  let release = 0
  await sidecar({}, async (ids) => {
    const made = await ids.batch(25) // from three sidecars, one after the other
    assert.equal(new Set(made).size, 25)
    assert.deepEqual({ ...ids.layout }, { ...layouts.default })
  }, { more: () => ({ ['new' + release++]: { node_id: 7 } }) })
})

test('numbers that cannot be exact are no IDs', () => {
  for (const id of [2 ** 53, 249685239402594305, 1.5, NaN, Infinity]) assert.throws(() => layouts.default.decompose(id), { name: 'RangeError', message: /use a bigint or a string/ })
  for (const id of ['', ' ', '0x10', '1.0', '-1', 'x', [], null, undefined, true, -1, -1n, 1n << 63n, '9'.repeat(10_000)]) assert.throws(() => layouts.default.decompose(id), { name: 'RangeError', message: /is not an ID of this layout/ })
  assert.throws(() => layouts.js53.decompose(1n << 53n), { name: 'RangeError', message: /use 0 to 2\^53-1/ })
  assert.equal(layouts.js53.decompose((1n << 53n) - 1n).node, 63)
  const want = { time: new Date(1735689600000 + 2 ** 31 - 1), node: 1023, sequence: 4095 }
  for (const id of [2 ** 53 - 1, 2n ** 53n - 1n, String(2 ** 53 - 1)]) assert.deepEqual(layouts.default.decompose(id), want)
})

test('an error that is not the sidecar\'s', async () => {
  for (const other of ['<html>Bad Gateway</html>', '{"message":"Bad Gateway"}', 'null', '{"error":7}']) {
    await sidecar({}, (ids) => assert.rejects(ids.next(), /not the sidecar's \(502/), { other })
  }
  for (const word of ['toString', '__proto__', 'constructor']) {
    await sidecar({}, (ids) => assert.rejects(ids.next(), (e) => e.constructor === NodeleaseError && e.word === word), { other: `{"error":"${word}","detail":"d","remedy":"r"}` })
  }
})
