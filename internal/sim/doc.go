// Package sim runs the product itself, the agents with their store, the AWS SDK's
// client and generators, against the embedded DynamoDB over connections in memory
// and in virtual time, in a world where everything goes wrong. What happens is
// judged by package history as it happens.
//
// A seed fixes what the world does: who is slow, cut off, paused, killed, when
// clocks step, what the operators do. It does not fix the order in which the
// runtime schedules goroutines, nor the agents' own jitter: a seed that fails is
// likely to fail again, and its history, which is saved, is judged the same for
// ever. The model in pkg/lease is the one that repeats bit for bit.
//
// The faults:
//
//   - Requests are lost, delayed beyond the lease and delivered late and out of
//     order, whether their sender has gone or not; answers are lost after the
//     write was done; the store throttles, answers 500 before or after it did the
//     write, hangs, refuses connections, or is away for longer than the lease.
//   - Processes are paused, up to minutes: see below. They are killed; tasks are
//     deployed anew, old and new at once; there are more tasks than numbers.
//   - Wall clocks step both ways. In a bounded world they stay within what the
//     guards tolerate, and then S2 is judged too; in a wild one they are hours off.
//     Monotonic clocks drift.
//   - Operators seed, reap, resize and release by force, also on old sight.
//
// A pause stops a process where it touches the world: before a request is sent
// (the clocks have been read by then), before an answer is heard, at a generator's
// reading of the clock, which then returns what it was before the pause, and
// between the two clocks that a claim reads. Timers of the agent go off meanwhile,
// unlike in a process that is really stopped, and what they start stops at the
// next of these points. It cannot stop where a lock is held, for virtual time
// stands still when someone waits for a lock; the model can.
package sim
