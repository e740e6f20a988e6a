// A list that is one stop of Tab: the arrows move in it. It is filled anew from
// turn to turn without losing the place.

export function roving(list, selector) {
  const stops = () => [...list.querySelectorAll(selector)]
  let at // the key of the stop that Tab leads to
  const rove = (stop) => {
    for (const s of stops()) s.tabIndex = s === stop ? 0 : -1
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
  return {
    fill(children) {
      const inside = list.contains(document.activeElement)
      list.replaceChildren(...children)
      const all = stops()
      const stop = all.find((s) => s.dataset.key === at) ?? all[0]
      rove(stop)
      if (inside) stop?.focus({ preventScroll: true })
    },
  }
}
