// Tests of the stream of messages, without a browser.
import assert from 'node:assert/strict'
import { test } from 'node:test'

// A source of events that the test controls.
class Source {
  static CLOSED = 2
  readyState = 0
  on = {}
  constructor() { Source.last = this }
  addEventListener(event, on) { this.on[event] = on }
  close() {}
}

test('a server that is gone is noticed also after another one had ended', async () => {
  let hide
  globalThis.document = { hidden: false, addEventListener(_, on) { hide = on } }
  globalThis.EventSource = Source
  const { Stream } = await import('../page/stream.js')
  const states = []
  new Stream({ message() {}, link(state) { states.push(state) } }).open(-1)
  const { on } = Source.last
  on.end()
  Source.last.onerror() // the server has said that it ends
  on.all({ data: '{}' }) // it was started again
  Source.last.onerror()
  document.hidden = true
  hide() // stops the clock of the stream
  assert.deepEqual(states, ['ended', 'live', 'lost'])
})
