// What the tests in the browser share: Chromium, a server whose pool they
// command, and where pictures go.
import { spawn } from 'node:child_process'
import { mkdtempSync, mkdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'

export const root = new URL('../../../', import.meta.url).pathname
const temporary = mkdtempSync(join(tmpdir(), 'nodelease-ui-'))

// Pictures are made by every run and kept by `make picture` alone.
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

export function forget() { rmSync(temporary, { recursive: true, force: true }) }

// program builds a Go program.
export async function program(pkg) {
  const out = join(temporary, pkg.replaceAll('/', '-').replace(/^\.-/, ''))
  const build = spawn('go', ['build', '-o', out, pkg], { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] })
  const code = await new Promise((done) => build.on('close', done))
  if (code !== 0) throw new Error(`go build ${pkg}: exit code ${code}`)
  return out
}

// Fixture is a server whose pool does as it is told.
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
    const closed = new Promise((done) => this.process.on('close', done))
    this.process.stdin.end()
    await closed
  }
}
