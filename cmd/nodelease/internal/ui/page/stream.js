// The stream of messages: reconnects when it breaks, and rests while the page
// is hidden, since browsers open few streams to one host.

export class Stream {
  #source
  #watchdog
  #group = -1
  #heard = 0
  patience = 20_000 // ms without a message until a connection counts as dead
  #on

  // on: { message(event, data), link(state) } with live, lost, ended
  constructor(on) {
    this.#on = on
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#stop() : this.open(this.#group)))
  }

  // open starts over, with a group open (-1: none).
  open(group) {
    this.#group = group
    this.#stop()
    if (document.hidden) return
    const source = new EventSource(group < 0 ? 'events' : `events?group=${group}`)
    this.#source = source
    this.#heard = Date.now()
    let ended = false
    for (const event of ['all', 'turn', 'trouble']) {
      source.addEventListener(event, (e) => {
        this.#heard = Date.now()
        ended = false // another server has taken the place of the one that ended
        this.#on.link('live')
        this.#on.message(event, JSON.parse(e.data))
      })
    }
    source.addEventListener('end', () => {
      ended = true
      this.#on.link('ended')
    })
    source.onerror = () => {
      if (!ended) this.#on.link('lost')
      // The browser tries again by itself, unless the answer was an error.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => source === this.#source && this.open(this.#group), 2000)
    }
    // A connection may be dead without notice.
    this.#watchdog = setInterval(() => {
      if (Date.now() - this.#heard > this.patience) this.open(this.#group)
    }, 5000)
  }

  #stop() {
    clearInterval(this.#watchdog)
    this.#source?.close()
    this.#source = undefined
  }
}
