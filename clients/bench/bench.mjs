// Compares the JavaScript client with nodejs-snowflake. Writes lines of JSON for run.py.
import { IdGenerator } from 'nodelease'
import snowflake from 'nodejs-snowflake'

let seconds = Number(process.argv[3])
let sink

async function rate (f, each) {
  const began = performance.now()
  let now = began
  let n = 0
  for (; now < began + seconds * 1000; now = performance.now()) {
    for (let i = 0; i < 1000; i += each) {
      const made = f()
      sink = made instanceof Promise ? await made : made
      n += each
    }
  }
  return n * 1000 / (now - began)
}

const began = performance.now()
const ids = new IdGenerator()
const batch = () => ids.batch(10_000)
if (process.argv[2] === 'first') {
  sink = await ids.next()
  console.log(performance.now() - began)
} else if (process.argv[2] === 'together') {
  await rate(batch, 10_000)
  seconds = 3
  const before = Date.now()
  const got = await rate(batch, 10_000)
  const after = Date.now()
  console.log(JSON.stringify([got * (after - before) / 1000, before, after]))
} else {
  const peer = new snowflake.Snowflake({ instance_id: 1, custom_epoch: 1735689600000 })
  for (let round = -1; round < 5; round++) {
    const next = await rate(() => ids.next(), 1)
    const tryNext = await rate(() => ids.tryNext() ?? ids.next(), 1)
    const before = ids.requests
    let n = 0
    const many = await rate(() => { n += 10_000; return ids.batch(10_000) }, 10_000)
    const line = { next, tryNext, batch: many, per_request: n / Math.max(ids.requests - before, 1), 'nodejs-snowflake': await rate(() => peer.getUniqueID(), 1) }
    if (round >= 0) console.log(JSON.stringify(line))
  }
}
ids.close()
if (sink === undefined) process.exitCode = 1
