// The page in a real Chromium, on a pool that follows orders.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { join } from 'node:path'
import { browser, forget, open, pictures, program, root } from './browser.mjs'

let fixture, light, dark, path
before(async () => {
  path = await program('./cmd/nodelease/internal/ui/e2e/fixture')
  ;[light, dark] = await Promise.all([browser('light'), browser('dark')])
})
after(async () => {
  await Promise.all([light?.close(), dark?.close()])
  forget()
})

// look opens the page on a pool.
const look = async (t, order, in_ = light, hash = '') => {
  const page = await open(t, path, order, in_, hash)
  fixture = page.fixture
  return page
}

const everyState = {
  size: 16, open: 1, put: [
    { from: 0, to: 4, state: 'held' }, { from: 6, state: 'cooling' }, { from: 7, state: 'expired' },
    { from: 8, state: 'retired' }, { from: 9, state: 'corrupt' }, { from: 10, state: 'missing' },
  ],
}

test('every state has a word, a sign and a pattern of its own', async (t) => {
  const page = await look(t, { ...everyState, marks: { 1: 'frozen', 2: 'dead', 3: 'suspended' } })
  const looks = new Set()
  for (const [n, state] of Object.entries({ 0: 'held', 5: 'free', 6: 'cooling', 7: 'expired', 8: 'retired', 9: 'corrupt', 10: 'missing' })) {
    await page.is(n, state)
    assert.match(await page.cell(n).getAttribute('aria-label'), new RegExp(`^${n}\\b.*: ${state}`))
    assert.match(await page.locator(`#legend [data-of="${state}"]`).innerText(), new RegExp(`\\d+\\s*${state}`))
    looks.add(await page.cell(n).locator('i').getAttribute('data-sign') + await page.cell(n).evaluate((e) => {
      const s = getComputedStyle(e)
      return [s.backgroundImage.startsWith('none'), s.borderStyle, s.boxShadow !== 'none', s.backgroundColor === 'rgba(0, 0, 0, 0)'].join()
    }))
  }
  for (const [n, mark] of Object.entries({ 1: 'frozen', 2: 'dead', 3: 'suspended' })) {
    assert.match(await page.cell(n).getAttribute('aria-label'), new RegExp(`${mark}, held`))
    looks.add(await page.cell(n).locator('i').getAttribute('data-sign'))
  }
  assert.equal(looks.size, 10, 'states can be distinguished without colour')
})

test('changes appear without a reload', async (t) => {
  const page = await look(t, { size: 64, open: 1 })
  await page.is(7, 'free')
  await fixture.put({ from: 7, state: 'held', task: 'orders-api/7' })
  await page.is(7, 'held')
  await page.locator('#news [data-n="7"][data-kind="claimed"]', { hasText: 'orders-api/7' }).waitFor()
  await page.locator('#rows tr[data-n="7"]', { hasText: 'orders-api/7' }).waitFor()
  assert.equal(await page.locator('#used').innerText(), '1.6 %')

  await page.cell(7).click()
  const facts = page.locator('#facts')
  await facts.getByText('orders-api/7').waitFor()
  assert.match(await facts.innerText(), /Held since\s*\d\d:\d\d:\d\d, for/)

  await fixture.put({ from: 7, state: 'held', task: 'orders-api/7', left: 600_000, ttl: 3_600_000 })
  await page.locator('#late [data-n="7"]').waitFor()
  await page.locator('[data-id="7"][data-late]').waitFor()
  await fixture.put({ from: 7, state: 'expired', task: 'orders-api/7' })
  await page.is(7, 'expired')
  await fixture.put({ from: 7, state: 'cooling' })
  await page.is(7, 'cooling')
  await page.locator('#late', { hasText: 'None' }).waitFor()
  await page.locator('#news [data-n="7"][data-kind="reaped"]').waitFor()
  await page.waitForFunction(() => /[1-9]\d* claimed and [1-9]\d* ended/.test(document.querySelector('#churn-chart').getAttribute('aria-label')))
})

test('search finds by task, node ID and state', async (t) => {
  const page = await look(t, { size: 256, open: 1, put: [{ from: 0, to: 9, state: 'held' }, { from: 40, state: 'held', task: 'billing/worker-3' }] })
  await page.is(40, 'held')
  await page.keyboard.press('/')
  assert.ok(await page.locator('#query').evaluate((e) => e === document.activeElement))
  await page.keyboard.type('WORKER')
  await page.locator('[data-id="40"][data-found]').waitFor()
  await page.locator('#shown', { hasText: '1 node ID found' }).waitFor()
  assert.equal(await page.locator('#grid [data-found]').count(), 1)
  await page.keyboard.press('Enter')
  await page.waitForFunction(() => document.activeElement.dataset.id === '40')
  assert.equal(await page.locator('#chosen-title').innerText(), 'Node ID 40')

  // Enter waits for the answer, and ignores the answer to an earlier word.
  let hold
  const held = new Promise((go) => { hold = go })
  await page.route('**/find?q=orders-api%2F7*', async (route) => {
    await held
    await route.continue()
  })
  await page.fill('#query', 'orders-api/7')
  await page.keyboard.press('Enter')
  assert.equal(await page.locator('#chosen-title').innerText(), 'Node ID 40')
  hold()
  await page.waitForFunction(() => document.activeElement.dataset.id === '7')
  await page.unrouteAll({ behavior: 'wait' })
  await page.fill('#query', 'worker')

  // Changes during a search are found, too.
  await fixture.put({ from: 41, state: 'held', task: 'billing/worker-4' })
  await page.locator('[data-id="41"][data-found]').waitFor()
  await page.keyboard.press('Escape')
  await page.locator('#shown', { hasText: '12 holders' }).waitFor()
  assert.equal(await page.locator('#grid [data-found]').count(), 0)

  await page.fill('#query', 'nobody has this')
  await page.locator('#shown', { hasText: '0 node IDs found' }).waitFor()
})

test('the keyboard reaches everything', async (t) => {
  const page = await look(t, { size: 256, open: 1, put: [{ from: 17, state: 'held' }] })
  await page.is(17, 'held')
  await page.keyboard.press('g')
  assert.equal(await page.at(), 0)
  for (const [key, n] of [['ArrowRight', 1], ['ArrowDown', 17], ['ArrowLeft', 16], ['ArrowUp', 0], ['ArrowUp', 0], ['End', 15], ['ArrowDown', 31], ['Home', 16], ['Control+End', 255], ['Control+Home', 0], ['PageDown', 255]]) {
    await page.keyboard.press(key)
    assert.equal(await page.at(), n, key)
  }
  const outline = await page.cell(255).evaluate((e) => getComputedStyle(e).outlineStyle)
  assert.equal(outline, 'solid', 'one sees where one is')
  assert.equal(await page.locator('#grid [tabindex="0"]').count(), 1, 'the grid is one stop of Tab')

  await page.keyboard.press('?')
  await page.locator('#help[open]').waitFor()
  await page.keyboard.press('Escape')
  await page.locator('#help:not([open])').waitFor({ state: 'attached' })

  // By Tab through all controls, once around.
  const seen = new Set()
  await page.locator('#query').focus()
  for (let i = 0; i < 30; i++) {
    seen.add(await page.evaluate(() => document.activeElement.id || document.activeElement.dataset.id || document.activeElement.dataset.sort || document.activeElement.className))
    await page.keyboard.press('Tab')
  }
  for (const want of ['query', 'theme', 'ask', '255', 'past', 'log', 'n', 'state', 'task', 'since', 'expires', 'version']) assert.ok(seen.has(want), `${want} of ${[...seen]}`)
})

test('both themes, and a choice that is remembered', async (t) => {
  const background = (p) => p.evaluate(() => getComputedStyle(document.documentElement).backgroundColor)
  const theme = (p) => p.evaluate(() => document.documentElement.dataset.theme)
  const page = await look(t, { ...everyState })
  const there = await dark.newPage()
  await there.goto(fixture.url)
  assert.equal(await theme(page), 'light')
  assert.equal(await theme(there), 'dark')
  assert.notEqual(await background(page), await background(there))
  await there.close()

  await page.locator('#theme').click()
  assert.equal(await theme(page), 'dark')
  await page.reload()
  assert.equal(await theme(page), 'dark')
  await page.keyboard.press('t')
  assert.equal(await theme(page), 'light')
  assert.equal(await page.evaluate(() => localStorage.getItem('theme')), null, 'back at what the system says')
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.locator('html[data-theme="dark"]').waitFor()
})

const busy = [
  { from: 0, to: 640, state: 'held' }, { from: 47, to: 49, state: 'free' }, { from: 301, to: 309, state: 'cooling' }, { from: 371, state: 'free' },
  { from: 422, to: 424, state: 'expired' }, { from: 555, state: 'corrupt' }, { from: 200, to: 201, state: 'held', left: 600_000, ttl: 3_600_000 }, { from: 1000, to: 1023, state: 'retired' },
]

test('1,024 node IDs: an update touches only changed cells', async (t) => {
  const page = await look(t, { size: 1024, open: 4, put: busy })
  await page.is(1023, 'retired')
  assert.equal(await page.locator('#grid [role="gridcell"]').count(), 1024)
  await page.screenshot({ path: join(pictures, 'ui-1024.png'), animations: 'disabled' })
  await fixture.put({ from: 200, to: 201, state: 'held' })
  for (const n of [200, 201]) await page.locator(`[data-id="${n}"][data-late]`).waitFor({ state: 'detached' })
  await page.evaluate(() => {
    window.touched = new Set()
    new MutationObserver((all) => {
      for (const m of all) window.touched.add(m.target.parentElement.closest?.('[data-id]')?.dataset.id ?? m.target.dataset?.id ?? 'grid')
    }).observe(document.getElementById('grid'), { subtree: true, childList: true, attributes: true, attributeFilter: ['data-state', 'aria-label'], characterData: true })
  })
  await fixture.put({ from: 700, state: 'held' }, { from: 0, state: 'free' })
  await page.is(700, 'held')
  await page.is(0, 'free')
  assert.deepEqual(await page.evaluate(() => [...window.touched].sort()), ['0', '700'])
})

test('65,536 node IDs: by group, and one group open', async (t) => {
  const page = await look(t, {
    size: 65536, open: 24, put: [{ from: 0, to: 5700, state: 'held' }, { from: 40_000, state: 'held', task: 'far/away' }, { from: 700, state: 'expired' }, { from: 2000, state: 'corrupt' }, { from: 65_000, to: 65_535, state: 'retired' }],
  }, dark)
  await page.cell(255).waitFor()
  assert.equal(await page.locator('#grid [role="gridcell"]').count(), 256)
  assert.match(await page.cell(0).getAttribute('aria-label'), /^Group 0, 256 held: node IDs 0 to 255/)
  await page.screenshot({ path: join(pictures, 'ui-groups.png'), animations: 'disabled' })

  await page.cell(3).click()
  await page.cell(768).waitFor()
  assert.equal(await page.locator('#grid [role="gridcell"]').count(), 256)
  await fixture.put({ from: 769, state: 'free' })
  await page.is(769, 'free')
  await page.keyboard.press('Escape')
  await page.locator('#grid[data-of="groups"]').waitFor()
  await page.waitForFunction(() => document.activeElement.dataset.id === '3')
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('Enter')
  await page.cell(1024).waitFor()
  await page.keyboard.press('Escape')
  await page.locator('#grid[data-of="groups"]').waitFor()

  // A search opens the group of the match.
  await page.keyboard.press('/')
  await page.keyboard.type('far/away')
  await page.locator('#shown', { hasText: '1 node ID found' }).waitFor()
  await page.locator('[data-id="156"][data-found]').waitFor()
  await page.keyboard.press('Enter')
  await page.cell(40_000).waitFor()
  assert.equal(await page.locator('#chosen-title').innerText(), 'Node ID 40000')
})

test('the page reconnects after the server was gone, and reports when the table is', async (t) => {
  const page = await look(t, { size: 16, open: 1 })
  page.cut = true
  await page.is(3, 'free')
  await fixture.tell({ outage: 'ProvisionedThroughputExceededException' })
  await page.locator('#verdict[data-kind="unreadable"] #advice', { hasText: 'ProvisionedThroughputExceededException' }).waitFor()
  await page.locator('#link[data-link="stale"]', { hasText: /as of \d\d:\d\d:\d\d, \d+ s ago/ }).waitFor()
  await fixture.tell({ outage: '' })
  await page.locator('#verdict[data-kind="ok"]').waitFor()
  await page.locator('#link[data-link="live"]').waitFor()

  await fixture.tell({ stop: true, put: [{ from: 3, state: 'held', task: 'after' }] })
  await page.is(3, 'held')
  await page.locator('#link[data-link="live"]').waitFor()
})

test('vendored files equal the pinned ones of npm', () => {
  for (const [here, there] of Object.entries({
    'uplot/uPlot.iife.min.js': 'uplot/dist/uPlot.iife.min.js', 'uplot/uPlot.min.css': 'uplot/dist/uPlot.min.css', 'uplot/LICENSE': 'uplot/LICENSE',
    'pico/pico.classless.min.css': '@picocss/pico/css/pico.classless.min.css', 'pico/LICENSE': '@picocss/pico/LICENSE.md',
  })) {
    assert.ok(readFileSync(join(root, 'cmd/nodelease/internal/ui/page/vendor', here)).equals(readFileSync(join(root, 'node_modules', there))), here)
  }
})
