package snowflake

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Node provides the timeline that generators draw from. *lease.Agent is one, and so
// is *Timeline.
type Node interface {
	// Timeline returns the same timeline at every call: all generators on one node share
	// it.
	Timeline() *Timeline
}

// Fixed is a node that has nodeID without a lease, forever. Two conditions are up
// to you, for nobody checks them:
//
//   - no other process, and no other Fixed in this one, has the same node ID;
//   - when the process starts, its wall clock is past the last ID that an earlier
//     run made. A clock that never steps back meets this. After a step back, do not
//     restart the process before the clock has caught up.
//
// To keep the second one simple, a Fixed node makes no ID that is ahead of the
// wall clock: WithMaxBackward counts as 0. A node ID that does not fit is New's
// error.
func Fixed(nodeID int) Node { return fixedOn(nil, nodeID) }

func fixedOn(c Clock, nodeID int) Node {
	t := NewTimeline(c)
	// Nothing remembers the last stamp of a run. Stamps that go on past a step back
	// would be made again by the next run, which begins at the wall clock.
	t.maxBack = 0
	err := t.Bind(Span{NodeID: nodeID, Until: Forever(), Deadline: math.MaxInt64})
	return fixed{t, err}
}

type fixed struct {
	t   *Timeline
	err error
}

func (f fixed) Timeline() *Timeline { return f.t }

// StatefulSet is [Fixed] with the ordinal of a Kubernetes StatefulSet, the number
// at the end of the host name: 7 in "orders-7". Only one pod has it at a time,
// unless a pod is deleted by force; Kubernetes ensures that, and nothing else does.
//
// It is an error if the host name has no such number, or one that means something
// else: a part of an IP address, the random end of a Deployment's pods.
func StatefulSet() (Node, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("snowflake: no host name to take an ordinal from: %w", err)
	}
	n, err := ordinal(host)
	if err != nil {
		return nil, err
	}
	return Fixed(n), nil
}

var (
	// An ordinal is never padded, and 16 bits are the most that a pool has.
	ordinalName = regexp.MustCompile(`^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?-(0|[1-9][0-9]{0,4})$`)
	// ip-10-0-1-25 is what a machine on EC2 is called: equal numbers everywhere.
	addressName = regexp.MustCompile(`[0-9]+-[0-9]+-[0-9]+-[0-9]+$`)
	// A Deployment's pods are NAME-HASH-RANDOM, and some random ends are digits only.
	// Neither part has the letters and digits that could spell a word.
	deploymentName = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
)

// ordinal takes the ordinal from a host name, whatever domain follows.
func ordinal(host string) (int, error) {
	name, _, _ := strings.Cut(host, ".")
	found := ordinalName.FindStringSubmatch(name)
	if found == nil || addressName.MatchString(name) || deploymentName.MatchString(name) {
		return 0, fmt.Errorf("snowflake: host name %.80q has no StatefulSet ordinal, as in orders-7: run the process in a StatefulSet, pass the node ID to Fixed, or lease one", host)
	}
	n, err := strconv.Atoi(found[1])
	if err == nil && n >= 1<<16 {
		err = fmt.Errorf("snowflake: ordinal %d of host name %.80q is beyond 16 bits", n, host)
	}
	return n, err
}
