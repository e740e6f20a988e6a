// The real demo, and its page: it shows what happens to the fleet as it happens.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { browser, forget, pictures, program } from './browser.mjs'

const contexts = []
let demo
after(async () => {
  if (demo && demo.exitCode === null) {
    demo.kill('SIGINT')
    await new Promise((done) => demo.on('close', done))
  }
  await Promise.all(contexts.map((c) => c.close()))
  forget()
})

test('kills and freezes of a running fleet are seen', async () => {
  const path = await program('./cmd/nodelease')
  contexts.push(...await Promise.all([browser('light'), browser('dark')]))
  const pages = contexts.map((c) => c.pages()[0])
  demo = spawn(path, ['demo', '--ui', '--plain', '--tasks', '30', '--size', '48', '--ttl', '6s', '--duration', '8m', '--seed', '7'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const url = await new Promise((found) => createInterface({ input: demo.stdout }).on('line', (line) => {
    const at = / page +(http:\S+)/.exec(line)
    if (at) found(at[1])
  }))
  for (const page of pages) {
    page.setDefaultTimeout(600_000)
    await page.goto(url)
  }
  const [page] = pages
  await page.locator('#grid [data-state="held"]').first().waitFor()
  await page.locator('#news [data-kind="SIGSTOP"]').first().waitFor()
  await page.locator('#news [data-kind="kill -9"]').first().waitFor()

  // Both at the same time, on the node IDs concerned, and for the screenshot.
  await page.waitForFunction(() => ['frozen', 'dead'].every((m) => document.querySelector(`#grid [data-mark="${m}"]`)) && document.querySelectorAll('#news li').length > 20)
  const frozen = await page.locator('#grid [data-mark="frozen"]').first().getAttribute('data-id')
  await Promise.all(pages.map(async (p, i) => {
    await p.locator(`#grid [data-id="${frozen}"]`).click()
    await p.screenshot({ path: join(pictures, `ui-demo-${['light', 'dark'][i]}.png`), animations: 'disabled' })
  }))
  assert.match(await page.locator('#line').innerText(), /IDs compared, 0 duplicates$/)
  await page.locator('#news [data-kind="expired"], #news [data-kind="reaped"]').first().waitFor()
})
