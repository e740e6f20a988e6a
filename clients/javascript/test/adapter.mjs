// The adapter of the conformance suite: clients/conformance/doc.go.
import { createInterface } from 'node:readline'
import { ClockBehind, Exhausted, Fenced, IdGenerator, Layout, NodeleaseError, SidecarUnavailable } from '../src/index.js'

const clocks = { boot: 1e6, mono: 1e6, wall: 1e12 }
let ids

const words = new Map([[SidecarUnavailable, 'unavailable'], [Fenced, 'fenced'], [Exhausted, 'exhausted'], [ClockBehind, 'clock']])

async function answer (c) {
  switch (c.op) {
    case 'new':
      ids?.close()
      ids = new IdGenerator({ sidecar: c.sidecar, timeout: 60_000, clocks: () => [clocks.boot, clocks.mono, clocks.wall] })
      return {}
    case 'timeout': ids.timeout = c.ms; return {}
    case 'next': return { ids: [await ids.next()] }
    case 'batch': return { ids: await ids.batch(c.n) }
    case 'threads': {
      const one = async () => { const out = []; while (out.length < c.n) out.push(await ids.next()); return out }
      return { ids: (await Promise.all(Array.from({ length: c.threads }, one))).flat() }
    }
    case 'beside': {
      let ended = false
      const batch = ids.batch(c.n).finally(() => { ended = true })
      const id = await ids.next()
      return { count: ended ? 0 : 1, ids: [id, ...await batch] }
    }
    case 'step': clocks[c.clock] += c.ms; return {}
    case 'requests': return { count: ids.requests }
    case 'decode': {
      const l = c.layout
      const layout = new Layout({ epochMs: l.epoch_ms, tickMs: l.tick_ms, timeBits: l.time_bits, nodeBits: l.node_bits, sequenceBits: l.sequence_bits, nodeLast: l.node_last })
      const { time, node, sequence } = layout.decompose(c.id)
      return { time_ms: time.getTime(), node, sequence }
    }
  }
  return {}
}

for await (const line of createInterface({ input: process.stdin })) {
  let out
  try {
    out = await answer(JSON.parse(line))
  } catch (e) {
    if (!(e instanceof NodeleaseError)) throw e
    out = { error: words.get(e.constructor) ?? 'other', detail: e.message }
  }
  console.log(JSON.stringify(out, (_, v) => typeof v === 'bigint' ? String(v) : v))
}
