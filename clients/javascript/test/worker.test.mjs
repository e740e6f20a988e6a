// Worker threads share nothing: each has its own generator, name and blocks. Needs a sidecar:
// clients/with-sidecar.sh.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isMainThread, parentPort, Worker } from 'node:worker_threads'
import { IdGenerator } from '../src/index.js'

const N = 20_000

async function make () {
  const ids = new IdGenerator({ timeout: 30_000 }) // five threads beside other tests may wait for a core
  const all = []
  while (all.length < N) all.push(...await ids.batch(500), await ids.next())
  const out = { ids: all, requests: ids.requests }
  ids.close()
  return out
}

if (!isMainThread) {
  parentPort.postMessage(await make())
} else {
  test('four workers and the main thread make no ID twice', async () => {
    const workers = Array.from({ length: 4 }, () => new Promise((resolve, reject) => {
      const worker = new Worker(new URL(import.meta.url))
      worker.once('message', resolve)
      worker.once('error', reject)
    }))
    const all = await Promise.all([...workers, make()])
    for (const { ids, requests } of all) {
      assert.ok(requests >= 1, 'a worker has its own blocks')
      for (let i = 1; i < ids.length; i++) assert.ok(ids[i] > ids[i - 1], `${ids[i]} after ${ids[i - 1]}`)
    }
    const ids = all.flatMap((one) => one.ids)
    assert.equal(new Set(ids).size, ids.length)
  })

  test('a generator copied to a worker makes no IDs', async () => {
    const ids = new IdGenerator()
    await ids.next()
    const copy = structuredClone(ids) // what postMessage sends
    assert.equal(copy.next, undefined)
    await assert.rejects(async () => IdGenerator.prototype.next.call(copy), TypeError)
    ids.close()
  })
}
