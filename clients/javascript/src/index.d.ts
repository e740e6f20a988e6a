/** The base of all errors of this package. */
export class NodeleaseError extends Error {
  /** The sidecar's word for the error, if it has one. */
  readonly word: string
}
/** No sidecar answers at the address. */
export class SidecarUnavailable extends NodeleaseError {}
/** The node ID cannot be used now: DynamoDB does not answer, or another process has it. */
export class Fenced extends NodeleaseError {}
/** More IDs were requested than the layout has for one node ID. */
export class Exhausted extends NodeleaseError {}
/** The sidecar's clock was set back; it makes IDs when the clock has caught up. */
export class ClockBehind extends NodeleaseError {}

export interface Parts { time: Date, node: number, sequence: number }

/** The meaning of an ID's bits, from the highest down: time, node, sequence (or time, sequence, node). */
export class Layout {
  constructor (bits: { epochMs: number, tickMs?: 1 | 10, timeBits: number, nodeBits: number, sequenceBits: number, nodeLast?: boolean })
  readonly epochMs: number
  readonly tickMs: number
  readonly timeBits: number
  readonly nodeBits: number
  readonly sequenceBits: number
  readonly nodeLast: boolean
  /** Whether every ID fits in a number. */
  readonly javaScriptSafe: boolean
  /**
   * Decode an ID of this layout. In a narrow pool `node` includes the sequence's upper end. A number above
   * 2^53-1 is a RangeError, since it is rounded: use a bigint or a string.
   */
  decompose (id: bigint | string | number): Parts
}

export const layouts: Readonly<Record<'default' | 'wide16' | 'js53' | 'twitter' | 'discord' | 'sonyflake', Layout>>

/** The boot clock, the monotonic clock and the wall clock, in ms. */
export function systemClocks (): number[]

export interface Options {
  /** unix:/path or http://host:port. Default: NODELEASE_SIDECAR, or port 7373 of this machine. */
  sidecar?: string
  /** How many ms a call may wait for a sidecar that does not answer; Infinity for no end. Default: 2000. */
  timeout?: number
  /** For tests. */
  clocks?: () => number[]
  /** For tests: a VMClock device. Default: /dev/vmclock0. */
  vmClock?: string
}

/** Makes IDs. Each worker thread creates its own generator; a generator cannot be sent to one. */
export class IdGenerator implements AsyncIterable<bigint> {
  constructor (options?: Options)
  /** The layout of the pool, once an ID was made. */
  readonly layout: Layout | null
  /** How many ms a call may wait for a sidecar that does not answer. */
  timeout: number
  /** How many blocks were fetched so far. */
  readonly requests: number
  /** Return the next ID. */
  next (): Promise<bigint>
  /** Return the next ID as decimal digits: for JSON. */
  nextString (): Promise<string>
  /** Return the next ID as a number. It is an error if the layout has more than 53 bits. */
  nextNumber (): Promise<number>
  /** Return the next ID if this process has one, or undefined: then await next. */
  tryNext (): bigint | undefined
  /** Return n IDs that grow. */
  batch (n: number): Promise<bigint[]>
  /** Drop the block and the connection. */
  close (): void
  [Symbol.asyncIterator] (): AsyncIterator<bigint>
}
