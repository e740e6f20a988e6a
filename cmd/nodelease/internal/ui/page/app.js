// The page: it receives the server's messages and shows them. It sends only
// requests to read.
import { Charts } from './charts.js'
import { Grid, legend } from './grid.js'
import { Lists } from './lists.js'
import { Pool } from './pool.js'
import { Stream } from './stream.js'
import { Table } from './table.js'
import { Tabs } from './tabs.js'
import { Verdict } from './verdict.js'
import { View } from './view.js'
import { count, percent, write } from './words.js'

const $ = (id) => document.getElementById(id)
const pool = new Pool()
const charts = new Charts()
const verdict = new Verdict()
const grid = new Grid($('grid'), { choose: (id, step) => view.go({ n: id }, step), enter: (group) => view.go({ group, n: null }, true) })
const filter = (word) => view.go({ q: word, page: 0, view: '' }, true)
const lists = new Lists(choose, filter)
const view = new View(viewed)
const table = new Table(view, choose, filter)
const tabs = new Tabs(view, choose)
let link = 'wait'
let found = null // the answer to the search

const stream = new Stream({
  link(state) {
    if (link === state) return
    link = state
    verdict.show(pool, link)
  },
  message(event, data) {
    if (event === 'trouble') {
      pool.trouble(data)
      named()
    } else {
      const change = event === 'all' ? pool.all(data) : pool.turn(data)
      if (event === 'all') begin()
      else draw(change)
      show(event === 'turn' && change.nodeIDs.length + change.groups.length > 0)
    }
    verdict.show(pool, link)
  },
})

// named shows the pool's name.
function named() {
  $('pool').textContent = pool.name
  $('pool').title = `${pool.name}, table ${pool.title ?? ''}`
}

// begin shows a pool, or one of its groups, for the first time.
function begin() {
  named()
  where()
  grid.lay(pool)
  stream.patience = Math.max(20_000, 3 * pool.every)
  if (view.n !== null && grid.has(view.n) && !grid.byGroup) {
    grid.choose(view.n)
    if (wanted) grid.focus(view.n)
  }
  if (grid.byGroup && left !== null) grid.focus(left)
  wanted = false
  left = null
}

// draw shows the changes in the grid.
function draw(change) {
  const changed = grid.byGroup ? change.groups : change.nodeIDs
  if (changed.some((id) => !grid.has(id))) {
    where() // it has grown
    grid.lay(pool)
  } else for (const id of changed) grid.draw(pool, id)
}

function where() {
  const n = pool.status.size
  if (pool.whole) {
    $('where').textContent = `${count(n)} node IDs, table ${pool.title}`
  } else if (pool.group < 0) {
    $('where').textContent = `${count(n)} in ${count(pool.groups.length)} groups of 256, ${count(pool.status.open)} open; each filled in proportion to its use. Select one to open it.`
  } else {
    const back = document.createElement('button')
    back.type = 'button'
    back.textContent = '← All groups'
    back.addEventListener('click', leave)
    $('where').replaceChildren(back, ` Group ${pool.group}: node IDs ${pool.group * 256} to ${pool.group * 256 + 255}`)
  }
}

// show shows the parts that change with each update; busy: much else changes, too.
let shown = 0 // time of the last show
function show(busy) {
  shown = Date.now()
  write($('used'), percent(pool.status.used))
  legend($('legend'), pool, filter)
  write($('line'), pool.status.line ?? '')
  write($('outage'), pool.status.outage ?? '')
  charts.show(pool, undefined, busy)
  lists.late(pool)
  lists.news(pool, view.past)
  lists.chosen(pool, pool.nodeIDs.get(view.n))
  search()
}

// search repeats the query while the pool changes; one request at a time.
let asking = false, again = false
async function search() {
  again = asking
  if (asking || !pool.name) return
  asking = true
  const about = () => JSON.stringify([view.q, view.sort, tabs.asks, pool.group])
  const asked = about(), q = view.q.trim(), here = view.view
  const get = async (what) => (await fetch(what)).json()
  try {
    // The holders' table, and the marks in the grid.
    const [answer, list] = await Promise.all([
      here && !q ? null : get(`find?${new URLSearchParams({ q, sort: view.sort, page: here ? 0 : view.page, group: pool.group })}`), here ? get(tabs.asks) : null])
    if (asked === about()) {
      found = answer && { ...answer, q }
      grid.find(q ? new Set(grid.byGroup ? Object.keys(found.groups).map(Number) : found.named) : null)
      if (here) tabs.show(pool, list)
      else {
        table.show(pool, found)
        tabs.sized(found, q ? (found.total === 1 ? '1 node ID found' : `${count(found.total)} node IDs found`) : found.total === 1 ? '1 holder' : `${count(found.total)} holders`)
      }
      if (going) go()
    } else again = true
  } catch {
    // The server is unreachable: the link shows that.
  } finally {
    asking = false
    if (again) search()
  }
}

// go selects the first match. If the answer has not arrived yet, it waits
// for it.
let going = false
function go() {
  going = found?.q !== view.q.trim()
  const first = !going && found.first[0]
  if (!first) return
  choose(first.n)
  grid.focus(first.n)
}

// viewed shows the view that the address names.
let wanted = false // the selected node ID gets the focus once its group is loaded
let left = null // the group that was open before
function viewed(before) {
  if ($('query').value !== view.q) $('query').value = view.q
  if ($('past').value !== view.past) $('past').value = view.past
  if (view.q !== before.q) going = false
  if (view.view !== before.view) tabs.viewed()
  if (view.span !== before.span) charts.span(view.span)
  if (view.group !== before.group) {
    if (view.group < 0) left = before.group
    stream.open(view.group)
  }
  if (!pool.name || !pool.status.size) return
  if (view.n !== before.n) {
    grid.choose(view.n)
    lists.chosen(pool, pool.nodeIDs.get(view.n))
  }
  if (view.past !== before.past) lists.news(pool, view.past)
  if (['q', 'sort', 'page', 'view', 'service', 'endpoint', 'key'].some((k) => view[k] !== before[k])) search()
}

// choose selects a node ID of any group.
function choose(id) {
  const group = Math.floor(id / 256)
  if (pool.nodeIDs.has(id)) return view.go({ n: id }, true)
  wanted = true
  view.go({ n: id, group }, true)
}

function leave() { view.go({ group: -1, n: null }, true) }

$('query').addEventListener('input', () => view.go({ q: $('query').value, page: 0 }))
$('past').addEventListener('input', () => view.go({ past: $('past').value }))
$('search').addEventListener('submit', (e) => {
  e.preventDefault()
  if (view.q.trim()) go()
})
$('theme').addEventListener('click', toggleTheme)
$('ask').addEventListener('click', () => $('help').showModal())

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey || $('help').open) return
  const typing = e.target.closest('input')
  if (e.key === 'Escape') {
    if (typing === $('past')) view.go({ past: '' })
    else if (view.q) {
      view.go({ q: '', page: 0 })
      grid.focus()
    } else if (typing) grid.focus()
    else if (!pool.whole && pool.group >= 0) leave()
    else return
  } else if (typing) return
  else if (e.key === '/') $('query').focus()
  else if (e.key === '?') $('help').showModal()
  else if (e.key === 't') toggleTheme()
  else if (e.key === 'g') grid.focus()
  else return
  e.preventDefault()
})

// Time passes between messages.
setInterval(() => {
  if (document.hidden || !pool.name || Date.now() - shown < 900) return
  verdict.show(pool, link)
  if (!pool.status.size) return
  table.tick(pool)
  lists.late(pool)
  grid.tick(pool)
  if (pool.nodeIDs.has(view.n)) lists.chosen(pool, pool.nodeIDs.get(view.n))
}, 1000)

$('spans').addEventListener('click', (e) => e.target.dataset.span && view.go({ span: Number(e.target.dataset.span) }, true))

$('query').value = view.q
$('past').value = view.past
tabs.viewed()
charts.span(view.span)
stream.open(view.group)
