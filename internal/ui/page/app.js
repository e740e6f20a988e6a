// The page: it takes in what the server tells and shows it. It sends nothing
// but requests to look.
import { Charts } from './charts.js'
import { Grid, legend } from './grid.js'
import { Lists } from './lists.js'
import { Pool } from './pool.js'
import { Stream } from './stream.js'
import { count, percent } from './words.js'

const $ = (id) => document.getElementById(id)
const pool = new Pool()
const charts = new Charts()
const grid = new Grid($('grid'), { choose, enter })
const lists = new Lists(choose, holders)
let chosen = null // the number that is selected
let found = null // the answer to the search

const links = { live: 'live', lost: 'not connected, trying again …', ended: 'it has ended; waiting for another' }
const stream = new Stream({
  link(state) {
    if ($('link').dataset.link === state) return
    $('link').dataset.link = state
    $('link').textContent = links[state]
  },
  message(event, data) {
    if (event === 'trouble') return trouble(data)
    const change = event === 'all' ? pool.all(data) : pool.turn(data)
    trouble(pool.status.trouble)
    if (event === 'all') {
      begin()
      return show(true)
    }
    const changed = grid.byGroup ? change.groups : change.numbers
    if (changed.some((id) => !grid.has(id))) {
      where() // it has grown
      grid.lay(pool)
    } else for (const id of changed) grid.draw(pool, id)
    show(grid.byGroup ? changed.length > 0 : change.moved)
  },
})

// begin shows a pool, or a group of it, for the first time.
function begin() {
  document.title = `${pool.name} · nodelease`
  $('pool').textContent = pool.name
  $('pool').title = pool.title
  where()
  grid.lay(pool)
  charts.show(pool.history)
  stream.patience = Math.max(20_000, 3 * pool.every)
  if (wanted !== null && grid.has(wanted) && !grid.byGroup) {
    choose(wanted)
    grid.focus(wanted)
  }
  if (grid.byGroup && left !== null) grid.focus(left)
  wanted = left = null
}

function where() {
  const n = pool.status.size
  if (pool.whole) {
    $('where').textContent = `${count(n)} numbers, table ${pool.title}`
  } else if (pool.group < 0) {
    $('where').textContent = `${count(n)} in ${count(pool.groups.length)} groups of 256; ${count(pool.status.open)} open. Choose a group to look into it.`
  } else {
    const back = document.createElement('button')
    back.type = 'button'
    back.textContent = '← All groups'
    back.addEventListener('click', leave)
    $('where').replaceChildren(back, ` Group ${pool.group}: numbers ${pool.group * 256} to ${pool.group * 256 + 255}`)
  }
}

// show shows what changes from turn to turn.
function show(moved) {
  $('used').textContent = percent(pool.status.used)
  legend($('legend'), pool)
  $('line').textContent = pool.status.line ?? ''
  charts.show(pool.history)
  lists.late(pool)
  lists.news(pool)
  lists.chosen(pool, pool.numbers.get(chosen))
  if ($('query').value.trim() || (moved && !pool.whole && pool.group < 0)) search()
  else if (moved) holders()
}

function holders() {
  if (found) return lists.holders(pool, found.first, found.total, found.total === 1 ? 'number found' : 'numbers found')
  const held = [...pool.numbers.values()].filter((n) => n.holder)
  lists.holders(pool, held, held.length, held.length === 1 ? 'number is held' : 'numbers are held')
}

// search asks again while the pool changes; one request at a time.
let asking = false, again = false
async function search() {
  const query = $('query').value.trim()
  const overview = !pool.whole && pool.group < 0
  if (!query && !overview) {
    found = null
    grid.find(null)
    return holders()
  }
  again = asking
  if (asking) return
  asking = true
  try {
    const group = pool.group
    const answer = await (await fetch(`find?q=${encodeURIComponent(query || 'held')}&group=${group}`)).json()
    if (query !== $('query').value.trim() || group !== pool.group) return // it is asked again
    found = answer
    grid.find(query ? new Set(grid.byGroup ? Object.keys(found.groups).map(Number) : found.named) : null)
    holders()
  } catch {
    // The server is away: the link says so.
  } finally {
    asking = false
    if (again || query !== $('query').value.trim()) search()
  }
}

// choose selects a number, in whatever group it is.
let wanted = null // the number to select once its group is there
let left = null // the group that was looked into before
function choose(id) {
  if (!pool.numbers.has(id)) {
    wanted = id
    return enter(Math.floor(id / 256))
  }
  chosen = id
  grid.choose(id)
  lists.chosen(pool, pool.numbers.get(id))
}

function enter(group) { open(group) }
function leave() {
  left = pool.group
  open(-1)
}

function open(group) {
  found = null
  history.replaceState(null, '', group < 0 ? '#' : `#group=${group}`)
  stream.open(group)
}

function trouble(text) {
  $('trouble').hidden = !text
  $('trouble').textContent = text ? `The table could not be read: ${text}. What is shown is from before.` : ''
}

$('query').addEventListener('input', search)
$('search').addEventListener('submit', (e) => {
  e.preventDefault()
  const first = found?.first[0]
  if (!first) return
  choose(first.n)
  grid.focus(first.n)
})
$('theme').addEventListener('click', toggleTheme)
$('ask').addEventListener('click', () => $('help').showModal())

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.altKey || e.metaKey || $('help').open) return
  const typing = e.target.closest('input')
  if (e.key === 'Escape') {
    if ($('query').value) {
      $('query').value = ''
      search()
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
  if (document.hidden || !pool.name) return
  lists.tick(pool)
  lists.late(pool)
  grid.tick(pool)
  if (pool.numbers.has(chosen)) lists.chosen(pool, pool.numbers.get(chosen))
}, 1000)

stream.open(Number(/^#group=(\d+)$/.exec(location.hash)?.[1] ?? -1))
