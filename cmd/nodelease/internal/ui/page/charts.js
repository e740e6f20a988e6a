// Utilisation and churn over time.
import { about, el, percent, write } from './words.js'

const { uPlot } = window
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

export class Charts {
  #plots = []
  #pool
  #span = 60 // minutes
  #turn = false
  #late = false // the last update drew nothing
  #colours
  #data = { at: [], used: [], claimed: [], ended: [] }
  #usedAt = document.getElementById('used-chart')
  #churnAt = document.getElementById('churn-chart')

  constructor() {
    document.addEventListener('themed', () => this.#build())
    new ResizeObserver(() => {
      for (const p of this.#plots) p.setSize(size(p.root.parentElement))
    }).observe(this.#usedAt)
    this.#build()
  }

  #build() {
    for (const p of this.#plots) p.destroy()
    this.#colours = { threshold: colour('--expired'), end: colour('--bad') } // asked for once: it lays the page out
    const axis = { stroke: colour('--faint'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' }
    const common = (over) => ({
      ...size(this.#usedAt), legend: { show: false }, cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, sync: { key: 'time' } },
      padding: [8, 26, 0, 0], ...over,
    })
    const x = { ...axis, grid: { show: false }, size: 22, space: 90, values: '{HH}:{mm}:{ss}' }
    // With a projection, a fifth of the chart is left for the future.
    const scaleX = { time: true, range: (u, min, max) => {
      const from = Math.max(Math.min(min, max - 60), max - this.#span * 60)
      return [from, this.#pool?.status.full_in ? max + (max - from) / 4 : max]
    } }
    const held = colour('--held'), expired = colour('--expired')
    const used = new uPlot(common({
      scales: { x: scaleX, y: { range: [0, 100] } },
      axes: [x, { ...axis, size: 46, splits: [0, 50, 100], values: (u, v) => v.map((n) => n + ' %') }],
      series: [{}, { stroke: held, width: 1.5, fill: colour('--held-pale'), points: { show: false } }],
      hooks: { setCursor: [(u) => this.#read(u)], draw: [(u) => this.#ahead(u)] },
    }), [[], []], this.#usedAt)
    const stepped = uPlot.paths.stepped({ align: -1 })
    const churn = new uPlot(common({
      scales: { x: scaleX, y: { range: (u, min, max) => { const m = Math.max(4, -min, max); return [-m, m] } } },
      axes: [x, { ...axis, size: 34, space: 24, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4, 2e4, 5e4], values: (u, v) => v.map(Math.abs) }],
      series: [{},
        { stroke: held, width: 1, fill: colour('--held-pale'), paths: stepped, points: { show: false } },
        { stroke: expired, width: 1, fill: colour('--expired-pale'), paths: stepped, points: { show: false } }],
      hooks: { setCursor: [(u) => this.#read(u)] },
    }), [[], [], []], this.#churnAt)
    this.#plots = [used, churn]
    if (this.#pool) this.show(this.#pool, true)
  }

  // ahead draws the threshold, and the line that leads to the end at this rate.
  #ahead(u) {
    if (!this.#pool?.threshold) return
    const { ctx } = u, { left, top, width, height } = u.bbox
    const { slope, full_in: full } = this.#pool.status
    ctx.save()
    ctx.beginPath()
    ctx.rect(left, top, width, height)
    ctx.clip()
    const line = (colour, dash, x0, y0, x1, y1) => {
      ctx.strokeStyle = colour
      ctx.lineWidth = devicePixelRatio * 1.5
      ctx.setLineDash(dash.map((n) => n * devicePixelRatio))
      ctx.beginPath()
      ctx.moveTo(x0, y0)
      ctx.lineTo(x1, y1)
      ctx.stroke()
    }
    const y = (v) => u.valToPos(v, 'y', true), x = (v) => u.valToPos(v, 'x', true)
    line(this.#colours.threshold, [4, 4], left, y(this.#pool.threshold), left + width, y(this.#pool.threshold))
    const at = this.#data.at.at(-1), used = this.#data.used.at(-1)
    if (full && used !== null) {
      const end = u.scales.x.max * 1000
      line(this.#colours.end, [2, 3], x(at / 1000), y(used), x(end / 1000), y(used + slope * (end - at)))
    }
    ctx.restore()
  }

  // span sets how many minutes are shown.
  span(minutes) {
    this.#span = minutes
    for (const b of document.querySelectorAll('[data-span]')) b.setAttribute('aria-pressed', Number(b.dataset.span) === minutes)
    if (this.#pool) this.show(this.#pool, true)
  }

  // show adds the newest points. Drawing is the most expensive part of an update, so each
  // draws one of the two charts, in turn, and one that changes much else (busy) leaves
  // that to the next; all draws both.
  show(pool, all = pool.history.at.length < 3, busy = false) {
    const history = pool.history
    this.#pool = pool
    this.#data = history
    const [used, churn] = this.#plots
    this.#read(used)
    this.#late = busy && !all && !this.#late
    if (this.#late) return
    const at = history.at.map((t) => t / 1000)
    this.#turn = !this.#turn
    if (all || this.#turn) {
      used.setData([at, history.used])
      const known = history.used.filter((v) => v !== null)
      if (known.length) label(this.#usedAt, `Utilisation: ${percent(known.at(-1))} now, between ${percent(Math.min(...known))} and ${percent(Math.max(...known))} since the history begins; warning at ${pool.threshold} %${this.#end()}`)
    }
    if (all || !this.#turn) {
      churn.setData([at, history.claimed, history.ended.map((n) => (n === null ? null : -n))])
      const sum = (v) => v.reduce((a, b) => a + (b ?? 0), 0)
      if (history.claimed.some((v) => v !== null)) label(this.#churnAt, `Churn: ${sum(history.claimed)} claimed and ${sum(history.ended)} ended since the history begins`)
    }
  }

  #end() {
    const full = this.#pool?.status.full_in
    return full ? `, full in about ${about(full)} at this rate` : ''
  }

  // read shows the values under the cursor, or else the newest.
  #read(u) {
    const h = this.#data
    const i = u.cursor.idx ?? h.at.length - 1
    const has = h.used[i] !== null && h.used[i] !== undefined
    write(document.getElementById('used-now'), has ? percent(h.used[i]) + (u.cursor.idx == null ? this.#end() : '') : '')
    const churn = document.getElementById('churn-now')
    if (!churn.firstElementChild) churn.append(el('span', '', { class: 'up' }), ' ', el('span', '', { class: 'down' }))
    write(churn.firstElementChild, has ? `▲ ${h.claimed[i]} claimed` : '')
    write(churn.lastElementChild, has ? `▼ ${h.ended[i]} ended` : '')
  }
}

const size = (e) => ({ width: Math.max(160, e.clientWidth), height: Math.max(132, Math.min(320, e.clientHeight)) })

function label(e, text) { if (e.getAttribute('aria-label') !== text) e.setAttribute('aria-label', text) }
