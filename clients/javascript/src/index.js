// Snowflake IDs made in this process, from blocks that the Nodelease sidecar has drawn.
// This file follows the rules of docs/protocol-clients.md. Types: index.d.ts.

import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { uptime } from 'node:os'

const FIRST = 256 // size of the requested blocks: at first, and at most
const MOST = 1 << 20
const CHUNK = 4096 // IDs of a batch between two readings of the clocks
const LONGEST = 2 ** 31 - 1 // ms of a timer: a longer one ends at once

/** The base of all errors of this package. `word` is the sidecar's word for it, if it has one. */
export class NodeleaseError extends Error {
  constructor (message, word = '', options = undefined) {
    super(message, options)
    this.name = new.target.name
    this.word = word
  }
}
/** No sidecar answers at the address. */
export class SidecarUnavailable extends NodeleaseError {}
/** The node ID cannot be used now: DynamoDB does not answer, or another process has it. */
export class Fenced extends NodeleaseError {}
/** More IDs were requested than the layout has for one node ID. */
export class Exhausted extends NodeleaseError {}
/** The sidecar's clock was set back; it makes IDs when the clock has caught up. */
export class ClockBehind extends NodeleaseError {}

const errors = {
  __proto__: null, suspended: Fenced, lost: Fenced, closed: Fenced, busy: Exhausted, clock_behind: ClockBehind
}

/** The meaning of an ID's bits, from the highest down: time, node, sequence (or time, sequence, node). */
export class Layout {
  constructor ({ epochMs, tickMs = 1, timeBits, nodeBits, sequenceBits, nodeLast = false }) {
    Object.assign(this, { epochMs, tickMs, timeBits, nodeBits, sequenceBits, nodeLast })
    for (const v of [epochMs, tickMs, timeBits, nodeBits, sequenceBits]) {
      if (!Number.isSafeInteger(v) || v < 0) throw new RangeError(`a layout with ${v}: use whole numbers from 0 on`)
    }
    Object.freeze(this)
  }

  /** Whether every ID fits in a number. */
  get javaScriptSafe () { return this.timeBits + this.nodeBits + this.sequenceBits <= 53 }

  /** Decode an ID of this layout. */
  decompose (id) {
    if (typeof id === 'number' && !Number.isSafeInteger(id)) throw new RangeError(`the number ${id} may not be the ID that was meant: numbers are exact only up to 2^53-1; use a bigint or a string`)
    const digits = String(id) // BigInt takes '' and [] for 0
    id = /^\d{1,19}$/.test(digits) ? BigInt(digits) : -1n
    const all = this.timeBits + this.nodeBits + this.sequenceBits
    if (id < 0n || id >> BigInt(all)) throw new RangeError(`${JSON.stringify(digits.slice(0, 40))} is not an ID of this layout: use 0 to 2^${all}-1`)
    const bits = (from, n) => Number(id >> BigInt(from) & (1n << BigInt(n)) - 1n)
    const time = new Date(this.epochMs + bits(this.nodeBits + this.sequenceBits, 63) * this.tickMs)
    return this.nodeLast
      ? { time, node: bits(0, this.nodeBits), sequence: bits(this.nodeBits, this.sequenceBits) }
      : { time, node: bits(this.sequenceBits, this.nodeBits), sequence: bits(0, this.sequenceBits) }
  }
}

const layout = (epochMs, tickMs, timeBits, nodeBits, sequenceBits, nodeLast) => new Layout({ epochMs, tickMs, timeBits, nodeBits, sequenceBits, nodeLast })
export const layouts = Object.freeze({
  default: layout(1735689600000, 1, 41, 10, 12, false),
  wide16: layout(1735689600000, 1, 41, 16, 6, false),
  js53: layout(1735689600000, 1, 41, 6, 6, false),
  twitter: layout(1288834974657, 1, 41, 10, 12, false),
  discord: layout(1420070400000, 1, 41, 10, 12, false),
  sonyflake: layout(1409529600000, 10, 39, 16, 8, true)
})

/** The request options of an address: unix:/path or http://host:port. */
function parseAddress (text = process.env.NODELEASE_SIDECAR || 'http://127.0.0.1:7373') {
  if (/^unix:./.test(text)) return { text, socketPath: text.slice(5).replace(/^\/\//, ''), host: 'localhost' }
  try {
    const url = new URL(text)
    if (url.protocol === 'http:' && url.pathname === '/') return { text, host: url.hostname.replace(/^\[|\]$/g, ''), port: url.port || 80 }
  } catch {}
  throw new TypeError(`the sidecar's address ${JSON.stringify(text)} (NODELEASE_SIDECAR): use http://127.0.0.1:7373 or unix:/path/to/socket`)
}

let boot = 0
let bootRead = -Infinity
/** The boot clock (it counts the time that the machine slept), the monotonic clock and the wall clock, in ms. */
export function systemClocks () {
  const mono = performance.now()
  if (mono - bootRead >= 5 || mono < bootRead) [boot, bootRead] = [uptime() * 1000, mono]
  return [boot, mono, Date.now()]
}

/** Reads the generation counter of a VMClock device, which changes when the machine is restored from a snapshot. */
function openVMClock (path) {
  let fd
  try {
    fd = openSync(path, 'r')
    const head = Buffer.alloc(32)
    if (readSync(fd, head, 0, 32, 0) === 32 && head.readUInt32LE(0) === 0x4b4c4356 && head.readUInt16LE(8) === 1 && head[25] & 1) {
      const counter = Buffer.alloc(8)
      return { fd, read: () => { readSync(fd, counter, 0, 8, 104); return counter.readBigUInt64LE() } }
    }
  } catch {}
  if (fd !== undefined) closeSync(fd)
  return { read: () => 0n }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Makes IDs. Each worker thread creates its own generator; a generator cannot be sent to one. */
export class IdGenerator {
  #address; #agent; #clocks; #vm; #name = randomBytes(8).toString('hex'); #closed = false
  #fetching = null; #pool = ''; #want = FIRST; #fetched = 0
  // The block: count IDs from ticket first on, of which used are used.
  #first = 0n; #count = 0; #used = 0; #low = 0n; #shift = 0n; #node = 0n; #mask = 0n
  #left = 0; #began = []; #generation = 0n

  /** The layout of the pool, once an ID was made. */
  layout = null

  constructor ({ sidecar, timeout = 2000, clocks = systemClocks, vmClock = '/dev/vmclock0' } = {}) {
    this.#address = parseAddress(sidecar)
    this.timeout = timeout // ms; may be changed
    this.#clocks = clocks
    this.#vm = openVMClock(vmClock)
    this.#agent = new Agent({ keepAlive: true, maxSockets: 1 })
  }

  /** How many blocks were fetched so far. */
  get requests () { return this.#fetched }

  /** Return the next ID, a bigint. */
  async next () {
    for (let end = 0; ;) { // other calls may have used up the block, or it came too late
      const id = this.tryNext()
      if (id !== undefined) return id
      const now = performance.now()
      end ||= now + this.timeout
      if (now > end) throw this.#late()
      await this.#fetch(1)
    }
  }

  /** Return the next ID as decimal digits: for JSON. */
  async nextString () { return String(await this.next()) }

  /** Return the next ID as a number. It is an error if the layout has more than 53 bits. */
  async nextNumber () {
    const id = await this.next()
    if (!this.layout.javaScriptSafe) throw new RangeError('the pool\'s layout has more than 53 bits, which a number cannot hold: use next or nextString')
    return Number(id)
  }

  /** Return the next ID if this process has one, or undefined: then await next. */
  tryNext () {
    // The clocks are read before the ticket is taken.
    return this.#used < this.#count && !this.#over() ? this.#id(this.#first + BigInt(this.#used++)) : undefined
  }

  /** Return n IDs that grow. */
  async batch (n) {
    if (!Number.isSafeInteger(n) || n < 0) throw new RangeError(`a batch of ${n} IDs: use a whole number from 0 on`)
    const out = new Array(n) // anything else than a number would be its only element
    for (let i = 0, got = performance.now(); i < n;) {
      const before = i
      while (i < n && this.#used < this.#count && !this.#over()) i = this.#takeInto(out, i, Math.min(n - i, this.#count - this.#used, CHUNK))
      const now = performance.now()
      if (i > before) got = now
      if (now > got + this.timeout) throw this.#late()
      if (i >= n) break
      if (i > before) await null // calls that waited for this block, and got none of its IDs, come first
      if (this.#used >= this.#count || this.#over()) await this.#fetch(n - i)
    }
    return out
  }

  async * [Symbol.asyncIterator] () { while (true) yield await this.next() }

  /** Drop the block and the connection. */
  close () {
    this.#closed = true
    this.#drop()
    this.#agent.destroy()
    if (this.#vm.fd !== undefined) closeSync(this.#vm.fd)
    this.#vm = { read: () => 0n }
  }

  #id (ticket) { return ticket >> this.#low << this.#shift | this.#node | ticket & this.#mask }

  #takeInto (out, i, count) {
    const ticket = this.#first + BigInt(this.#used)
    let step = 1n // IDs are consecutive up to a carry beyond the node ID
    if (this.#low) count = Math.min(count, Number(this.#mask + 1n - (ticket & this.#mask)))
    else step = 1n << this.#shift
    for (let id = this.#id(ticket), end = i + count; i < end; id += step) out[i++] = id
    this.#used += count
    return i
  }

  #over () {
    // The first clock to reach the end ends the block. A clock that went back may hide a sleep.
    const now = this.#clocks()
    for (let i = 0; i < now.length; i++) {
      const gone = now[i] - this.#began[i]
      if (!(gone >= 0 && gone < this.#left)) return true
    }
    return this.#vm.read() !== this.#generation
  }

  #drop () {
    this.#count = this.#used = this.#left = 0
    this.#began = []
  }

  // One request at a time: calls that need a block meanwhile wait for the same one, and
  // take IDs from it one after the other.
  #fetch (need) {
    this.#fetching ??= this.#fetchNow(need).finally(() => { this.#fetching = null })
    return this.#fetching
  }

  async #fetchNow (need) {
    const end = performance.now() + this.timeout
    for (let delay = 0; ; delay = Math.min(Math.max(delay * 2, 10), 200)) {
      this.#check()
      if (this.#count) { // used up: request more; too old: as many as were used
        this.#want = this.#used >= this.#count ? Math.min(this.#want * 2, MOST) : Math.max(FIRST, Math.min(this.#used * 2, MOST))
      }
      this.#drop()
      const nonce = randomBytes(8).toString('hex')
      // The clocks are read before sending: left_ms was computed later, so the block ends early, never late.
      const expected = { nonce, began: this.#clocks(), generation: this.#vm.read() }
      let error
      try {
        const path = `/v1/blocks?client=${this.#name}&nonce=${nonce}&n=${Math.min(Math.max(this.#want, need), MOST)}`
        error = this.#accept(await this.#exchange(path, Math.max(end - performance.now(), 1)), expected)
        if (!error) return
      } catch (e) {
        if (e instanceof NodeleaseError) throw e
        error = new SidecarUnavailable(`no sidecar answers at ${this.#address.text} (${e.message || e.code}): start \`nodelease serve\`, or set NODELEASE_SIDECAR`, '', { cause: e })
      }
      if (this.#closed || performance.now() + delay >= end) throw error
      await sleep(delay) // at first 0: the sidecar was restarted, and the connection is old
    }
  }

  #exchange (path, left) {
    const { text, ...where } = this.#address
    return new Promise((resolve, reject) => {
      const r = request({ ...where, path, method: 'POST', agent: this.#agent, headers: { 'Content-Length': 0 }, setHost: !where.socketPath }, (answer) => {
        const parts = []
        answer.on('data', (part) => parts.push(part))
        answer.on('end', () => { clearTimeout(timer); resolve({ status: answer.statusCode, body: Buffer.concat(parts).toString() }) })
        answer.on('error', (e) => { clearTimeout(timer); reject(e) })
      })
      if (where.socketPath) r.setHeader('Host', 'localhost')
      const timer = setTimeout(() => r.destroy(new Error('no answer in time')), Math.min(left, LONGEST))
      r.on('error', (e) => { clearTimeout(timer); reject(e) })
      r.end()
    })
  }

  #check () { if (this.#closed) throw new NodeleaseError('the generator is closed') }

  // Take the block of an answer. Return an error that a retry may resolve, throw any other.
  #accept ({ status, body }, { nonce, began, generation }) {
    this.#check() // close does not wait for the answer: a block that comes after it is dropped
    const no = (why) => new NodeleaseError(`an answer that is not the sidecar's (${status}, ${why}): does NODELEASE_SIDECAR name a sidecar of this release?`)
    let b
    try { b = JSON.parse(body) } catch (e) { throw no(e.message) }
    if (status !== 200) {
      if (typeof b?.error !== 'string') throw no('no error')
      const error = new (errors[b.error] ?? NodeleaseError)(`${b.detail}: ${b.remedy}`, b.error)
      if (error.word === 'lost' || error.word === 'closed') return error // the sidecar is restarting
      throw error
    }
    // A cached answer has been used before.
    if (b?.nonce !== nonce) throw new NodeleaseError('the answer belongs to another request: is there a proxy or a cache in front of the sidecar?')
    const { node_id: node, node_bits: bits, count, left_ms: left, layout: l } = b
    if (![node, bits, count, left].every(Number.isSafeInteger) || !/^\d+$/.test(b.first) || !l || !(node >= 0 && node < 2 ** bits && bits <= l.node_bits && count > 0)) throw no('a field is missing or out of range')
    const here = layout(l.epoch_ms, l.tick_ms, l.time_bits, l.node_bits, l.sequence_bits, l.node_last)
    const pool = `${b.pool} ${JSON.stringify(here)}` // not all of l: a later release of the sidecar may add fields
    if (this.#pool && this.#pool !== pool) throw new NodeleaseError(`the sidecar now serves pool ${pool}, not ${this.#pool} as before: IDs of two pools may be equal; restart the program`)
    this.#pool = pool
    this.layout ??= here
    const low = l.node_last ? 0 : l.sequence_bits
    this.#low = BigInt(low)
    this.#shift = BigInt(low + bits)
    this.#mask = (1n << this.#low) - 1n
    this.#node = BigInt(node) << this.#low
    this.#first = BigInt(b.first)
    this.#count = count
    this.#used = 0
    this.#left = left
    this.#began = began
    this.#generation = generation
    this.#fetched++
  }

  #late () { return new SidecarUnavailable(`no block from the sidecar at ${this.#address.text} in time: its answers take longer than blocks may be used, or too many other calls draw IDs`) }
}
