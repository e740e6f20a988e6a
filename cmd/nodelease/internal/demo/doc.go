// Package demo shows the whole protocol at work on one machine, and checks it. A
// fleet of real processes leases node IDs from a DynamoDB and makes IDs.
// Meanwhile the processes are killed, frozen and stopped, and their clocks are
// moved, and every ID of every process is compared with all others.
//
//	           orders (stdin)          requests
//	         ┌───────────────▶ task ───────────────▶ dynamodb
//	director │ ◀───────────────                       (a process of its own,
//	   │     │   IDs, events (stdout)                  killed by --outage)
//	   │     └ kill -9, SIGSTOP, SIGCONT, SIGTERM
//	   ▼
//	 board ──▶ live view, or plain lines
//
// Only the director starts and signals processes. Each task is this program
// again, with a hidden command, and has the real agent, generator and AWS client.
// Only its clock, which can be set, and the pipe for its IDs are made for the demo.
//
// The comparison is exact and covers all IDs that reached a pipe, including those
// of tasks that were killed. When Run returns, no process is left. Two runs with
// one seed have the same plan of actions, but they are not equal to the
// millisecond, since the machine's own timing differs.
package demo
