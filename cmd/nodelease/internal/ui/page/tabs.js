// The lists below the grid: holders, the services that live processes have
// registered, and the members of the cluster. The server searches and pages.
import { roving } from './roving.js'
import { cells, count, el, hide, moment, until, write } from './words.js'

const $ = (id) => document.getElementById(id)
const many = (n, one, more) => `${count(n)} ${n === 1 ? one : more}`

export class Tabs {
  #view
  #rove = {}
  #pages = 1

  constructor(view, choose) {
    this.#view = view
    const tabs = [...$('tabs').children]
    $('tabs').addEventListener('click', (e) => e.target.dataset.view !== undefined && this.#open(e.target.dataset.view))
    $('tabs').addEventListener('keydown', (e) => {
      const i = tabs.indexOf(document.activeElement)
      const to = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: tabs.length - 1 }[e.key]
      if (to === undefined || !tabs[to] || e.ctrlKey || e.altKey || e.metaKey) return
      this.#open(tabs[to].dataset.view)
      tabs[to].focus()
      e.preventDefault()
    })
    for (const name of ['services', 'members']) {
      this.#rove[name] = roving($(name).querySelector('tbody'), 'button')
      $(name).addEventListener('click', (e) => {
        const at = e.target.closest('[data-go], [data-n]')
        if (at?.dataset.go) view.go({ service: '', endpoint: '', key: null, page: 0, ...JSON.parse(at.dataset.go) }, true)
        else if (at) choose(Number(at.dataset.n))
      })
    }
    $('pages').addEventListener('click', (e) => {
      const to = { first: 0, back: view.page - 1, next: view.page + 1, last: this.#pages - 1 }[e.target.dataset.to]
      if (to !== undefined) view.go({ page: Math.max(0, Math.min(to, this.#pages - 1)) }, true)
    })
  }

  #open(name) { this.#view.go({ view: name, service: '', endpoint: '', key: null, page: 0 }, true) }

  // viewed shows the tab that the address names.
  viewed() {
    for (const tab of $('tabs').children) {
      const on = tab.dataset.view === this.#view.view
      tab.setAttribute('aria-selected', on)
      tab.tabIndex = on ? 0 : -1
      hide($(tab.getAttribute('aria-controls')), !on)
    }
  }

  // sized shows the range of rows, and the page number.
  sized(found, what) {
    if (found.page !== this.#view.page) this.#view.go({ page: found.page }) // there are fewer by now
    const from = found.page * found.rows, to = Math.min(found.total, from + found.rows)
    const text = found.pages > 1 ? `${count(from + 1)} to ${count(to)} of ${what}` : what
    write($('shown'), text)
    this.#pages = found.pages
    hide($('pages'), found.pages < 2)
    write($('page'), `page ${count(found.page + 1)} of ${count(found.pages)}`)
    for (const b of $('pages').querySelectorAll('button')) {
      const end = ['first', 'back'].includes(b.dataset.to) ? found.page === 0 : found.page === found.pages - 1
      if (b.disabled !== end) b.disabled = end
    }
  }

  // asks is the tab's request to the server.
  get asks() {
    const { view, q, page, service, endpoint, key } = this.#view
    const p = new URLSearchParams({ q: q.trim(), page })
    if (service) p.set('service', service)
    if (endpoint) p.set('endpoint', endpoint)
    if (endpoint && key !== null) p.set('key', key)
    return `${view}?${p}`
  }

  show(pool, found) {
    if (this.#view.view === 'members') this.#members(pool, found)
    else this.#services(found)
  }

  #members(pool, found) {
    this.sized(found, many(found.total, 'member', 'members'))
    path('members', [], found.total ? '' : this.#view.q.trim() ? 'No match.' : 'No holder takes part in a cluster (pkg/cluster).')
    this.#fill('members', ['Name', 'Node ID', 'Member since', 'Expires', 'Session', 'Metadata'], found.members.map((m) => ({
      key: m.session + m.n, hash: JSON.stringify([m.name, m.since, m.leads, m.meta]),
      make: () => row([cells('Name', el('span', m.name, { class: 'cut', title: m.name }), ...(m.leads ? [' ', el('em', 'oldest: leads', { title: 'elected by LowestSession, the default' })] : [])),
        cells('Node ID', go(m.n, m.n)), cells('Member since', m.since ? moment(m.since, pool.now) : ''), cells('Expires', until(m.expires, pool.now)), cells('Session', m.session), cells('Metadata', ...tags(m.meta))]),
      tick(tr) { write(tr.children[3], until(m.expires, pool.now)) },
    })))
  }

  #services(found) {
    const { service, endpoint, key } = this.#view
    const back = [['← All services', {}]]
    if (endpoint && key !== null) back.push([endpoint, { endpoint }])
    const at = service || (key !== null ? (key === '' ? 'no key' : `key ${key}`) : endpoint)
    const none = found.problem ? '' : this.#view.q.trim() ? 'No match.' : service || key !== null ? 'No live instance.' : endpoint ? 'No live instance at any key.' : 'No live process has registered a service (pkg/discovery).'
    path('services', service || endpoint ? [...back, [at]] : [], found.problem ?? (found.total ? '' : none))
    if (service || key !== null) {
      this.sized(found, many(found.total, 'live instance', 'live instances'))
      this.#fill('services', ['Node ID', 'Address', 'Zone', 'Weight', 'Version', 'Labels'], (found.instances ?? []).map((i) => ({
        key: `${i.n}/${i.version}`, hash: JSON.stringify(i),
        make: () => row([cells('Node ID', go(i.n, i.n)), cells('Address', el('span', i.address, { class: 'cut', title: i.address })), cells('Zone', i.zone ?? ''), cells('Weight', count(i.weight)), cells('Version', count(i.version)), cells('Labels', ...tags(i.labels))]),
      })))
    } else if (endpoint) {
      this.sized(found, many(found.total, 'key', 'keys'))
      this.#fill('services', ['Key'], (found.keys ?? []).map((k) => ({ key: k, hash: k, make: () => row([cells('Key', to(k || '(no key)', { endpoint, key: k }))]) })))
    } else {
      this.sized(found, many(found.total, 'service', 'services'))
      this.#fill('services', ['Service', 'Endpoints'], (found.services ?? []).map((s) => ({
        key: s.name, hash: JSON.stringify(s),
        make: () => row([cells('Service', to(s.name, { service: s.name })), cells('Endpoints', ...s.endpoints.flatMap((e) => [to(e, { endpoint: e }), ' ']))]) })))
    }
  }

  #fill(name, headers, rows) {
    const head = $(name).querySelector('thead')
    if (head.textContent !== headers.join('')) {
      const tr = el('tr', null, { role: 'row' })
      tr.append(...headers.map((h) => el('th', h, { role: 'columnheader', scope: 'col' })))
      head.replaceChildren(tr)
    }
    hide($(name).querySelector('table'), !rows.length)
    this.#rove[name].fill(rows)
  }
}

// path shows the current place, with the way back, and the problem if there is one.
function path(name, steps, note) {
  const p = $(name).querySelector('.path'), key = JSON.stringify([steps, note])
  if (p.dataset.key === key) return
  p.dataset.key = key
  p.replaceChildren(...steps.flatMap(([text, where]) => [where ? to(text, where) : el('b', text), ' ']), note)
}

function row(tds) {
  const tr = el('tr', null, { role: 'row' })
  tr.append(...tds)
  return tr
}

const to = (text, where) => el('button', text, { type: 'button', 'data-key': text, 'data-go': JSON.stringify(where) })
const go = (text, n) => el('button', text, { type: 'button', 'data-key': n, 'data-n': n, 'aria-label': `${n}, select` })
const tags = (all) => Object.entries(all ?? {}).map(([k, v]) => el('span', `${k}=${v}`, { class: 'cut tag', title: `${k}=${v}` }))
