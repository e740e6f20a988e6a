package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// model contains the last read of every group, and what is computed from these reads.
type model struct {
	pool   protocol.PoolItem
	groups []group
	total  counts
	churn  churn // since the last turn
}

// group is one group as last read.
type group struct {
	readAt  time.Time
	nodeIDs []nodeID // in the order of their node IDs, beginning with the group's first
	counts  counts
}

// churn counts changes of holders.
type churn struct{ claimed, ended int }

// change contains the changes that one turn found.
type change struct {
	nodeIDs map[int][]*nodeID // by group: node IDs that changed by more than a renewal
	beats   map[int][]beat    // by group: renewals
	groups  map[int]counts    // counts of the groups in which they changed
	gone    bool              // a group has fewer node IDs than before
	news    []news
}

func newChange() *change {
	return &change{nodeIDs: map[int][]*nodeID{}, beats: map[int][]beat{}, groups: map[int]counts{}}
}

// read records the result of reading a group.
func (m *model) read(index int, got protocol.Group, at time.Time, c *change) {
	for len(m.groups) <= index {
		m.groups = append(m.groups, group{})
	}
	g := &m.groups[index]
	first := g.readAt.IsZero()
	now := m.show(index, got, at)
	c.gone = c.gone || len(now) < len(g.nodeIDs)
	for i := range now {
		n := &now[i]
		if i >= len(g.nodeIDs) {
			c.nodeIDs[index] = append(c.nodeIDs[index], n)
			continue
		}
		old := &g.nodeIDs[i]
		if !first {
			m.compare(old, n, c)
		}
		switch {
		case !same(old, n):
			c.nodeIDs[index] = append(c.nodeIDs[index], n)
		case old.beat() != n.beat():
			c.beats[index] = append(c.beats[index], n.beat())
		}
	}
	var sum counts
	for i := range now {
		sum.add(now[i].State, 1)
	}
	if sum != g.counts || first {
		c.groups[index] = sum
	}
	for i := range sum {
		m.total[i] += sum[i] - g.counts[i]
	}
	*g = group{readAt: at, nodeIDs: now, counts: sum}
}

// show arranges a group's items by node ID. A node ID that should have an item and has none
// is shown as missing. Reserved node IDs need no item, and a narrow pool has none for the node
// IDs beyond its present width. A foreign item in the group's partition is corrupt, and may have
// any key.
//
// Invariant: a node ID of another group has no place here, so its item is not shown.
func (m *model) show(index int, got protocol.Group, at time.Time) []nodeID {
	got.Corrupt = slices.DeleteFunc(slices.Clone(got.Corrupt), func(c *protocol.CorruptError) bool { return c.NodeID/protocol.GroupSize != index })
	from := index * protocol.GroupSize
	size := min(m.pool.Limit()-from, protocol.GroupSize)
	for _, l := range got.Leases {
		size = max(size, l.NodeID-from+1)
	}
	for _, c := range got.Corrupt {
		size = max(size, c.NodeID-from+1)
	}
	nodeIDs := make([]nodeID, max(size, 0))
	for i := range nodeIDs {
		nodeIDs[i] = nodeID{ID: from + i, State: missing}
		if from+i < m.pool.ExcludeBelow {
			nodeIDs[i].State, nodeIDs[i].Note = lease.Retired, reserved
		}
	}
	for _, c := range got.Corrupt {
		nodeIDs[c.NodeID-from] = nodeID{ID: c.NodeID, State: corrupt, Note: text.Error(c.Err)}
	}
	for _, l := range got.Leases { // last: a foreign item whose key has a fraction hides no intact item
		nodeIDs[l.NodeID-from] = show(lease.Lease(l), m.pool, at)
	}
	return nodeIDs
}

// same reports whether two reads of a node ID differ by no more than a renewal.
func same(a, b *nodeID) bool {
	return a.State == b.State && a.holder == b.holder && a.Version == b.Version && a.Task == b.Task && a.Note == b.Note && a.TTL == b.TTL && a.Grown == b.Grown && maps.Equal(a.Metadata, b.Metadata)
}

// compare adds the changes of a node ID between two reads to c.
func (m *model) compare(old, n *nodeID, c *change) {
	say := func(kind, format string, args ...any) {
		c.news = append(c.news, news{NodeID: n.ID, Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	if by := n.Version - old.Version; by > 0 && old.State != corrupt {
		m.churn.claimed += int(by)
	}
	if old.holder != "" && old.holder != n.holder && n.State != corrupt {
		m.churn.ended++
	}
	switch {
	case n.State == corrupt && old.State != corrupt:
		say("corrupt", "its item cannot be read")
	case n.holder != "" && n.holder != old.holder:
		say("claimed", "%s, v%d", n.Task, n.Version)
	case old.holder != "" && n.holder == "" && old.State == lease.Expired:
		say("reaped", "was held by %s", old.Task)
	case old.holder != "" && n.holder == "":
		say("released", "by %s", old.Task)
	case old.State == lease.Held && n.State == lease.Expired:
		say("expired", "%s stopped renewing", n.Task)
	case old.State == lease.Expired && n.State == lease.Held:
		say("resumed", "%s renews again", n.Task)
	case old.State == missing && n.State != missing:
		say("seeded", "a new node ID")
	case n.State == lease.Retired && old.State != lease.Retired:
		say("retired", "out of use")
	case old.State == lease.Retired && n.State != lease.Retired:
		say("restored", "back in use")
	}
}

// late lists the holders whose leases run low, the next to expire first, and separately
// those whose leases have expired, the last to expire first. Each lease is judged as of its
// last read, since its holder may have renewed it after that.
func (m *model) late() (next, expired []*nodeID) {
	waits := m.waits(time.Now())
	for _, g := range m.groups {
		for i := range g.nodeIDs {
			switch n := &g.nodeIDs[i]; {
			case n.State == lease.Expired:
				expired = append(expired, n)
			case n.low(g.readAt, waits):
				next = append(next, n)
			}
		}
	}
	slices.SortFunc(next, func(a, b *nodeID) int {
		return cmp.Or(cmp.Compare(a.Expires, b.Expires), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(expired, func(a, b *nodeID) int {
		return cmp.Or(cmp.Compare(b.Expires, a.Expires), cmp.Compare(a.ID, b.ID))
	})
	return next, expired
}

// reserved returns how many expired node IDs can be claimed, because nothing is reserved any
// more, and when the first of the other node IDs without a live holder can be claimed.
func (m *model) reserved(now time.Time) (claimable int, first time.Time) {
	for _, g := range m.groups {
		for i := range g.nodeIDs {
			n := &g.nodeIDs[i]
			until := time.UnixMilli(n.Reserved)
			switch {
			case n.State != lease.Expired && n.State != lease.Cooling:
			case n.State == lease.Expired && !until.After(now):
				claimable++
			case first.IsZero() || until.Before(first):
				first = until
			}
		}
	}
	return claimable, first
}

// machineSkew is how far the clock of this machine and that of the machine that measured
// the pool may differ.
const machineSkew = 3 * time.Second

// waits returns the length, in ms, with which the holder of a grown lease renews it when
// leases may no longer grow: see [nodeID.low]. It returns 0 while leases may grow. It
// decides this as an agent does whose lease has not grown yet, because such agents are the
// first to stop growing.
func (m *model) waits(now time.Time) int64 {
	if m.pool.Measured == nil {
		return 0 // no lease of this pool has ever grown
	}
	var room tenure.Room
	room.Learn(m.pool)
	if room.Grows(now, machineSkew) {
		return 0
	}
	return lease.DefaultTTL.Milliseconds()
}

// outage returns the effect on the holders of an outage of DynamoDB that began now.
func (m *model) outage(now time.Time) (o leasepool.Outage) {
	for _, g := range m.groups {
		for i := range g.nodeIDs {
			if n := &g.nodeIDs[i]; n.Held && !n.OnDemand && n.IDs > 0 && n.Expires >= now.UnixMilli() {
				o.Add(time.UnixMilli(n.IDs), now)
			}
		}
	}
	return o
}

const (
	mostLate    = 50 // how many leases that run low a message lists
	mostExpired = 3  // how many expired leases a message lists
)

// asOf returns the time of the oldest read among the groups in which something can happen.
func (m *model) asOf() (at time.Time) {
	for i := range m.groups {
		g := &m.groups[i]
		if (i < m.pool.OpenGroups || g.lively()) && (at.IsZero() || g.readAt.Before(at)) {
			at = g.readAt
		}
	}
	return at
}
