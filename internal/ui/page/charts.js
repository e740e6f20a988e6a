// Utilisation and churn over time.
import { el, percent } from './words.js'

const { uPlot } = window
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

export class Charts {
  #plots = []
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
    const axis = { stroke: colour('--faint'), grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' }
    const common = (over) => ({
      ...size(this.#usedAt), legend: { show: false }, cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, sync: { key: 'time' } },
      padding: [8, 26, 0, 0], ...over,
    })
    const x = { ...axis, grid: { show: false }, size: 22, space: 90, values: '{HH}:{mm}:{ss}' }
    const scaleX = { time: true, range: (u, min, max) => [Math.min(min, max - 60), max] }
    const held = colour('--held'), expired = colour('--expired')
    const used = new uPlot(common({
      scales: { x: scaleX, y: { range: [0, 100] } },
      axes: [x, { ...axis, size: 46, splits: [0, 50, 100], values: (u, v) => v.map((n) => n + ' %') }],
      series: [{}, { stroke: held, width: 1.5, fill: colour('--held-pale'), points: { show: false } }],
      hooks: { setCursor: [(u) => this.#read(u)] },
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
    this.show(this.#data)
  }

  show(history) {
    this.#data = history
    const at = history.at.map((t) => t / 1000)
    const [used, churn] = this.#plots
    used.setData([at, history.used])
    churn.setData([at, history.claimed, history.ended.map((n) => (n === null ? null : -n))])
    this.#read(used)
    const known = history.used.filter((v) => v !== null)
    if (known.length) {
      this.#usedAt.setAttribute('aria-label', `Utilisation: ${percent(known.at(-1))} now, between ${percent(Math.min(...known))} and ${percent(Math.max(...known))} since this was first looked at`)
      const sum = (v) => v.reduce((a, b) => a + (b ?? 0), 0)
      this.#churnAt.setAttribute('aria-label', `Churn: ${sum(history.claimed)} claimed and ${sum(history.ended)} ended since this was first looked at`)
    }
  }

  // read tells the values under the cursor, else the newest.
  #read(u) {
    const h = this.#data
    const i = u.cursor.idx ?? h.at.length - 1
    const has = h.used[i] !== null && h.used[i] !== undefined
    document.getElementById('used-now').textContent = has ? percent(h.used[i]) : ''
    document.getElementById('churn-now').replaceChildren(...(has ? [
      el('span', '▲ ' + h.claimed[i] + ' claimed', { class: 'up' }), ' ', el('span', '▼ ' + h.ended[i] + ' ended', { class: 'down' })] : []))
  }
}

const size = (e) => ({ width: Math.max(160, e.clientWidth), height: 132 })
