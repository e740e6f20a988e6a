// The page at every size of pool and window, in both themes: nothing is clipped,
// and nothing overflows its box. Each takes a screenshot: `make layouts` keeps them.
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { browser, Fixture, forget, program, temporary } from './browser.mjs'

const layouts = process.env.LAYOUTS ?? join(temporary, 'layouts')
mkdirSync(layouts, { recursive: true })

let path
const contexts = {}
before(async () => {
  path = await program('./cmd/nodelease/internal/ui/e2e/fixture')
  ;[contexts.light, contexts.dark] = await Promise.all([browser('light'), browser('dark')])
})
after(async () => {
  await Promise.all(Object.values(contexts).map((c) => c.close()))
  forget()
})

// faults lists the texts that do not fit. An ellipsis is not a fault if the full
// text is in a title; and the log scrolls.
function faults() {
  const found = []
  const name = (e) => `${e.tagName.toLowerCase()}${e.id ? '#' + e.id : ''}${e.dataset?.id ? `[${e.dataset.id}]` : ''} "${e.textContent.trim().slice(0, 40)}"`
  if (document.documentElement.scrollWidth > innerWidth) found.push(`the page is ${document.documentElement.scrollWidth} wide, its window ${innerWidth}`)
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let text; (text = walker.nextNode());) {
    const e = text.parentElement
    if (!text.data.trim() || e.closest('noscript, .unseen, dialog:not([open]), .u-wrap') || !e.checkVisibility({ visibilityProperty: true })) continue
    const range = document.createRange()
    range.selectNodeContents(text)
    for (const r of range.getClientRects()) {
      if (!r.width) continue
      if (r.left < -0.5 || r.right > innerWidth + 0.5) {
        const cut = e.closest('.cut, [role="gridcell"] small, li[title] span')
        if (!cut) found.push(`${name(e)} leaves the window: ${r.left.toFixed()} to ${r.right.toFixed()}`)
      }
      for (let box = e; box && box !== document.body; box = box.parentElement) {
        const s = getComputedStyle(box)
        if (s.overflowX === 'visible' && s.overflowY === 'visible') continue
        if (box.id === 'log') break
        if (s.textOverflow === 'ellipsis' && box.closest('[title]')) break
        const b = box.getBoundingClientRect()
        if (r.left < b.left - 1 || r.right > b.right + 1 || r.top < b.top - 2 || r.bottom > b.bottom + 2) found.push(`${name(e)} is clipped by ${name(box)}`)
      }
    }
  }
  for (const input of document.querySelectorAll('input[placeholder]')) {
    const s = getComputedStyle(input), ctx = document.createElement('canvas').getContext('2d')
    ctx.font = s.font
    const room = input.clientWidth - parseFloat(s.paddingLeft) - parseFloat(s.paddingRight)
    if (ctx.measureText(input.placeholder).width > room + 1) found.push(`the placeholder of ${name(input)} has ${room} pixels`)
  }
  // Panels hold their content, and cells do not wrap.
  for (const box of document.querySelectorAll('main > section, aside > section, body > header, figure, tr, li, dl')) {
    const b = box.getBoundingClientRect()
    for (const e of box.children) {
      const r = e.getBoundingClientRect()
      if (r.width && !e.matches('.unseen') && (r.right > b.right + 1 || r.left < b.left - 1)) found.push(`${name(e)} leaves ${name(box)}`)
    }
  }
  for (const b of document.querySelectorAll('[role="gridcell"] b, [role="gridcell"] small, th button, time, aside b, #legend button')) {
    const range = document.createRange()
    range.selectNodeContents(b)
    const lines = new Set([...range.getClientRects()].filter((r) => r.width).map((r) => Math.round(r.bottom / 9)))
    const r = range.getBoundingClientRect(), box = b.getBoundingClientRect()
    if (lines.size > 1 && r.height > 30) found.push(`${name(b)} wraps`)
    if (r.width > box.width + 1 && !b.matches('small') && getComputedStyle(b).display !== 'inline') found.push(`${name(b)} overflows`)
  }
  // An element on the title of its panel hides it.
  for (const [a, b] of [['#where', '#node-ids-title'], ['#shown', '#holders-title']]) {
    const x = document.querySelector(a).getBoundingClientRect(), y = document.querySelector(b).getBoundingClientRect()
    const range = document.createRange()
    range.selectNodeContents(document.querySelector(b))
    const t = range.getBoundingClientRect()
    if (x.width && x.left < t.right && x.top < t.bottom && x.bottom > t.top && x.right > y.left) found.push(`${a} lies on ${b}`)
  }
  return [...new Set(found)]
}

const pools = {
  65536: [{ from: 0, to: 45_000, state: 'held' }, { from: 4000, to: 4100, state: 'expired' }, { from: 9000, to: 9300, state: 'cooling' }, { from: 65_000, to: 65_535, state: 'retired' }, { from: 20_000, state: 'corrupt' },
    { from: 12_000, to: 12_009, state: 'held', left: 600_000, ttl: 3_600_000, task: 'arn:aws:ecs:eu-west-1:123456789012:task/production/0123456789abcdef0123456789abcdef' }],
  1024: [{ from: 0, to: 640, state: 'held' }, { from: 301, to: 309, state: 'cooling' }, { from: 422, to: 424, state: 'expired' }, { from: 555, state: 'corrupt' }, { from: 1000, to: 1023, state: 'retired' },
    { from: 200, to: 207, state: 'held', left: 600_000, ttl: 3_600_000 }],
  64: [{ from: 0, to: 63, state: 'held' }, { from: 7, state: 'expired' }, { from: 9, to: 10, state: 'held', left: 600_000, ttl: 3_600_000 }],
  3: [{ from: 0, state: 'held', task: 'arn:aws:ecs:eu-west-1:123456789012:task/production/0123456789abcdef0123456789abcdef' }],
}

for (const [size, put] of Object.entries(pools)) {
  test(`${size} node IDs fit windows of 1440, 1024, 390 and 320 pixels in both themes`, async (t) => {
    const fixture = await Fixture.start(path, { size: Number(size), open: Math.ceil(size / 256), put })
    t.after(() => fixture.end())
    const wrong = []
    for (const [theme, context] of Object.entries(contexts)) {
      const page = await context.newPage()
      page.setDefaultTimeout(60_000)
      await page.goto(fixture.url)
      await page.locator('#rows tr').first().waitFor()
      if (size < 65536) await page.locator('[data-id="0"]').click()
      // Events of all lengths.
      await fixture.put({ from: 1, state: 'free' }, { from: 2, state: 'expired' })
      await page.locator('#news [data-n="1"], #news [data-n="2"]').first().waitFor()
      for (const [width, height] of [[1440, 900], [1024, 768], [390, 844], [320, 640]]) {
        await page.setViewportSize({ width, height })
        await page.waitForFunction(() => {
          const grid = document.getElementById('grid')
          return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(grid.children.length > 0))))
        })
        for (const f of await page.evaluate(faults)) wrong.push(`${theme} ${width}: ${f}`)
        const holes = await page.evaluate(() => {
          const rows = [...document.querySelectorAll('#grid [role="row"]')].map((r) => r.querySelectorAll('[role="gridcell"]').length)
          return rows.length && rows.at(-1) !== rows[0] ? rows : []
        })
        if (holes.length) wrong.push(`${theme} ${width}: rows of ${holes} cells`)
        await page.screenshot({ path: join(layouts, `ui-${size}-${width}-${theme}.png`), fullPage: true, animations: 'disabled' })
      }
      // And the inside of a group.
      if (size === '65536' && theme === 'light') {
        await page.locator('[data-id="0"]').click()
        await page.locator('#grid[data-of="node-ids"]').waitFor()
        for (const f of await page.evaluate(faults)) wrong.push(`a group, 320: ${f}`)
      }
      await fixture.put({ from: 1, to: 2, state: 'held' })
      await page.close()
    }
    assert.deepEqual(wrong, [])
  })
}

test('the check sees what is clipped, wrapped, or too wide', async (t) => {
  const fixture = await Fixture.start(path, { size: 64, open: 1, put: pools[64] })
  t.after(() => fixture.end())
  const page = await contexts.light.newPage()
  await page.goto(fixture.url)
  await page.locator('#rows tr').first().waitFor()
  for (const [css, want] of [
    ['#headline { display: block; width: 80px; white-space: nowrap; overflow: hidden; }', /is clipped by strong#headline/],
    ['#legend { width: 30px; } #legend button[type] { display: block; }', /wraps/],
    ['#summary { width: 3000px; }', /the page is 3\d\d\d wide/],
    ['#where { left: 16px; }', /#where lies on #node-ids-title/],
  ]) {
    const style = await page.evaluateHandle((css) => {
      const sheet = new CSSStyleSheet()
      sheet.replaceSync(css)
      document.adoptedStyleSheets = [sheet]
    }, css)
    await style.dispose()
    const found = await page.evaluate(faults)
    assert.ok(found.some((f) => want.test(f)), `${css}: want ${want}, got ${found.slice(0, 5)}`)
  }
  await page.close()
})
