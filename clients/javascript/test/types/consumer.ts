// A program in strict TypeScript; clients/test.sh compiles and runs it.
import { ClockBehind, Exhausted, Fenced, IdGenerator, Layout, layouts, NodeleaseError, SidecarUnavailable, type Options, type Parts } from 'nodelease'

const options: Options = { timeout: 5000 }
const ids = new IdGenerator(options)

const id: bigint = await ids.next()
const text: string = await ids.nextString()
const many: bigint[] = await ids.batch(1000)
const maybe: bigint | undefined = ids.tryNext()
const layout: Layout | null = ids.layout
const parts: Parts | undefined = layout?.decompose(id)
const time: Date = layouts.default.decompose(text).time
const safe: boolean = new Layout({ epochMs: 0, tickMs: 10, timeBits: 39, nodeBits: 6, sequenceBits: 8 }).javaScriptSafe
for await (const next of ids) {
  const big: bigint = next
  if (big > id) break
}

// @ts-expect-error an ID is a bigint
const wrong: number = id
// @ts-expect-error the layout cannot be set
ids.layout = layouts.sonyflake
// @ts-expect-error a tick has 1 or 10 ms
const no = () => new Layout({ epochMs: 0, tickMs: 2, timeBits: 41, nodeBits: 10, sequenceBits: 12 })

try {
  const n: number = await ids.nextNumber()
  throw new Error(`the default layout has more than 53 bits, got ${n}`)
} catch (e) {
  if (!(e instanceof RangeError)) throw e
}
const dead = new IdGenerator({ sidecar: 'unix:/none', timeout: 10 })
try {
  await dead.next()
} catch (e) {
  if (!(e instanceof NodeleaseError) || !(e instanceof SidecarUnavailable) || e instanceof Fenced || e instanceof Exhausted || e instanceof ClockBehind) throw e
  const word: string = e.word
  console.log('typescript', many.length, ids.requests, parts?.node, time.getTime() > 0, safe, word, maybe !== wrong as unknown, typeof no)
}
dead.close()
ids.close()
