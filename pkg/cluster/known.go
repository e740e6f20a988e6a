package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// MaxKnown is the largest number of members with which a cluster publishes known versions.
// There is a limit because each member writes an item whose size grows with the cluster.
const MaxKnown = 1024

// tellKnown publishes the versions that this node knows, if they have changed. In a large
// cluster, each member first waits for a random time, so that the writes of all members
// together stay below the limit of one partition.
func (n *Node) tellKnown(ctx context.Context, s State) {
	if !n.cfg.PublishKnown || s.Len() > MaxKnown {
		return
	}
	known := s.versions()
	if maps.Equal(n.published, known) {
		n.due = 0
		return
	}
	now := n.clock.Monotonic()
	if spread := n.knownSpread(s.Len()); n.due == 0 && spread > 0 {
		n.due = now + rand.N(spread)
	}
	if now < n.due {
		return
	}
	if err := n.Publish(ctx, known); err != nil {
		n.warn("cluster known versions not published", err)
		return // the next heartbeat tries again
	}
	n.published, n.due = known, 0
}

// knownSpread returns the time over which the members spread their publications, so that
// all of them together take 500 write units per second, half of the limit of one
// partition. It returns 0 if this time is at most half of the time between two
// heartbeats.
func (n *Node) knownSpread(members int) time.Duration {
	const perMember = 7 // about, in bytes
	units := members * (members*perMember/1024 + 1)
	if spread := time.Duration(units) * time.Second / 500; spread > n.cfg.Every/2 {
		return spread
	}
	return 0
}

// Publish publishes the versions that this node knows. It is for an application with a
// membership protocol of its own (gossip, SWIM), whose view of its peers is better than
// State. Such an application leaves Config.PublishKnown unset. The keys of known are
// those that Member.Key returns. Publish replaces the last publication; a late call does
// not replace a newer one.
func (n *Node) Publish(ctx context.Context, known Versions) error {
	if n.absent() {
		return errAbsent
	}
	if err := protocol.CheckContext(ctx); err != nil {
		return err
	}
	select { // not a lock: the other publication may hang for longer than ctx
	case n.publishing <- struct{}{}:
		defer func() { <-n.publishing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// Revisions begin at the time, because the next node with the same agent has the same
	// version, and its publications must have higher revisions than this node's.
	n.revision = max(n.revision+1, time.Now().UnixMilli())
	return n.cfg.Coordinator.Publish(ctx, n.Self(), n.revision, known)
}

// WaitKnown returns nil when every live member has published that it knows this node's
// version. Then no member believes that this node's predecessor, which may have ended
// uncleanly, is alive. Call WaitKnown before the node reports that it is ready. It returns
// at once, without a request, if the node ID or the name was never held before, or if the
// last holder released the node ID.
//
// A member that does not publish (an older release of the program, without PublishKnown)
// delays WaitKnown for three time-outs. WaitKnown then logs the members that have not
// confirmed, and returns nil. It does the same in a cluster of more than 1,024 members,
// where nothing is published. If ctx ends first, WaitKnown returns the error of ctx, with
// the names of the members that have not confirmed. If the node ends first, it returns
// the error of the node.
func (n *Node) WaitKnown(ctx context.Context) error {
	if n.absent() {
		return errAbsent
	}
	if err := protocol.CheckContext(ctx); err != nil {
		return err
	}
	began := n.clock.Monotonic()
	look, err := began, errNotAsked
	for first := true; ; first = false {
		n.mu.Lock()
		v, next, clean := n.now, n.turned, n.clean || n.now.self.Version <= 1
		n.mu.Unlock()
		if clean {
			return nil // there was no predecessor, or it ended cleanly
		}
		now := n.clock.Monotonic()
		// The total of all known versions grows with the square of the cluster's size. So
		// in a large cluster, nodes that wait read as rarely as members publish, and at
		// random times.
		spread := min(n.knownSpread(v.state.Len()), n.cfg.Timeout)
		if first && spread > 0 {
			look += rand.N(spread)
		}
		if v.state.Len() > MaxKnown {
			err = fmt.Errorf("%d members: known versions are published in clusters of up to %d", v.state.Len(), MaxKnown)
		} else if now >= look {
			var missing []string
			missing, err = n.unaware(ctx, v)
			if err == nil && len(missing) == 0 {
				return nil
			}
			if err == nil {
				err = fmt.Errorf("version %d is not known to %s", v.self.Version, strings.Join(missing, ", "))
			}
			look = now + spread
		}
		if now-began > giveUpAfter*n.cfg.Timeout {
			n.cfg.Logger.Warn("cluster: ready without being known to all", "cluster", n.cfg.Cluster, "name", n.cfg.Name, "error", err)
			return nil
		}
		select {
		case <-next:
		case <-n.done:
			return n.Err()
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("cluster: %w", err), context.Cause(ctx))
		}
	}
}

var errNotAsked = errors.New("no member has been asked yet")

// giveUpAfter is the number of time-outs for which WaitKnown waits. Without
// partitions, all members know a version after two time-outs and a heartbeat.
const giveUpAfter = 3

// sighting is the latest version of a member that a node has seen, and when the member was
// last in the node's state.
type sighting struct {
	version int64
	at      time.Duration
}

// highest contains the latest versions that a node has seen, by Member.Key.
type highest map[string]sighting

// withoutOutdated returns the members except those of which this node has seen a later
// version. After a node has read the leases itself, it may read a digest that was written
// earlier and still contains a member's previous version. A node that has published a
// version must not go back to an older one, because WaitKnown of the member with the
// later version may have returned. A version that is no longer seen is remembered for
// longer than any digest is trusted.
func (n *Node) withoutOutdated(members []Member, now time.Duration) []Member {
	if !n.cfg.PublishKnown || len(members) > MaxKnown {
		return members
	}
	if n.highest == nil {
		n.highest = highest{}
	}
	n.highest.see(n.now.state.members, now)
	maps.DeleteFunc(n.highest, func(_ string, s sighting) bool { return now-s.at > rememberFor*n.cfg.Timeout })
	outdated := func(m Member) bool { return m.Version < n.highest[m.Key()].version }
	if slices.ContainsFunc(members, outdated) {
		members = slices.DeleteFunc(slices.Clone(members), outdated) // the backend still uses the slice
	}
	n.highest.see(members, now)
	return members
}

// rememberFor is the number of time-outs for which a node remembers a version that
// it no longer sees. A digest lists the members alive in the time-out before it was
// written, and is trusted for one time-out after it was first read.
const rememberFor = 4

// see records the versions of a state.
func (h highest) see(members []Member, now time.Duration) {
	for _, m := range members {
		h[m.Key()] = sighting{max(m.Version, h[m.Key()].version), now}
	}
}

// unaware names the live members that do not know this node's version. A publication
// by an earlier holder of a member's node ID does not count for that member.
func (n *Node) unaware(ctx context.Context, v view) (names []string, err error) {
	known, err := n.cfg.Coordinator.Known(ctx, n.cfg.Cluster)
	if err != nil {
		return nil, err
	}
	for _, m := range v.state.members {
		publisher, named := known[m.Key()][m.Key()] // an application's publication may leave out its own version
		earlier := named && publisher < m.Version
		if !m.Same(v.self) && (earlier || known[m.Key()][v.self.Key()] < v.self.Version) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
