// How the page reports problems, and stale data.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { accessible, browser, forget, open, program } from './browser.mjs'

let light, path
before(async () => {
  path = await program('./cmd/nodelease/internal/ui/e2e/fixture')
  light = await browser('light')
})
after(async () => {
  await light?.close()
  forget()
})

const some = { size: 64, open: 1, put: [{ from: 0, to: 20, state: 'held' }] }
const verdict = (page, kind) => page.locator(`#verdict[data-kind="${kind}"]`).waitFor()
const icon = (page) => page.locator('#icon').getAttribute('href')

// Each state: the order, the page's name for it, its level, and a command.
const states = {
  empty: [{ size: 64, open: 1 }, 'ok', 'ok', ''],
  normal: [some, 'ok', 'ok', ''],
  full: [{ size: 64, open: 1, put: [{ from: 0, to: 63, state: 'held' }] }, 'full', 'bad', 'nodelease resize --size 128 --table leases --pool orders'],
  'nearly full': [{ size: 64, open: 1, put: [{ from: 0, to: 55, state: 'held' }] }, 'nearly full', 'warn', 'nodelease resize --size 128 --table leases --pool orders'],
  'mostly expired': [{ size: 572, open: 3, put: [{ from: 0, to: 530, state: 'expired' }, { from: 531, to: 571, state: 'held' }] }, 'mostly expired', 'bad', 'nodelease doctor --table leases --pool orders'],
  unmeasured: [{ ...some, measured: 40 }, 'unmeasured', 'warn', 'nodelease doctor --table leases --pool orders'],
  corrupt: [{ size: 64, open: 1, put: [{ from: 9, state: 'corrupt' }] }, 'corrupt', 'warn', 'nodelease doctor --table leases --pool orders'],
  unreachable: [{ ...some, outage: 'dial tcp 127.0.0.1:8000: connection refused' }, 'unreadable', 'bad', 'nodelease doctor --table leases --pool orders'],
  denied: [{ ...some, outage: 'denied' }, 'denied', 'bad', 'nodelease doctor --table leases --pool orders'],
  unseeded: [{ ...some, outage: 'unseeded' }, 'unseeded', 'bad', 'nodelease seed --size 1024 --table leases --pool orders'],
  '65,536': [{ size: 65536, open: 24, put: [{ from: 0, to: 5700, state: 'held' }, { from: 700, state: 'cooling' }] }, 'ok', 'ok', ''],
}

const icons = { ok: 'icon.svg', note: 'icon.svg', warn: 'icon-warn.svg', bad: 'icon-bad.svg' }

for (const [name, [order, kind, level, command]] of Object.entries(states)) {
  test(`${name}: headline, level, title, icon and command; axe-core finds nothing`, async (t) => {
    const page = await open(t, path, order, light)
    await verdict(page, kind)
    assert.equal(await page.locator('#verdict').getAttribute('data-level'), level)
    const title = level === 'ok' || level === 'note' ? 'orders · nodelease' : `${kind[0].toUpperCase()}${kind.slice(1)} · orders · nodelease`
    assert.equal(await page.title(), title)
    assert.equal(await icon(page), icons[level])
    if (command) assert.equal(await page.locator('#command').innerText(), command)
    else assert.ok(await page.locator('#remedy').isHidden(), 'a pool that is well has no remedy')
    if (level === 'bad' || level === 'warn') assert.match(await page.locator('#since').innerText(), /since \d\d:\d\d:\d\d or earlier/)
    await page.cell(3).click({ timeout: order.outage ? 1 : 60_000 }).catch((e) => { if (!order.outage) throw e })
    await accessible(page, name)
    await page.keyboard.press('t')
    await accessible(page, `${name}, dark`)
    await page.keyboard.press('t')
  })
}

test('the verdict follows the pool, and states since when', async (t) => {
  const page = await open(t, path, some, light)
  await verdict(page, 'ok')
  await page.fixture.put({ from: 0, to: 63, state: 'held' })
  await verdict(page, 'full')
  assert.match(await page.locator('#since').innerText(), /^since \d\d:\d\d:\d\d$/)
  assert.match(await page.locator('#headline').innerText(), /Full: all 64 node IDs are taken/)
  assert.match(await page.title(), /^Full · orders/)
  await page.fixture.put({ from: 0, to: 63, state: 'free' })
  await verdict(page, 'ok')
  assert.equal(await icon(page), 'icon.svg')
})

test('a server that has gone leaves a page that is visibly stale', async (t) => {
  const page = await open(t, path, some, light)
  page.cut = true
  await page.is(3, 'held')
  await page.fixture.end()
  await page.locator('#link[data-link="lost"], #link[data-link="ended"]').waitFor()
  await page.locator('#link', { hasText: /^stale: as of \d\d:\d\d:\d\d, \d+ s ago$/ }).waitFor()
  assert.equal(await page.locator('#verdict').getAttribute('data-level'), 'stale')
  assert.equal(await icon(page), 'icon-stale.svg')
  assert.match(await page.locator('#since').innerText(), /data shown as of/)
  assert.match(await page.locator('#grid').evaluate((e) => getComputedStyle(e).filter), /opacity/)
  // The age keeps growing.
  const age = Number(/, (\d+) s ago/.exec(await page.locator('#link').innerText())[1])
  await page.waitForFunction((age) => Number(/, (\d+) s ago/.exec(document.getElementById('link').textContent)[1]) > age, age)
  await accessible(page, 'stale')
})

test('the projection and the threshold are in the chart', async (t) => {
  const page = await open(t, path, { size: 256, open: 1 }, light)
  for (let n = 0; n < 60; n += 4) {
    await page.fixture.put({ from: n, to: n + 3, state: 'held' })
    await page.is(n + 3, 'held')
  }
  await page.locator('#used-now', { hasText: /full in about \d+ (s|min|h) at this rate/ }).waitFor()
  assert.match(await page.locator('#used-chart').getAttribute('aria-label'), /warning at 80 %, full in about/)
  await verdict(page, 'filling')
})

test('near expiry: the next to expire comes first, and expired ones are separate', async (t) => {
  const page = await open(t, path, { size: 64, open: 1, put: [
    { from: 0, to: 9, state: 'expired' }, { from: 20, state: 'held', left: 3_000_000, ttl: 36_000_000 }, { from: 21, state: 'held', left: 900_000, ttl: 36_000_000 },
    ...[...Array(9).keys()].map((i) => ({ from: 30 + i, state: 'held', left: 4_000_000 + i, ttl: 36_000_000 })),
  ] }, light)
  await page.locator('#late [data-n]').first().waitFor()
  assert.deepEqual(await page.evaluate(() => Array.from(document.querySelectorAll('#late [data-n]'), (e) => e.dataset.n)), ['21', '20', '30', '31', '32', '33'])
  assert.equal(await page.locator('#late .none').innerText(), 'and 5 more')
  assert.equal(await page.locator('#gone-title').innerText(), 'Expired: 10')
  await page.locator('#gone .none button').click()
  await page.locator('#shown', { hasText: '10 node IDs found' }).waitFor()
  assert.equal(new URL(page.url()).hash, '#q=state%3Dexpired')
})

test('holders: every one can be reached, sorted and filtered, by a link too', async (t) => {
  const page = await open(t, path, { size: 1024, open: 4, put: [
    { from: 0, to: 571, state: 'held' }, { from: 600, to: 611, state: 'held', task: 'billing worker', metadata: { zone: 'eu-west-1z', version: '2.1.0' } }] }, light)
  const first = () => page.locator('#rows tr').first().getAttribute('data-n')
  const row = (n) => page.locator(`#rows tr[data-n="${n}"]`)
  await page.locator('#shown', { hasText: '1 to 50 of 584 holders' }).waitFor()
  await page.locator('#pages [data-to="last"]').click()
  await page.locator('#shown', { hasText: '551 to 584 of 584 holders' }).waitFor()
  await row(611).waitFor()
  assert.equal(await page.locator('#rows tr').count(), 34)
  assert.match(page.url(), /#page=12$/)

  // Sorted over all, not only over the visible rows.
  await page.locator('[data-sort="n"]').click()
  await page.locator('#rows tr[data-n="611"]:first-child').waitFor()
  assert.match(page.url(), /#sort=-n$/)
  assert.equal(await page.locator('th[aria-sort="descending"] button').innerText(), 'Node ID')

  // A click on a value filters by it; the back button undoes that.
  await row(611).locator('[data-filter="zone=eu-west-1z"]').click()
  await page.locator('#shown', { hasText: '12 node IDs found' }).waitFor()
  await page.goBack()
  await page.locator('#shown', { hasText: 'of 584 holders' }).waitFor()
  assert.equal(await page.locator('#query').inputValue(), '')
  await row(611).locator('[data-filter^="task="]').click()
  await page.locator('#shown', { hasText: '12 node IDs found' }).waitFor()
  for (const [query, total] of [['version=2.1', 12], ['state=held zone=eu-west-1a', 191], ['node=605', 1], ['state=free', 440]]) {
    await page.fill('#query', query)
    await page.locator('#shown', { hasText: `${total} node ID` }).waitFor()
  }

  // One Tab stop for all rows; the arrows move, and updates keep the place.
  await page.fill('#query', '')
  await page.locator('#shown', { hasText: 'of 584 holders' }).waitFor()
  assert.equal(await page.locator('#rows [tabindex="0"]').count(), 1)
  await page.locator('#rows [tabindex="0"]').focus()
  await page.keyboard.press('ArrowDown')
  const at = () => page.evaluate(() => document.activeElement.dataset.key)
  const before = await at()
  await page.fixture.put({ from: 900, state: 'held' })
  await page.locator('#shown', { hasText: 'of 585 holders' }).waitFor()
  assert.equal(await at(), before)

  // The address leads another reader to the same view.
  const other = await light.newPage()
  other.setDefaultTimeout(60_000)
  await other.goto(page.fixture.url + '#q=zone%3Deu-west-1z&sort=-n&n=605')
  await other.locator('#shown', { hasText: '12 node IDs found' }).waitFor()
  assert.equal(await other.locator('#rows tr').first().getAttribute('data-n'), '611')
  assert.equal(await other.locator('#chosen-title').innerText(), 'Node ID 605')
  await other.close()
  assert.ok(await first())
})

test('a hostile holder cannot freeze the page or forge its text', async (t) => {
  const long = 'x'.repeat(100_000)
  const page = await open(t, path, { size: 64, open: 1, put: [
    { from: 1, state: 'held', task: long, metadata: { [long]: long, zone: '\u202eevil\u001b[2J\n<b>' } }] }, light)
  await page.is(1, 'held')
  await page.cell(1).click()
  await page.locator('#chosen-title', { hasText: 'Node ID 1' }).waitFor()
  const most = await page.evaluate(() => Math.max(...[...document.querySelectorAll('*')].flatMap((e) => [...[...e.attributes].map((a) => a.value.length), ...[...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.length)])))
  assert.ok(most < 3000, `the longest text is bounded, got ${most} characters`)
  assert.doesNotMatch(await page.locator('body').innerText(), /[\u001b\u202e]/)
  const widths = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth])
  assert.ok(widths[0] <= widths[1], `the page is as wide as its window, got ${widths}`)
})

test('the session of a holder stays in the server', async (t) => {
  const page = await open(t, path, { size: 16, open: 1, put: [{ from: 1, state: 'held' }] }, light)
  const session = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/
  await page.is(1, 'held')
  await page.cell(1).click()
  await page.locator('#facts dd', { hasText: /^…[0-9a-f]{8}$/ }).waitFor()
  const found = await page.evaluate(async () => (await fetch('find?q=held')).text())
  assert.match(found, /"total":1/)
  assert.doesNotMatch(found, session)
  assert.doesNotMatch(await page.locator('html').evaluate((e) => e.outerHTML), session)
})

test('events are kept beyond the open page, and can be filtered', async (t) => {
  const page = await open(t, path, { size: 64, open: 1 }, light)
  await page.is(7, 'free')
  await page.fixture.put({ from: 7, state: 'held', task: 'orders-api/seven' })
  await page.is(7, 'held')
  await page.fixture.put({ from: 7, state: 'free' }, { from: 8, to: 40, state: 'held' })
  await page.is(40, 'held')
  await page.reload()
  await page.is(40, 'held')
  await page.fill('#past', '7')
  await page.locator('#told', { hasText: /found/ }).waitFor()
  await page.locator('#news [data-n="7"][data-kind="released"]').waitFor()
  assert.ok(await page.locator('#news [data-n="7"][data-kind="claimed"]').count())
  await page.fill('#past', 'claimed')
  await page.locator('#told', { hasText: '34 found' }).waitFor()
  await page.cell(7).click()
  await page.locator('#facts', { hasText: /Before\s*session …[0-9a-f]{8}, v1.*: released/ }).waitFor()
})

test('nothing moves with prefers-reduced-motion', async (t) => {
  const page = await open(t, path, some, light)
  await page.emulateMedia({ reducedMotion: 'reduce' })
  const moving = await page.evaluate(() => [...document.querySelectorAll('*')].filter((e) => {
    const s = getComputedStyle(e)
    return s.animationName !== 'none' || s.transitionDuration.split(', ').some((d) => d !== '0s') && s.transitionProperty !== 'none'
  }).length)
  assert.equal(moving, 0)
})
