package supervise

import "syscall"

// GuardianCommand is the hidden command of this program that is the guardian. Its
// arguments are the path of the child's program and the child's own, from its name
// on. Its orders come through a pipe, one JSON value each; the pipe's end is an
// order too.
const GuardianCommand = "exec-guardian"

// Where the guardian has the pipe with its orders, and one for its report.
const (
	ordersFile = 3
	reportFile = 4
)

// Weaker describes the promises that do not hold on this platform: none.
const Weaker = ""

// settings is the first value in the pipe.
type settings struct {
	GraceNS  int64 `json:"grace_ns"`
	Deadline boot  `json:"deadline"`
	// Group is the process group that the child joins; 0 is one of its own.
	Group int `json:"group"`
}

// order is every later value.
type order struct {
	Deadline boot           `json:"deadline,omitempty"` // the newest; never before an earlier one
	Signal   syscall.Signal `json:"signal,omitempty"`   // to be sent on to the child
	Stop     bool           `json:"stop,omitempty"`     // end the child: the lease is lost
	Now      bool           `json:"now,omitempty"`      // with Stop: without a grace
}

// report is the guardian's last message.
type report struct {
	Stopped bool `json:"stopped"` // the child was ended because the lease was over
}
