// The parts in words: the selected node ID, leases near expiry, recent
// events.
import { roving } from './roving.js'
import { brief, count, el, hide, meanings, moment, quoted, signs, span, time, until, write } from './words.js'

export class Lists {
  #get = (id) => document.getElementById(id)
  #past = ''
  #lists = {}

  constructor(choose, filter) {
    for (const list of ['late', 'gone', 'news']) {
      this.#lists[list] = roving(this.#get(list), 'button')
      this.#get(list).addEventListener('click', (e) => {
        const at = e.target.closest('[data-n], [data-filter]')
        if (at?.dataset.filter) filter(at.dataset.filter)
        else if (at) choose(Number(at.dataset.n))
      })
    }
    this.#get('facts').addEventListener('click', (e) => e.target.dataset.filter && filter(e.target.dataset.filter))
  }

  // chosen shows everything about a node ID.
  chosen(pool, n) {
    write(this.#get('chosen-title'), n ? `Node ID ${n.n}` : 'No node ID selected')
    const facts = this.#get('facts'), none = this.#get('none')
    hide(facts, !n)
    hide(none, !!n)
    if (!n) {
      write(none, pool.whole || pool.group >= 0 ? 'Choose one in the grid, or search.' : 'Choose a group, then a node ID, or search.')
      return
    }
    const mark = pool.mark(n)
    const late = n.state === 'held' && pool.late(n) ? 'late' : undefined
    const pairs = [['State', `${signs[n.state]} ${n.state}`, `state=${n.state}`], ['Means', n.note ?? meanings[late ?? n.state]]]
    if (mark) pairs.push(['Process', `${signs[mark]} ${mark}`])
    if (n.held) {
      pairs.push(['Task', n.task, `task=${quoted(n.task ?? '')}`])
      if (n.on_demand) pairs.push(['Renews', 'on demand: only when it uses the node ID'])
      if (n.since) pairs.push(['Held since', `${moment(n.since, pool.now)}, for ${span(pool.now - n.since)}`])
      pairs.push(['Expires', `${until(n.expires, pool.now)}, of ${span(n.ttl)}`], ['IDs until', until(n.ids, pool.now) + ', if DynamoDB went away now'], ['Renewals', count(n.renewal ?? 0)], ['Session', n.session])
    } else if (n.reserved > pool.now) pairs.push(['Rests', span(n.reserved - pool.now)])
    pairs.push(['Version', n.version ? count(n.version) : 'never held'])
    if (n.previous) pairs.push(['Before', `session ${n.previous.session}, v${count(n.previous.version)}${n.previous.since ? ', since ' + moment(n.previous.since, pool.now) : ''}: ${n.previous.ended}`])
    for (const [k, v] of Object.entries(n.meta ?? {})) pairs.push([k, v, quoted(`${k}=${v}`)])
    // Unchanged parts stay, and with them the focus.
    const key = JSON.stringify(pairs.map(([k, , f]) => [k, f]))
    if (facts.dataset.key !== key) {
      facts.dataset.key = key
      facts.replaceChildren(...pairs.flatMap(([k, , f]) => {
        const dd = el('dd')
        if (f) dd.append(el('button', '', { type: 'button', 'data-filter': f, title: 'list node IDs with the same value' }))
        return [el('dt', k), dd]
      }))
    }
    pairs.forEach(([, v], i) => {
      const dd = facts.children[2 * i + 1]
      const at = dd.firstElementChild ?? dd
      write(at, v ?? '')
    })
  }

  late(pool) {
    const { late, late_count: all, expired, expired_count: gone } = pool.status
    const row = (n) => ({
      key: n.n, hash: n.task,
      make() {
        const button = el('button', null, { type: 'button', 'data-key': n.n, 'data-n': n.n, title: `${n.n}: ${n.task}` })
        button.append(el('b', n.n), ' ', el('span', brief(n.task), { class: 'cut' }), ' ', el('meter', null, { min: 0, max: 1, 'aria-label': 'left of its lease' }), el('time'))
        const li = el('li')
        li.append(button)
        return li
      },
      tick(li) {
        const gauge = li.querySelector('meter'), time = li.querySelector('time'), text = until(n.expires, pool.now), left = Math.round(pool.left(n) * 100) / 100
        if (gauge.value !== left) gauge.value = left
        write(time, text)
      },
    })
    const line = (text, word) => ({
      key: 'more', hash: text,
      make() {
        const li = el('li', word ? null : text, { class: 'none' })
        if (word) li.append(el('button', text, { type: 'button', 'data-key': 'more', 'data-filter': word }))
        return li
      },
    })
    const more = (shown, total, word) => (total > shown ? [line(`and ${count(total - shown)} more`, word)] : [])
    const next = late.slice(0, 6)
    this.#lists.late.fill(next.length ? [...next.map(row), ...more(next.length, all, 'state=late')] : [line(gone ? 'None of the current holders.' : 'None: every holder renewed in time.')])
    hide(this.#get('gone-title'), !gone)
    write(this.#get('gone-title'), `Expired: ${count(gone)}`)
    this.#lists.gone.fill([...expired.map(row), ...more(expired.length, gone, 'state=expired')])
  }

  // news shows the latest events, or those that a filter finds in the history.
  async news(pool, past) {
    this.#past = past
    let news = pool.news.slice(-40).reverse()
    hide(this.#get('told'), !past.trim())
    if (past.trim()) {
      try {
        const answer = await (await fetch(`history?${new URLSearchParams({ q: past })}`)).json()
        if (past !== this.#past) return
        news = answer.news
        this.#get('told').textContent = answer.total > news.length ? `the latest ${count(news.length)} of ${count(answer.total)}` : `${count(answer.total)} found`
      } catch {
        return // the server is unreachable: the link shows that
      }
    }
    const none = past.trim() ? 'No event matches.' : 'Nothing yet.'
    const seen = new Map() // two equal events are possible
    this.#lists.news.fill(news.length ? news.map((n) => {
      const key = `${n.at}/${n.n}/${n.kind}`
      seen.set(key, (seen.get(key) ?? 0) + 1)
      return { key: `${key}/${seen.get(key)}`, hash: n.text, make: () => told(n, key) }
    }) : [{ key: 'none', hash: none, make: () => el('li', none, { class: 'none' }) }])
  }
}

function told(n, key) {
  const row = el('li', null, { 'data-kind': n.kind, title: `${time(n.at)} ${n.n >= 0 ? n.n : ''} ${n.kind} ${n.text}` })
  if (n.n >= 0) row.dataset.n = n.n
  const b = el('b')
  if (n.n >= 0) b.append(el('button', n.n, { type: 'button', 'data-key': key }))
  row.append(el('time', time(n.at)), b, el('em', n.kind), el('span', n.text.replace(/arn:\S*:task\//, ''), { class: 'cut' }))
  return row
}
