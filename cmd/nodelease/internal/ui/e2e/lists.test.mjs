// The lists below the grid, and the history while no page is open.
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

const shown = (page, text) => page.locator('#shown', { hasText: text }).waitFor()

test('services: from the list to a key and its instance, by click and by link', async (t) => {
  const page = await open(t, path, { size: 64, open: 1, services: 3 }, light)
  await page.locator('#services-title').click()
  await shown(page, '1 service')
  await page.locator('#services td', { hasText: 'shard' }).waitFor()
  await accessible(page, 'services')
  await page.locator('#services button', { hasText: 'stock' }).click()
  await shown(page, '3 live instances')
  assert.match(await page.locator('#services tbody').innerText(), /10\.0\.0\.1:8080\s+eu-west-1a/)
  await page.goBack()
  await page.locator('#services button', { hasText: 'shard' }).click()
  await shown(page, '3 keys')
  await page.locator('#services tbody button', { hasText: /^2$/ }).click()
  await shown(page, '1 live instance')
  assert.equal(new URL(page.url()).hash, '#view=services&endpoint=shard&key=2')
  const node = await page.locator('#services tbody button').innerText()
  await page.locator('#services tbody button').click()
  await page.locator('#chosen-title', { hasText: `Node ID ${node}` }).waitFor()
  const session = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/
  assert.doesNotMatch(await page.evaluate(async () => (await fetch('services?service=stock')).text()), session)

  // The address leads another reader there, and an unknown name is reported.
  await page.goto(page.fixture.url + '#view=services&endpoint=shard&key=1')
  await page.reload()
  await shown(page, '1 live instance')
  await page.goto(page.fixture.url + '#view=services&service=a%20b')
  await page.locator('#services .path', { hasText: 'a b' }).waitFor()
  await page.locator('#services .path', { hasText: /use 1 to 64/ }).waitFor()
  await page.locator('#services .path button').first().click()
  await shown(page, '1 service')
})

test('members: the oldest leads, and one that is gone is not shown', async (t) => {
  const member = (i) => ({ node: `orders-${i}`, session_id: `0190000${i}-0000-7000-8000-000000000000`, zone: 'a' })
  const page = await open(t, path, { size: 64, open: 1, put: [
    { from: 3, state: 'held', metadata: member(3) }, { from: 5, state: 'held', metadata: member(1) }, { from: 6, state: 'expired', metadata: member(2) }, { from: 7, state: 'held' }] }, light, '#view=members')
  await shown(page, '2 members')
  assert.deepEqual(await page.locator('#members tbody tr td:first-child span').allInnerTexts(), ['orders-1', 'orders-3'])
  assert.match(await page.locator('#members tbody tr').first().innerText(), /oldest: leads/)
  await accessible(page, 'members')
  await page.fixture.put({ from: 5, state: 'free' })
  await shown(page, '1 member')
  assert.match(await page.locator('#members tbody tr').first().innerText(), /orders-3\s*oldest: leads/)
  await page.locator('#members tbody button').click()
  await page.locator('#chosen-title', { hasText: 'Node ID 3' }).waitFor()
  // The tabs are one Tab stop; arrows move.
  await page.locator('#members-title').focus()
  await page.keyboard.press('Home')
  await page.locator('#rows tr[data-n="7"]').waitFor()
  assert.equal(await page.locator('#tabs [tabindex="0"]').count(), 1)
})

// No text brings these to the page: control and format characters, and unusual blanks.
const notPlain = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u0590-\u08ff\u115f\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ue000-\uf8ff\ufe00-\ufe0f\ufeff\ufff9-\uffff]/

test('hostile text changes nothing but itself, in holders, members, history and services', async (t) => {
  const page = await open(t, path, { size: 64, open: 1, put: [{ from: 0, state: 'held', task: 'plain', metadata: { node: 'plain', session_id: '01900000-0000-7000-8000-000000000000', zone: 'a' } }] }, light)
  await page.is(0, 'held')
  const foreign = 'img, iframe, script:not([src]), a[href^="http"]:not([rel])'
  const own = await page.locator(foreign).count()
  const said = []
  page.on('dialog', (d) => { said.push(d.message()); d.dismiss() })
  page.on('pageerror', (e) => said.push(String(e)))
  page.on('request', (r) => { if (!r.url().startsWith(page.fixture.url)) said.push(r.url()) })
  await page.fixture.tell({ hostile: true })
  await page.is(48, 'held')
  const sound = async (where) => {
    const [body, widths, elements, polluted] = await page.evaluate((foreign) => [document.body.innerText, [document.documentElement.scrollWidth, innerWidth],
      document.querySelectorAll(foreign).length, ({}).v !== undefined || ({}).label !== undefined], foreign)
    const bad = notPlain.exec(body)
    assert.equal(bad, null, `${where}: U+${bad?.[0].charCodeAt(0).toString(16)} in ${JSON.stringify(body.slice(bad?.index - 40, bad?.index + 40))}`)
    assert.ok(widths[0] <= widths[1], `${where}: the page is as wide as its window, got ${widths}`)
    assert.equal(elements, own, `${where}: elements that no script of ours makes`)
    assert.equal(polluted, false, where)
    assert.deepEqual(said, [], where)
  }
  // Each holder is one row, with the cells of a plain one, and with the same height.
  let plain
  const seen = new Set()
  for (const [order, first] of [['n', 0], ['-n', 48]]) {
    await page.goto(page.fixture.url + `#sort=${order}`)
    await page.locator(`#rows tr[data-n="${first}"]`).waitFor()
    // In one task of the page, which may redraw the rows at any time: a row that is gone has no height.
    const rows = await page.evaluate(() => Array.from(document.querySelectorAll('#rows tr[data-n]'), (r) => [Number(r.dataset.n), r.cells.length, Math.round(r.getBoundingClientRect().height)]))
    plain ??= rows.find((r) => r[0] === 0)
    for (const row of rows) {
      assert.deepEqual(row.slice(1), plain.slice(1), `node ID ${row[0]}`)
      seen.add(row[0])
    }
  }
  assert.ok(seen.size > 20, `${seen.size} rows`)
  await sound('holders')
  for (const n of [1, 10, 20, 30, 40]) {
    await page.goto(page.fixture.url + `#n=${n}`)
    await page.locator('#chosen-title', { hasText: new RegExp(`^Node ID ${n}$`) }).waitFor()
    await sound(`node ID ${n}`)
  }
  await page.goto(page.fixture.url + '#view=members')
  await shown(page, 'members')
  assert.equal(await page.locator('#members tbody tr').filter({ hasText: 'oldest: leads' }).count(), 1)
  assert.match(await page.locator('#members tbody tr').first().innerText(), /^plain/)
  await sound('members')
  await page.goto(page.fixture.url + '#view=services&endpoint=evil')
  await shown(page, 'keys')
  const keys = await page.locator('#services tbody button').allInnerTexts()
  assert.ok(keys.length > 3, `${keys.length} keys`)
  for (const key of keys) {
    await page.goto(page.fixture.url + `#view=services&endpoint=evil&key=${key}`)
    await shown(page, '1 live instance')
    await sound(`instances at key ${key}`)
  }
})

test('events while no page is open are in the history', async (t) => {
  const page = await open(t, path, { size: 64, open: 1 }, light)
  await page.is(7, 'free')
  await page.goto('about:blank')
  await page.fixture.put({ from: 7, state: 'held', task: 'by night' })
  // The reader continues by itself, and reports when it has seen the change.
  const seen = async () => (await (await fetch(page.fixture.url + 'history?q=node%3D7%20kind%3Dclaimed%20task%3Dnight')).json()).total
  while (await seen() === 0);
  await page.fixture.put({ from: 7, state: 'free' })
  await page.goto(page.fixture.url + '#past=node%3D7')
  await page.locator('#news [data-kind="released"]').waitFor()
  assert.match(await page.locator('#news [data-kind="claimed"]').innerText(), /by night/)
  await page.fill('#past', 'node=8')
  await page.locator('#news .none', { hasText: 'No event matches.' }).waitFor()
  // The span of the charts is in the address, too.
  await page.locator('#spans [data-span="360"]').click()
  assert.match(page.url(), /span=360/)
  await page.goBack()
  await page.locator('#spans [data-span="60"][aria-pressed="true"]').waitFor()
})

test('a row that does not change stays, so that a click hits it', async (t) => {
  const page = await open(t, path, { size: 256, open: 1, put: [{ from: 0, to: 30, state: 'held' }] }, light)
  await page.locator('#rows tr[data-n="30"]').waitFor()
  await page.evaluate(() => { window.kept = document.querySelector('#rows tr[data-n="10"]') })
  await page.fixture.put({ from: 5, state: 'free' }, { from: 40, state: 'held' })
  await page.locator('#rows tr[data-n="40"]').waitFor()
  await page.locator('#rows tr[data-n="5"]').waitFor({ state: 'detached' })
  assert.ok(await page.evaluate(() => window.kept.isConnected))
})

test('an outage: its effect now, and grown leases that wait in a full pool are not near expiry', async (t) => {
  const old = { state: 'held', left: 300_000, ttl: 900_000 }
  const page = await open(t, path, { size: 64, open: 1, measured: 1, put: [{ ...old, from: 3, reserve: 7_200_000 }, { ...old, from: 4 }] }, light)
  await page.locator('#late button[data-n="4"]').waitFor()
  assert.equal(await page.locator('#late button').count(), 1)
  assert.match(await page.locator('#outage').innerText(), /^If DynamoDB went away now: 1 holder makes IDs for at least 1 h, \d for at least 5 min, the first stops in 4 min \d+ s\.$/)
  await page.cell(3).click()
  await page.locator('#facts dd', { hasText: /^in 2 h, if DynamoDB went away now$/ }).waitFor()
  await page.locator('#facts dd', { hasText: /^a process holds it and renews in time$/ }).waitFor()
  await accessible(page, 'an outage')
})
