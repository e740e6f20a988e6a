package supervise

import "syscall"

// GuardianCommand is the hidden command of this program that runs the guardian. Its
// arguments are the path of the child's program and the child's arguments, beginning with
// its name. Its orders arrive through a pipe, as one JSON value each. The end of the pipe
// is also an order: it means that the owner has died.
const GuardianCommand = "exec-guardian"

// The guardian's file descriptors: the pipe with its orders, and the pipe for its report.
const (
	ordersFile = 3
	reportFile = 4
)

// Weaker describes the promises that do not hold on this platform. On Linux all hold.
const Weaker = ""

// settings is the first value in the pipe.
type settings struct {
	GraceNS  int64 `json:"grace_ns"`
	Deadline boot  `json:"deadline"`
	// Group is the process group that the child joins; 0 means a new group.
	Group int `json:"group"`
}

// order is each later value in the pipe.
type order struct {
	Deadline boot           `json:"deadline,omitempty"` // the new deadline; never earlier than the previous one
	Signal   syscall.Signal `json:"signal,omitempty"`   // to be passed on to the child
	Stop     bool           `json:"stop,omitempty"`     // end the child, because the lease is lost
	Now      bool           `json:"now,omitempty"`      // with Stop: without a grace period
}

// report is the guardian's last message.
type report struct {
	Stopped bool `json:"stopped"` // the child was ended because the lease was over
}
