// The current view, kept in the address: a link leads to the same view, and
// the back button to the previous one.
const start = { group: -1, n: null, q: '', sort: 'n', page: 0, past: '', span: 60, view: '', service: '', endpoint: '', key: null }
const texts = ['q', 'past', 'service', 'endpoint', 'key']

export class View {
  #on

  // on(before): called after each change, with the previous view.
  constructor(on) {
    this.#on = on
    Object.assign(this, start, this.#read())
    addEventListener('popstate', () => this.#take({ ...start, ...this.#read() }))
  }

  // go changes parts of it. A step can be undone with the back button; typing,
  // and moving with the arrows, cannot.
  go(change, step = false) {
    const text = this.#write({ ...this.state, ...change })
    if (text !== location.hash) history[step ? 'pushState' : 'replaceState'](null, '', text || location.pathname)
    this.#take({ ...this.state, ...change })
  }

  get state() { return Object.fromEntries(Object.keys(start).map((k) => [k, this[k]])) }

  #take(next) {
    const before = this.state
    Object.assign(this, next)
    this.#on(before)
  }

  #read() {
    const found = {}
    const given = new URLSearchParams(location.hash.slice(1))
    for (const [k, v] of given) if (texts.includes(k) || (k === 'sort' && /^-?\w+$/.test(v)) || (k === 'view' && ['services', 'members'].includes(v))) found[k] = v
    for (const k of ['group', 'n', 'page', 'span']) if (/^\d{1,5}$/.test(given.get(k) ?? '')) found[k] = Number(given.get(k))
    if (found.page) found.page = Math.max(0, found.page - 1) // people count from 1
    return found
  }

  #write(state) {
    const p = new URLSearchParams()
    for (const [k, v] of Object.entries(state)) if (v !== start[k] && v !== null && (v !== '' || k === 'key')) p.set(k, k === 'page' ? v + 1 : v)
    const text = String(p)
    return text ? '#' + text : ''
  }
}
