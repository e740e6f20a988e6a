// The table of holders: a page at a time of the search results. The server
// searches and sorts, so it works the same for 3 node IDs and for 65,536.
import { roving } from './roving.js'
import { brief, cells, count, el, moment, quoted, signs, until, write } from './words.js'

export class Table {
  #get = (id) => document.getElementById(id)
  #view
  #rows = []
  #rove

  constructor(view, choose, filter) {
    this.#view = view
    for (const button of document.querySelectorAll('[data-sort]')) {
      button.addEventListener('click', () => {
        const key = button.dataset.sort
        view.go({ sort: view.sort === key ? '-' + key : key, page: 0 }, true)
      })
    }
    this.#get('rows').addEventListener('click', (e) => {
      const word = e.target.closest('[data-filter]')?.dataset.filter
      const row = e.target.closest('[data-n]')
      if (word) filter(word)
      else if (row) choose(Number(row.dataset.n))
    })
    this.#rove = roving(this.#get('rows'), 'th button')
  }

  show(pool, found) {
    const { sort } = this.#view
    for (const button of document.querySelectorAll('[data-sort]')) {
      const up = sort === button.dataset.sort, down = sort === '-' + button.dataset.sort
      const head = button.parentElement, order = up ? 'ascending' : down ? 'descending' : null
      if (head.getAttribute('aria-sort') === order) continue
      if (order) head.setAttribute('aria-sort', order)
      else head.removeAttribute('aria-sort')
    }
    this.#rows = found.first
    this.#rove.fill(found.first.map((n) => ({
      key: n.n, hash: JSON.stringify([n.state, n.task, n.since, n.version, n.meta, pool.mark(n)]), make: () => this.#row(pool, n) })))
    this.tick(pool)
  }

  #row(pool, n) {
    const row = el('tr', null, { role: 'row', 'data-n': n.n })
    const cell = cells
    const mark = pool.mark(n)
    const swatch = el('span', null, { class: 'swatch', 'aria-hidden': 'true', 'data-state': n.state })
    swatch.append(el('i', null, { 'data-sign': signs[mark] ?? signs[n.state] }))
    if (mark) swatch.dataset.mark = mark
    const number = el('th', null, { role: 'rowheader', scope: 'row' })
    number.append(el('button', n.n, { type: 'button', tabindex: -1, 'data-key': n.n, 'aria-label': `${n.n}, select` }))
    const task = n.task ?? ''
    row.append(number,
      cell('State', swatch, el('span', mark ?? n.state, { 'data-filter': `state=${n.state}`, title: `list only ${n.state} node IDs` })),
      cell('Task', el('span', (n.on_demand ? 'on demand: ' : '') + brief(task), { class: 'cut', title: task, 'data-filter': `task=${quoted(task)}` })),
      cell('Held since', n.since ? moment(n.since, pool.now) : ''), cell('Expires'), cell('Version', n.version ? count(n.version) : ''),
      cell('Metadata', ...Object.entries(n.meta ?? {}).map(([k, v]) => el('span', `${k}=${v}`, { class: 'cut tag', title: `${k}=${v}`, 'data-filter': quoted(`${k}=${v}`) }))))
    return row
  }

  // tick lets time pass in the table.
  tick(pool) {
    const rows = this.#get('rows').children
    this.#rows.forEach((row, i) => {
      const n = pool.nodeIDs.get(row.n) ?? row
      const text = n.held ? until(n.expires, pool.now) : ''
      const cell = rows[i]?.children[4]
      if (cell) write(cell, text)
    })
  }
}
