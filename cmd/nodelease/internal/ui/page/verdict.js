// The first line of the page: the state of the pool, since when, the remedy,
// and the age of the data. The title and the icon of the tab show it too.
import { capital, hide, moment, span, time, write } from './words.js'

const $ = (id) => document.getElementById(id)
const unread = new Set(['unreadable', 'denied', 'unseeded'])
const away = {
  lost: ['Not connected', 'nodelease ui cannot be reached. If it has ended, start it again; this page reconnects by itself.'],
  ended: ['nodelease ui has ended', 'Start it again on the same address, with --listen; this page reconnects by itself.'],
}

export class Verdict {
  #said

  constructor() {
    $('copy').addEventListener('click', async () => {
      await navigator.clipboard.writeText($('command').textContent)
      $('copy').textContent = 'Copied'
      $('announce').textContent = 'The command was copied'
    })
  }

  // show shows the state of the pool, as far as it is known. Link is the stream's state.
  show(pool, link) {
    const v = pool.status.verdict ?? { kind: 'reading', level: 'note', headline: 'Reading the pool …' }
    const read = pool.status.read_at
    const age = read ? pool.now - read : 0
    // "live" means that the last read succeeded, and not long ago.
    const late = age > 2 * (pool.every ?? 2000) + 5000
    const state = link !== 'live' ? link : unread.has(v.kind) || late ? 'stale' : v.kind === 'reading' ? 'wait' : 'live'
    const asOf = read ? `as of ${moment(read, pool.now)}, ${span(age).replace(/\.\d/, '')} ago` : ''
    const stale = state === 'stale' || state in away
    set($('link'), 'link', state)
    write($('link'), state === 'live' ? 'live' : state === 'wait' ? 'reading the pool …' : asOf ? `stale: ${asOf}` : 'never read')
    set(document.body, 'stale', stale ? 'stale' : undefined)

    let { kind, level, headline, text, command } = v
    if (state in away) [kind, level, headline, text, command] = [state, 'stale', ...away[state], '']
    else if (stale && !unread.has(kind)) [kind, level, headline, text, command] = ['stale', 'stale', 'No answer from the table', 'The last read has not finished. The page shows older data.', '']
    set($('verdict'), 'level', level)
    set($('verdict'), 'kind', kind)
    write($('headline'), headline)
    write($('since'), [v.since && kind === v.kind && level !== 'ok' ? `since ${time(v.since)}${v.before ? ' or earlier' : ''}` : '', stale && asOf ? `data shown ${asOf}` : ''].filter(Boolean).join('; '))
    put($('advice'), text)
    if ($('command').textContent !== (command ?? '')) {
      write($('command'), command ?? '')
      write($('copy'), 'Copy')
    }
    hide($('remedy'), !command)
    const icon = { bad: 'icon-bad.svg', warn: 'icon-warn.svg', stale: 'icon-stale.svg' }[level] ?? 'icon.svg'
    if ($('icon').getAttribute('href') !== icon) $('icon').href = icon
    const short = level === 'ok' || level === 'note' ? '' : `${capital(kind)} · `
    const title = `${short}${pool.name ? pool.name + ' · ' : ''}nodelease`
    if (document.title !== title) document.title = title
    if (this.#said !== kind) {
      this.#said = kind
      $('announce').textContent = headline
    }
  }
}

function put(e, text) {
  hide(e, !text)
  write(e, text ?? '')
}

function set(e, key, value) {
  if (e.dataset[key] === value) return
  if (value === undefined) delete e.dataset[key]
  else e.dataset[key] = value
}
