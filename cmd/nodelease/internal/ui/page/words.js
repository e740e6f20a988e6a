// The states, in the order of the counts that the server sends, and the states of
// processes that the table does not have. Every one has a sign and a pattern as well
// as a colour; the signs are those of `nodelease demo` in a terminal.
export const states = ['held', 'free', 'cooling', 'expired', 'retired', 'corrupt', 'missing']

export const signs = {
  held: '●', free: '·', cooling: '◌', expired: '○', retired: '–', corrupt: '!', missing: '×',
  frozen: '‖', dead: '✖', suspended: '◐',
}

export const meanings = {
  held: 'a process holds it and renews in time',
  late: 'a process holds it, and its renewal is overdue',
  free: 'can be claimed now',
  cooling: 'no holder; rests until its reserved time has passed',
  expired: 'its holder has stopped renewing; can be claimed once its reserved time has passed',
  retired: 'out of use, or reserved',
  corrupt: 'its item in the table cannot be read',
  missing: 'has no item: never seeded',
  frozen: 'its process is stopped (SIGSTOP)',
  dead: 'its process was killed',
  suspended: 'its process waits for a renewal to be confirmed',
}

const whole = new Intl.NumberFormat('en')
export const count = (n) => whole.format(n)
export const percent = (p) => (p > 0 && p < 10 ? p.toFixed(1) : Math.round(p)) + ' %'

// span is a time span in one or two units.
export function span(ms) {
  const s = Math.max(0, ms) / 1000
  if (s < 9.95) return s.toFixed(1) + ' s'
  if (s < 99.5) return Math.round(s) + ' s'
  const m = Math.floor(s / 60)
  if (m < 60) return `${m} min ${Math.floor(s % 60)} s`
  const h = Math.floor(m / 60)
  if (h < 48) return `${h} h ${m % 60} min`
  return `${Math.floor(h / 24)} d ${h % 24} h`
}

// about is a span in its largest unit.
export function about(ms) {
  const s = ms / 1000
  if (s < 90) return `${Math.max(1, Math.floor(s))} s`
  if (s < 5400) return `${Math.round(s / 60)} min`
  return `${Math.round(s / 3600)} h`
}

// until is when a lease ends, or how long ago it did.
export function until(at, now) {
  if (!at) return ''
  return at >= now ? 'in ' + short(at - now) : short(now - at) + ' ago'
}

// short is a span in one unit.
const short = (ms) => span(ms).split(' ').slice(0, 2).join(' ')

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' })
export const time = (ms) => clock.format(ms)
export const moment = (ms, now) => (now - ms < 20 * 3600e3 ? clock : day).format(ms)

// write sets a text if it differs: each write lays out the page again.
// An existing text node is changed in place, which costs less than a new one.
export function write(e, text) {
  const is = e.firstChild, to = String(text)
  if (e.textContent === to) return
  if (is && is === e.lastChild && is.nodeType === Node.TEXT_NODE && to) is.data = to
  else e.textContent = to
}

// hide hides an element or shows it, if it is not so already.
export function hide(e, hidden) { if (e.hidden !== hidden) e.hidden = hidden }

// el makes an element with text; text is never HTML.
export function el(name, text, attributes = {}) {
  const e = document.createElement(name)
  if (text !== undefined && text !== null) e.textContent = text
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v)
  return e
}

// cells makes a table cell, with the name of its column for narrow windows.
export function cells(label, ...parts) {
  const td = el('td', null, { role: 'cell', 'data-label': label })
  td.append(...parts)
  return td
}

// brief is a task's name for people: of an ECS task its cluster and ID.
export const brief = (task) => (task ?? '').replace(/^arn:[^/]*:task\//, '')

// quoted keeps a word with blanks together in a search.
export const quoted = (word) => (/\s/.test(word) ? `"${word.replaceAll('"', '')}"` : word)

export const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1)
