// The load of the page on a browser at 65,536 node IDs under churn: a DevTools trace of
// Chromium for MINUTES (10), in which 200 node IDs change hands and 2,000 renew
// before each update. `make trace` runs it; no test does, since a busy machine is slower.
// Times are CPU times of the thread, so other programs do not count.
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Fixture, program } from './browser.mjs'
import { chromium } from 'playwright-core'

const minutes = Number(process.env.MINUTES ?? 10), every = Number(process.env.EVERY ?? 2000)
const profile = mkdtempSync(join(tmpdir(), 'nodelease-trace-'))
const fixture = await Fixture.start(await program('./cmd/nodelease/internal/ui/e2e/fixture'), { size: 65536, open: 256, every, put: [{ from: 0, to: 45_000, state: 'held' }] })
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, viewport: { width: 1440, height: 900 },
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--js-flags=--expose-gc'],
})
const page = await browser.newPage()
await page.goto(fixture.url + (process.env.HASH ?? ''))
await page.locator('#link[data-link="live"]').waitFor()
const cdp = await page.context().newCDPSession(page)

// churn changes the pool before each update, for as long as the trace takes.
let over = false, at = 0
async function churn() {
  while (!over) {
    const from = (at += 997) % 44_000
    await fixture.put({ from, to: from + 99, state: 'free' }, { from: (from + 500) % 44_000, to: ((from + 500) % 44_000) + 99, state: 'held' }, { renew: 2000, from, state: 'held' })
    await new Promise((go) => setTimeout(go, every))
  }
}
const churning = churn()

const heap = async () => {
  await cdp.send('HeapProfiler.collectGarbage')
  return (await cdp.send('Runtime.getHeapUsage')).usedSize
}

// trace records for some time, and returns the tasks of the page's main thread.
async function trace(ms) {
  const events = []
  cdp.on('Tracing.dataCollected', (d) => events.push(...d.value))
  await cdp.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories: ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline', 'blink.user_timing'] } })
  await new Promise((go) => setTimeout(go, ms))
  const done = new Promise((go) => cdp.once('Tracing.tracingComplete', go))
  await cdp.send('Tracing.end')
  await done
  cdp.removeAllListeners('Tracing.dataCollected')
  const main = events.find((e) => e.name === 'FunctionCall' && e.args?.data?.url?.startsWith(fixture.url))
  const mine = events.filter((e) => e.ph === 'X' && e.pid === main?.pid && e.tid === main?.tid)
  if (process.env.VERBOSE) {
    const by = {}
    for (const e of mine) by[e.name] = (by[e.name] ?? 0) + cpu(e) / 1000
    console.log(Object.entries(by).sort((a, b) => b[1] - a[1]).slice(0, 16).map(([k, v]) => `${k} ${v.toFixed(1)}`).join(', '))
    console.log(outermost(mine.filter((e) => ['FunctionCall', 'EventDispatch', 'TimerFire', 'RunMicrotasks', 'Layout', 'UpdateLayoutTree', 'FireAnimationFrame'].includes(e.name) && cpu(e) > 2000)).map((e) => `${e.name} ${(cpu(e) / 1000).toFixed(1)} ${e.args?.data?.type ?? e.args?.data?.functionName ?? ''} ${e.args?.data?.url?.slice(-12) ?? ''}:${e.args?.data?.lineNumber ?? ''}`).join('\n'))
  }
  for (const e of mine) e.turn = e.name === 'FunctionCall' && e.args?.data?.url?.endsWith('/stream.js') === true
  return { tasks: mine.filter((e) => e.name === 'RunTask' || e.name === 'ThreadControllerImpl::RunTask'), work: mine.filter((e) => ['FunctionCall', 'EventDispatch', 'TimerFire', 'RunMicrotasks', 'Layout', 'UpdateLayoutTree', 'FireAnimationFrame', 'EvaluateScript'].includes(e.name)) }
}

await page.waitForTimeout(Number(process.env.WARM ?? 60_000))
const first = await heap()
const updates = [], tasks = []
const end = Date.now() + (minutes - 1) * 60_000
while (Date.now() < end) {
  const t = await trace(Math.min(20_000, Math.max(6000, end - Date.now())))
  tasks.push(...t.tasks.map((e) => cpu(e) / 1000))
  // An update is all work from one message of the server to the next, the clock's ticks
  // included; work before the first and after the last does not count.
  let sum = -1, parts = []
  for (const e of outermost(t.work)) {
    if (e.turn) {
      if (sum >= 0) updates.push(sum / 1000)
      if (process.env.VERBOSE && sum > 6000) console.log(`an update of ${(sum / 1000).toFixed(1)} ms: ${parts.join(', ')}`)
      sum = 0
      parts = []
    }
    if (sum >= 0) sum += cpu(e)
    if (cpu(e) > 300) parts.push(`${e.name} ${e.args?.data?.functionName ?? ''} ${(cpu(e) / 1000).toFixed(1)}`)
  }
}
over = true
await churning
const finish = await heap()

// cpu is how long the thread worked on it, in µs.
function cpu(e) { return e.tdur ?? e.dur }

// outermost drops events inside another one: their time is counted there.
function outermost(events) {
  let to = 0
  return events.sort((a, b) => a.ts - b.ts || b.dur - a.dur || b.turn - a.turn).filter((e) => e.ts + e.dur > to && (to = e.ts + e.dur))
}
if (!updates.length || !tasks.length) throw new Error('the trace has no update: no listener of stream.js was called')
const p = (all, q) => all.toSorted((a, b) => a - b)[Math.min(all.length - 1, Math.floor(q * all.length))]
const p95 = p(updates, 0.95), longest = Math.max(...tasks), growth = finish / first - 1
console.log(`${cpus().length} × ${cpus()[0].model}, Chromium ${browser.browser()?.version() ?? (await page.evaluate(() => navigator.userAgent.match(/Chrome\/(\S+)/)[1]))}, ${minutes} min, an update every ${every} ms`)
console.log(`script and layout per update: p50 ${p(updates, 0.5).toFixed(1)} ms, p95 ${p95.toFixed(1)} ms of ${updates.length} (want at most 8)`)
console.log(`longest task: ${longest.toFixed(1)} ms of ${tasks.length} (want at most 50)`)
console.log(`heap after collection: ${(first / 1e6).toFixed(2)} MB after a minute, ${(finish / 1e6).toFixed(2)} MB at the end: ${(growth * 100).toFixed(1)} % (want at most 10)`)
await browser.close()
await fixture.end()
rmSync(profile, { recursive: true, force: true })
process.exitCode = p95 <= 8 && longest <= 50 && growth <= 0.1 ? 0 : 1
