// A list that is one Tab stop: the arrows move in it. An update replaces only the
// rows that changed, so a click hits the row that was aimed at, and
// the place is kept.

export function roving(list, selector) {
  const stops = () => [...list.querySelectorAll(selector)]
  let at // the key of the Tab stop
  const rove = (stop) => {
    for (const s of stops()) {
      const index = s === stop ? 0 : -1
      if (s.tabIndex !== index) s.tabIndex = index
    }
    at = stop?.dataset.key
  }
  list.addEventListener('focusin', (e) => e.target.matches(selector) && rove(e.target))
  list.addEventListener('keydown', (e) => {
    const all = stops()
    const i = all.indexOf(document.activeElement)
    if (i < 0 || e.ctrlKey || e.altKey || e.metaKey) return
    const to = { ArrowUp: i - 1, ArrowDown: i + 1, Home: 0, End: all.length - 1 }[e.key]
    if (to === undefined) return
    all[Math.max(0, Math.min(to, all.length - 1))].focus()
    e.preventDefault()
  })
  let rows = new Map()
  return {
    // fill shows rows: { key, hash, make(), tick(row) }. A row with the same key and hash
    // stays; tick lets time pass in it.
    fill(items) {
      const inside = list.contains(document.activeElement)
      const next = new Map()
      for (const { key, hash, make, tick } of items) {
        const was = rows.get(key)
        const row = was?.hash === hash ? was : { hash, element: make() }
        tick?.(row.element)
        next.set(key, row)
      }
      const same = next.size === rows.size && [...next.values()].every((row, i) => list.children[i] === row.element)
      if (!same) {
        for (const [key, row] of rows) if (next.get(key)?.element !== row.element) row.element.remove()
        let i = 0
        for (const { element } of next.values()) {
          if (list.children[i] !== element) list.insertBefore(element, list.children[i] ?? null)
          i++
        }
      }
      rows = next
      if (same) return
      const all = stops()
      const stop = all.find((s) => s.dataset.key === at) ?? all[0]
      rove(stop)
      if (inside && !list.contains(document.activeElement)) stop?.focus({ preventScroll: true })
    },
  }
}
