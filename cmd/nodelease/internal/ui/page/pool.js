// The page's knowledge of the pool: all of a small one; of a large one the
// counts of its groups, and the node IDs of the open group.

export class Pool {
  nodeIDs = new Map()
  groups = []
  news = []
  history = { at: [], used: [], claimed: [], ended: [] }
  marks = {}
  status = { total: [0, 0, 0, 0, 0, 0, 0], late: [], expired: [] }
  skew = 0

  get now() { return Date.now() + this.skew }

  // all starts over.
  all(m) {
    this.#take(m)
    this.name = m.pool
    this.title = m.title
    this.every = m.every
    this.threshold = m.threshold
    this.whole = m.whole
    this.group = m.whole ? -1 : m.group
    this.nodeIDs = new Map((m.node_ids ?? []).map((n) => [n.n, n]))
    this.groups = m.groups ?? []
    this.history = { at: m.history.at ?? [], used: m.history.used ?? [], claimed: m.history.claimed ?? [], ended: m.history.ended ?? [] }
    this.news = m.news ?? []
  }

  // trouble is the only knowledge of a pool that was never read.
  trouble(m) {
    this.name = m.pool
    this.every = m.every
    this.skew = m.now - Date.now()
    this.status.verdict = m.verdict
  }

  // turn applies the changes, and returns the node IDs and groups concerned.
  turn(m) {
    const before = this.marks
    this.#take(m)
    const nodeIDs = new Set()
    for (const n of m.node_ids ?? []) {
      this.nodeIDs.set(n.n, n)
      nodeIDs.add(n.n)
    }
    for (const [id, expires, reserved, renewal, ids] of m.beats ?? []) {
      const n = this.nodeIDs.get(id)
      if (!n) continue
      Object.assign(n, { expires, reserved, renewal, ids })
      nodeIDs.add(id)
    }
    for (const n of Object.keys({ ...before, ...this.marks }).map(Number)) {
      if (before[n] !== this.marks[n] && this.nodeIDs.has(n)) nodeIDs.add(n)
    }
    const groups = Object.entries(m.groups ?? {}).map(([g, counts]) => {
      this.groups[g] = counts
      return Number(g)
    })
    if (m.point) {
      // The clock may have been set back (history.go).
      while (this.history.at.at(-1) > m.point.at) for (const k of Object.keys(this.history)) this.history[k].pop()
      for (const k of Object.keys(this.history)) this.history[k].push(m.point[k])
      if (this.history.at.length > 5000) this.history = thinned(this.history)
    }
    this.news = this.news.concat(m.news ?? []).slice(-100)
    return { nodeIDs: [...nodeIDs], groups }
  }

  #take(m) {
    this.status = m
    this.marks = m.marks ?? {}
    this.skew = m.now - Date.now()
  }

  // left returns how much of a lease is left, from 0 to 1.
  left(n) {
    return n.ttl ? Math.max(0, Math.min(1, (n.expires - this.now) / n.ttl)) : 1
  }

  // late reports whether a holder should have renewed by now: healthy ones do so
  // while more than two fifths are left, with a grown lease after an outage more than
  // three tenths. A sleeping holder on demand lets its lease run out.
  // A grown lease that may not grow further is renewed when only a short one is left of it.
  late(n) {
    const waits = n.grown && this.status.waits
    const least = waits ? 0.4 * Math.min(n.ttl, waits) : (n.grown ? 0.3 : 0.4) * n.ttl
    return !n.on_demand && n.expires - this.now < least
  }

  // mark returns the known state of a node ID's process, if it adds to the table.
  mark(n) {
    const mark = this.marks[n.n]
    return mark === n.state ? undefined : mark
  }
}

// thinned reduces each minute before the last hour to one point, and drops points
// older than a day; the server does the same (history.go).
function thinned(h) {
  const last = h.at.at(-1)
  const from = last - 24 * 3600e3, fine = Math.max(last - 3600e3, h.at.at(-1800))
  const short = { at: [], used: [], claimed: [], ended: [] }
  let minute = -1, gapIn = -1
  h.at.forEach((at, i) => {
    const k = short.at.length - 1, now = Math.floor(at / 60e3)
    if (at < from) return
    if (at < fine && h.used[i] === null && (k < 0 || short.used[k] === null || gapIn === now)) return
    if (at < fine && h.used[i] !== null && minute === now && short.used[k] !== null) {
      short.at[k] = at
      short.used[k] = Math.max(short.used[k], h.used[i])
      short.claimed[k] += h.claimed[i]
      short.ended[k] += h.ended[i]
      return
    }
    minute = now
    if (h.used[i] === null) gapIn = now
    for (const name of Object.keys(short)) short[name].push(h[name][i])
  })
  return short
}
