// What is told in words: the selected number, leases near expiry, what just
// happened, who holds what.
import { count, el, meanings, moment, signs, span, time, until } from './words.js'

const mostRows = 200

export class Lists {
  #get = (id) => document.getElementById(id)
  #sort = { key: 'n', up: true }
  #rows = []
  #choose

  constructor(choose, changed) {
    this.#choose = choose
    for (const button of document.querySelectorAll('[data-sort]')) {
      button.addEventListener('click', () => {
        const key = button.dataset.sort
        this.#sort = { key, up: this.#sort.key === key ? !this.#sort.up : true }
        for (const th of document.querySelectorAll('th')) th.removeAttribute('aria-sort')
        button.parentElement.setAttribute('aria-sort', this.#sort.up ? 'ascending' : 'descending')
        changed()
      })
    }
    for (const list of ['rows', 'late', 'news']) {
      this.#get(list).addEventListener('click', (e) => {
        const at = e.target.closest('[data-n]')
        if (at) choose(Number(at.dataset.n))
      })
    }
  }

  // chosen tells all about a number.
  chosen(pool, n) {
    this.#get('chosen-title').textContent = n ? `Number ${n.n}` : 'No number selected'
    const facts = this.#get('facts')
    if (!n) {
      facts.replaceChildren(el('dd', pool.whole || pool.group >= 0 ? 'Choose one in the grid, or search.' : 'Choose a group, then a number, or search.'))
      return
    }
    const mark = pool.mark(n)
    const late = n.state === 'held' && pool.late(n) ? 'late' : undefined
    const pairs = [['State', `${signs[n.state]} ${n.state}`], ['', n.note ?? meanings[late ?? n.state]]]
    if (mark) pairs.push(['Process', `${signs[mark]} ${mark}`])
    if (n.holder) {
      pairs.push(['Task', n.task])
      if (n.since) pairs.push(['Held since', `${moment(n.since, pool.now)}, for ${span(pool.now - n.since)}`])
      pairs.push(['Expires', `${until(n.expires, pool.now)}, of ${span(n.ttl)}`], ['Renewals', count(n.renewal ?? 0)], ['Session', n.holder])
    } else if (n.reserved > pool.now) pairs.push(['Rests', span(n.reserved - pool.now)])
    pairs.push(['Version', n.version ? count(n.version) : 'never held'])
    for (const [k, v] of Object.entries(n.meta ?? {})) pairs.push([k, v])
    facts.replaceChildren(...pairs.flatMap(([k, v]) => [el('dt', k), el('dd', v)]))
  }

  late(pool) {
    const { late, late_more: more } = pool.status
    const list = this.#get('late')
    if (!late.length) {
      list.replaceChildren(el('li', 'None: every holder renewed in time.', { class: 'none' }))
      return
    }
    const rows = late.slice(0, 6).map((n) => {
      const row = el('li', null, { 'data-n': n.n })
      const gauge = el('meter', null, { min: 0, max: 1, 'aria-label': 'left of its lease' })
      gauge.value = pool.left(n)
      row.append(el('b', n.n), el('span', n.task), gauge, el('time', until(n.expires, pool.now)))
      return row
    })
    const rest = late.length + more - rows.length
    if (rest > 0) rows.push(el('li', `and ${count(rest)} more`, { class: 'none' }))
    list.replaceChildren(...rows)
  }

  news(pool) {
    const rows = pool.news.slice(-60).reverse().map((n) => {
      const row = el('li', null, { 'data-kind': n.kind, title: n.text })
      if (n.n >= 0) row.dataset.n = n.n
      row.append(el('time', time(n.at)), el('b', n.n >= 0 ? n.n : ''), el('em', n.kind), el('span', n.text))
      return row
    })
    this.#get('news').replaceChildren(...(rows.length ? rows : [el('li', 'Nothing since this page was opened.', { class: 'none' })]))
  }

  // holders lists numbers; total is how many there are.
  holders(pool, numbers, total, what) {
    const { key, up } = this.#sort
    const by = (n) => n[key] ?? (key === 'task' ? '\uffff' : Infinity)
    numbers = numbers.toSorted((a, b) => {
      const x = by(a), y = by(b)
      const order = typeof x === 'string' ? x.localeCompare(y, 'en', { numeric: true }) : x - y
      return (up ? order : -order) || a.n - b.n
    }).slice(0, mostRows)
    this.#get('shown').textContent = total > numbers.length ? `${count(numbers.length)} of ${count(total)} ${what}` : `${count(total)} ${what}`
    this.#rows = numbers
    this.#get('rows').replaceChildren(...numbers.map((n) => {
      const row = el('tr', null, { 'data-n': n.n })
      const mark = pool.mark(n)
      const state = el('td')
      const swatch = el('span', null, { class: 'swatch', 'aria-hidden': 'true', 'data-state': n.state })
      swatch.append(el('i', signs[mark] ?? signs[n.state]))
      if (mark) swatch.dataset.mark = mark
      state.append(swatch, mark ?? n.state)
      const button = el('button', n.n, { type: 'button', 'aria-label': `Select number ${n.n}` })
      const number = el('th', null, { scope: 'row' })
      number.append(button)
      row.append(number, state, el('td', n.task ?? ''), el('td', n.since ? moment(n.since, pool.now) : ''),
        el('td'), el('td', n.version ? count(n.version) : ''),
        el('td', Object.entries(n.meta ?? {}).map(([k, v]) => `${k}=${v}`).join('  ')))
      return row
    }))
    this.tick(pool)
  }

  // tick lets time pass in the table.
  tick(pool) {
    const rows = this.#get('rows').children
    this.#rows.forEach((row, i) => {
      const n = pool.numbers.get(row.n) ?? row
      const text = n.holder ? until(n.expires, pool.now) : ''
      if (rows[i].children[4].textContent !== text) rows[i].children[4].textContent = text
    })
  }
}
