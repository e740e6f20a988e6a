// Package supervise runs a program that may live only as long as a lease: until a
// deadline that each renewal extends. The lease's holder may be frozen or killed at
// any time, and the program must still end in time. So, on Linux, there is a third
// process between the holder and the program:
//
//	          orders (a pipe): deadline, signals, stop
//	owner ────────────────────────────────────────────▶ guardian ───▶ child ──▶ its own children
//	(has the lease)                                        │            ▲           ▲
//	                                                       └─ SIGTERM, SIGKILL ─────┘
//
// The guardian is this program again. It ends the child, and everything that the child
// has started,
//
//   - at the last deadline that the owner sent: with SIGTERM one grace period before the
//     deadline and SIGKILL at the deadline, by a clock that counts suspends of the
//     machine (CLOCK_BOOTTIME);
//   - when the pipe ends, which means that the owner has died, in whatever way;
//   - when the child itself has ended and left processes behind.
//
// The guardian adopts orphans (PR_SET_CHILD_SUBREAPER), so that it also finds processes
// that have left the child's group and session, and it ends only when no process is left.
// The owner waits for that before it releases the lease. The owner in turn watches the
// guardian: at the deadline it kills every process that a frozen guardian has not killed.
// If the guardian is killed, the kernel kills the child (PR_SET_PDEATHSIG), and the owner,
// which adopts orphans too, kills the other processes.
//
// # What is not promised
//
// If owner and guardian are killed with SIGKILL at the same moment, the child dies
// with them, but processes that it has started do not. If both are frozen, the child is
// not ended until one of them continues. A frozen cgroup or machine freezes the child
// too; when it thaws, the child may run for a few milliseconds before the guardian does. A
// program that changes its user (setuid) cannot be killed by an ordinary user, and does
// not die with its parent. On platforms other than Linux there is no guardian: see
// start_other.go.
package supervise
