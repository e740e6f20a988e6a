// Package supervise runs a program that may live only as long as a lease: until a
// deadline that moves on with each renewal. The lease's holder may be frozen or killed at
// any time, and the program must still end in time. So, on Linux, there is a third
// process between the two:
//
//	          orders (a pipe): deadline, signals, stop
//	owner ────────────────────────────────────────────▶ guardian ───▶ child ──▶ its own children
//	(has the lease)                                        │            ▲           ▲
//	                                                       └─ SIGTERM, SIGKILL ─────┘
//
// The guardian is this program again. It ends the child, and all that the child
// has started,
//
//   - at the deadline that it was told last: SIGTERM a grace before it, SIGKILL at
//     it, on a clock that counts suspends of the machine (CLOCK_BOOTTIME);
//   - when the pipe ends, which is when the owner has died, however it died;
//   - when the child itself has ended and left processes behind.
//
// It adopts orphans (PR_SET_CHILD_SUBREAPER), so that a process which has left the
// child's group and session is found too, and it ends only when none is left. The
// owner waits for that before it releases the lease. The owner watches over the
// guardian in turn: at the deadline it kills anything that a frozen guardian has not, and
// if the guardian is killed, the kernel kills the child (PR_SET_PDEATHSIG), and the
// owner, who adopts orphans too, the rest.
//
// # What is not promised
//
// If owner and guardian are killed with SIGKILL in the same moment, the child dies
// with them, but what it had started does not. If both are frozen, the child is
// not ended until one of them continues; a frozen cgroup or machine freezes the child
// too, and when it thaws a few milliseconds may pass until the guardian's turn. A
// program that changes its user (setuid) can neither be killed by an ordinary user
// nor dies with its parent. On platforms other than Linux there is no guardian: see
// start_other.go.
package supervise
