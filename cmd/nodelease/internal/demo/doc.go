// Package demo shows the whole protocol at work on one machine, and checks it:
// a fleet of real processes leases numbers from a DynamoDB, makes IDs, and is
// killed, frozen, stopped and has its clocks moved, while every ID of every
// process is compared with every other one.
//
//	           orders (stdin)          requests
//	         ┌───────────────▶ task ───────────────▶ dynamodb
//	director │ ◀───────────────                       (a process of its own,
//	   │     │   IDs, events (stdout)                  killed by --outage)
//	   │     └ kill -9, SIGSTOP, SIGCONT, SIGTERM
//	   ▼
//	 board ──▶ live view, or plain lines
//
// The director is the only one that starts and signals processes. Each task is
// this program again, with a hidden command, and has the real agent, generator
// and AWS client; nothing in it is made for the demo but its clock, which can be
// set, and the pipe into which its IDs go.
//
// Promised: the comparison is exact and over all IDs that reached a
// pipe, also those of tasks that were killed; when Run returns, no process is left. It is
// not promised that two runs with one seed are equal to the millisecond. The plan of
// actions repeats, the machine's own timing does not.
package demo
