// The grid: node IDs, or the groups of a large pool. One element per cell; only
// changed cells are touched.
import { brief, count, el, meanings, signs, states, write } from './words.js'

const groupSize = 256

export class Grid {
  #root
  #cells = new Map()
  #columns = 1
  #at // the cell that Tab leads to
  #chosen = null
  #found = null
  #pool
  #on

  // on: { choose(id, step), enter(group) }
  constructor(root, on) {
    this.#root = root
    this.#on = on
    root.addEventListener('keydown', (e) => this.#key(e))
    root.addEventListener('focusin', (e) => e.target.dataset.id && this.#rove(Number(e.target.dataset.id)))
    root.addEventListener('click', (e) => {
      const cell = e.target.closest('[data-id]')
      if (cell) this.#open(Number(cell.dataset.id))
    })
    let width = 0
    new ResizeObserver(() => {
      if (this.#pool && root.clientWidth !== width) this.lay(this.#pool)
      width = root.clientWidth
    }).observe(root)
  }

  get byGroup() { return this.#root.dataset.of === 'groups' }

  // lay rebuilds the grid for the visible part of the pool.
  lay(pool) {
    this.#pool = pool
    const byGroup = !pool.whole && pool.group < 0
    const ids = byGroup ? pool.groups.map((_, i) => i) : [...pool.nodeIDs.keys()].sort((a, b) => a - b)
    const keep = this.#root.contains(document.activeElement)
    const n = ids.length
    const { columns, size, narrow, heads } = shape(n, this.#root.clientWidth, byGroup)
    this.#columns = columns
    this.#root.dataset.of = byGroup ? 'groups' : 'node-ids'
    this.#root.dataset.size = size
    set(this.#root, 'narrow', narrow ? 'narrow' : undefined)
    set(this.#root, 'heads', heads ? 'heads' : undefined)
    this.#root.style.setProperty('--columns', columns)
    this.#root.setAttribute('aria-colcount', columns)
    this.#cells = new Map()
    const rows = []
    for (let i = 0; i < n; i += columns) {
      const row = el('div', null, { role: 'row' })
      if (heads) row.append(el('span', ids[i], { 'aria-hidden': 'true', class: 'first' }))
      for (const id of ids.slice(i, i + columns)) {
        const cell = el('div', null, { role: 'gridcell', tabindex: -1, 'data-id': id })
        cell.append(el('b'), ' ', el('i'), ' ', el('small'))
        this.#cells.set(id, cell)
        row.append(cell)
      }
      // Few cells fill the width, without a gap at the end.
      if (size === 'large' && i > 0 && n - i < columns) row.style.setProperty('--columns', n - i)
      rows.push(row)
    }
    this.#root.replaceChildren(...rows)
    for (const id of ids) this.draw(pool, id)
    if (this.#chosen !== null) this.choose(this.#chosen)
    if (this.#found) this.find(this.#found)
    this.#rove(this.#cells.has(this.#at) ? this.#at : ids[0])
    if (keep) this.focus()
  }

  draw(pool, id) {
    const cell = this.#cells.get(id)
    if (!cell) return
    if (this.byGroup) this.#drawGroup(cell, pool, id)
    else this.#drawNodeID(cell, pool, pool.nodeIDs.get(id))
  }

  has(id) { return this.#cells.has(id) }

  #drawNodeID(cell, pool, n) {
    if (!n) return
    const mark = pool.mark(n)
    const [name, sign, task] = cell.children
    set(cell, 'state', n.state)
    set(cell, 'mark', mark)
    write(name, n.n)
    set(sign, 'sign', signs[mark] ?? signs[n.state])
    write(task, brief(n.task).replace(/^.*\/(?=[0-9a-f]{32}$)/, ''))
    this.#drain(cell, pool, n)
    const label = `${n.n}${n.task ? ', ' + n.task : ''}: ${mark ? mark + ', ' : ''}${n.state}`
    if (cell.title !== label) {
      cell.title = label
      cell.setAttribute('aria-label', label)
    }
  }

  // drain shows how much of a lease is left once its holder is late.
  #drain(cell, pool, n) {
    const late = n.state === 'held' && pool.late(n)
    if (late) cell.style.setProperty('--left', `${Math.round(pool.left(n) * 100)}%`)
    set(cell, 'late', late ? 'late' : undefined)
  }

  // tick lets time pass for the leases that run low.
  tick(pool) {
    if (this.byGroup) return
    const late = new Set(pool.status.late.map((n) => n.n))
    for (const id of late) {
      const n = pool.nodeIDs.get(id)
      if (n && this.has(id)) this.#drain(this.#cells.get(id), pool, n)
    }
  }

  #drawGroup(cell, pool, g) {
    const counts = pool.groups[g] ?? states.map(() => 0)
    const [name, sign, text] = cell.children
    const [held, free, cooling, expired, , corrupt] = counts
    const usable = held + free + cooling + expired
    const share = (n) => `${usable ? Math.round((100 * n) / usable) : 0}%`
    const open = g < pool.status.open
    const state = corrupt ? 'corrupt' : expired ? 'expired' : held ? 'held' : usable ? 'free' : 'retired'
    set(cell, 'state', state)
    set(cell, 'closed', open ? undefined : 'closed')
    const shares = `--held-to: ${share(held)}; --expired-to: ${share(held + expired)}; --cooling-to: ${share(held + expired + cooling)}`
    if (cell.style.cssText !== shares) cell.style.cssText = shares
    write(name, g)
    set(sign, 'sign', corrupt || expired ? signs[state] : '')
    write(text, held ? count(held) : '')
    const label = `Group ${g}, ` + (states.map((s, i) => (counts[i] ? `${count(counts[i])} ${s}` : '')).filter(Boolean).join(', ') || 'nothing') +
      `: node IDs ${g * groupSize} to ${g * groupSize + groupSize - 1}${open ? '' : '; not open yet'}`
    if (cell.title !== label) {
      cell.title = label
      cell.setAttribute('aria-label', label)
    }
  }

  // choose marks the selected node ID.
  choose(id) {
    this.#chosen = id
    for (const c of this.#root.querySelectorAll('[aria-selected]')) c.removeAttribute('aria-selected')
    if (this.has(id) && !this.byGroup) this.#cells.get(id).setAttribute('aria-selected', 'true')
  }

  // find dims all but the node IDs, or groups, that were found; null ends that.
  find(found) {
    this.#found = found
    set(this.#root, 'finding', found ? 'finding' : undefined)
    for (const [id, cell] of this.#cells) set(cell, 'found', found?.has(id) ? 'found' : undefined)
  }

  focus(id = this.#at) {
    this.#rove(id)
    this.#cells.get(this.#at)?.focus()
  }

  #rove(id) {
    if (!this.has(id)) return
    if (this.has(this.#at)) this.#cells.get(this.#at).tabIndex = -1
    this.#at = id
    this.#cells.get(id).tabIndex = 0
  }

  #open(id) {
    this.focus(id)
    if (this.byGroup) this.#on.enter(id)
    else this.#on.choose(id, true)
  }

  #key(e) {
    const ids = [...this.#cells.keys()]
    const i = ids.indexOf(this.#at)
    const row = i - (i % this.#columns)
    const to = {
      ArrowLeft: i - 1, ArrowRight: i + 1, ArrowUp: i - this.#columns, ArrowDown: i + this.#columns,
      Home: e.ctrlKey ? 0 : row, End: e.ctrlKey ? ids.length - 1 : Math.min(row + this.#columns, ids.length) - 1,
      PageUp: i % this.#columns, PageDown: ids.length - 1,
    }[e.key]
    if (e.key === 'Enter' || e.key === ' ') this.#open(this.#at)
    else if (to === undefined || e.altKey || e.metaKey) return
    else if (ids[to] !== undefined) {
      this.focus(ids[to])
      if (!this.byGroup) this.#on.choose(ids[to], false)
    }
    e.preventDefault()
  }
}

// shape returns how n cells are laid out in a width: as many columns as fit, and
// for few cells as many as leave no gap in the last row, or nearly none.
function shape(n, width, byGroup) {
  if (n <= 64) {
    const most = Math.max(1, Math.min(n, 8, Math.floor(width / 58)))
    let columns = most
    while (columns > 1 && n % columns) columns--
    if (columns * 2 < most) columns = Math.ceil(n / Math.ceil(n / most)) // the last row is stretched
    return { size: 'large', columns, narrow: width / columns < 76 }
  }
  const heads = !byGroup && width > 300
  const room = width - (heads ? 40 : 0)
  if (n <= 256) {
    const columns = room / 16 >= 36 ? 16 : 8
    return { size: 'medium', columns, heads, narrow: room / columns < 50 }
  }
  const columns = room / 32 >= 13 ? 32 : 16
  return { size: 'small', columns, heads }
}

// legend explains the states, with the number of node IDs in each. A state is also
// a filter.
export function legend(list, pool, filter) {
  const marked = Object.keys(pool.marks).map((id) => pool.nodeIDs.has(Number(id)) && pool.mark(pool.nodeIDs.get(Number(id)))).filter(Boolean)
  const rows = states.map((s, i) => [s, pool.status.total[i]]).filter(([s, n]) => n || !['missing', 'corrupt', 'retired'].includes(s))
  for (const m of ['frozen', 'dead', 'suspended']) {
    if (pool.status.marks) rows.push([m, marked.filter((x) => x === m).length])
  }
  if (list.children.length !== rows.length || rows.some(([s], i) => list.children[i].dataset.of !== s)) {
    list.replaceChildren(...rows.map(([s]) => {
      const li = el('li', null, { 'data-of': s })
      const button = el('button', null, { type: 'button', title: `${meanings[s]}: list them` })
      const swatch = el('span', null, { class: 'swatch', 'aria-hidden': 'true', [signs[s] && states.includes(s) ? 'data-state' : 'data-mark']: s })
      swatch.append(el('i', null, { 'data-sign': signs[s] }))
      button.append(swatch, el('strong'), ' ', el('span', s))
      if (states.includes(s)) button.addEventListener('click', () => filter(`state=${s}`))
      else button.disabled = true
      li.append(button)
      return li
    }))
  }
  rows.forEach(([, n], i) => {
    write(list.children[i].querySelector('strong'), count(n))
    set(list.children[i], 'none', n ? undefined : 'none')
  })
}

function set(e, key, value) {
  if (e.dataset[key] === value) return
  if (value === undefined) delete e.dataset[key]
  else e.dataset[key] = value
}
