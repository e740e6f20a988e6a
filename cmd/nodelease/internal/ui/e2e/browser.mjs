// Shared by the browser tests: Chromium, a server whose pool they
// control, and the folder for screenshots.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'

export const root = new URL('../../../../../', import.meta.url).pathname
export const temporary = mkdtempSync(join(tmpdir(), 'nodelease-ui-'))

// Every run takes screenshots; only `make picture` keeps them.
export const pictures = process.env.PICTURES ?? join(temporary, 'pictures')
mkdirSync(pictures, { recursive: true })

// browser starts a Chromium of its own, with nothing remembered.
export function browser(scheme = 'light', width = 1440, height = 900, deviceScaleFactor = 1) {
  return chromium.launchPersistentContext(mkdtempSync(join(temporary, 'profile-')), {
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    headless: true,
    colorScheme: scheme,
    viewport: { width, height },
    deviceScaleFactor,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  })
}

// open shows a pool, and checks that nothing failed on the page. With cut
// set on it, the server may have been unreachable.
export async function open(t, path, order, context, hash = '') {
  const fixture = await Fixture.start(path, order)
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  const asked = [], wrong = []
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && wrong.push(m.text()))
  page.on('pageerror', (e) => wrong.push(String(e)))
  page.on('request', (r) => asked.push(r))
  page.fixture = fixture
  page.cell = (n) => page.locator(`[data-id="${n}"]`)
  page.at = () => page.evaluate(() => Number(document.activeElement.dataset.id ?? -1))
  page.is = (n, state) => page.locator(`[data-id="${n}"][data-state="${state}"]`).waitFor()
  t.after(async () => {
    await page.close()
    await fixture.end()
    const expected = page.cut ? /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET/ : /^$/
    assert.deepEqual(wrong.filter((w) => !expected.test(w)), [])
    for (const r of asked) {
      assert.ok(r.url().startsWith(fixture.url), `nothing is loaded from elsewhere: ${r.url()}`)
      assert.equal(r.method(), 'GET')
    }
  })
  await page.goto(fixture.url + hash)
  if (!order.outage) await page.locator('#link[data-link="live"]').waitFor()
  return page
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

// accessible checks that axe-core finds nothing.
export async function accessible(page, name) {
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice', 'experimental'] } }))
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + n.any.map((a) => a.message).join()).join('\n')}`), [], `${name}: axe-core`)
}

export function forget() { rmSync(temporary, { recursive: true, force: true }) }

// program builds a Go program.
export async function program(pkg) {
  const out = join(temporary, pkg.replaceAll('/', '-').replace(/^\.-/, ''))
  const build = spawn('go', ['build', '-o', out, pkg], { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] })
  const code = await new Promise((done) => build.on('close', done))
  if (code !== 0) throw new Error(`go build ${pkg}: exit code ${code}`)
  return out
}

// Fixture is a server whose pool follows orders.
export class Fixture {
  static async start(path, order) {
    const f = new Fixture()
    f.process = spawn(path, [], { stdio: ['pipe', 'pipe', 'inherit'] })
    f.lines = createInterface({ input: f.process.stdout })[Symbol.asyncIterator]()
    f.url = await f.tell(order)
    return f
  }

  // tell gives an order and waits until it is done.
  async tell(order) {
    this.process.stdin.write(JSON.stringify(order) + '\n')
    const { value, done } = await this.lines.next()
    if (done) throw new Error('the fixture has ended')
    return value
  }

  put(...put) { return this.tell({ put }) }

  async end() {
    if (this.process.exitCode !== null) return
    const closed = new Promise((done) => this.process.on('close', done))
    this.process.stdin.end()
    await closed
  }
}
