package main

const (
	sharedFile  = "pkg/discovery/shared.go"
	clusterNode = "pkg/cluster/node.go"
)

// The mutants that broke promises where parts of the product meet. The simulated worlds find
// them, except for three that only directed tests find, because nothing in a world stops
// while it holds a lock, or between two lines that take no time. "a Close lets a Bind in"
// needs a Bind within nanoseconds. "the watchdog emits after it has unlocked" and "a late
// bark ends the next term" need an answer within microseconds of the deadline.
var worldMutants = []mutant{
	{"world: a resize during a widening is not seen", widen, `	if c.Pool, err = p.change(ctx, begin); err != nil {
		return false, err
	}
`, `	numbers := c.Pool.ExistBelow
	if now, err := p.item(ctx); err == nil {
		begin.ExistBelow = now.ExistBelow
	}
	if c.Pool, err = p.change(ctx, begin); err != nil {
		return false, err
	}
	c.Pool.ExistBelow = numbers
`, "world:operators,deploys,weather:9,6,9,6,9,9:3"},
	{"world: each process has a layout of its own", start, `	a.timeline.DecideLayout(a.decideLayout)
`, ``, "world:layouts:2,3:10"},
	{"world: a lookup leaves out a lease that ends while its answer is shared", "pkg/discovery/shared.go", `if again || !v`, `if again || stored || !v`, "world:discovery,operators,pauses,sinks,steps:54:12"},
	{"world: a copy that renews in step", term, `	case cur.Renewal > t.asked, cur.Renewal == t.asked && !t.sent(cur):
		return Cloned
	case t.strange(cur):
		return Cloned
`, `	case cur.Renewal > t.asked:
		return Cloned
`, "world:copies:10:20"},
	{"world: a corrupt item is claimed", claim, `if corrupt.Written {`, `if false {`, "world:corrupt,deploys:3,13:10"},
	{"world: the reaper acts on its first look", reap, `	if last != nil {
		held := max(`, `	if last == nil {
		last = &protocol.ReaperLook{Count: 2, Candidates: d.due.encode()}
	}
	if last != nil {
		held := max(`, "world:outages,reaper,deploys:2:20"},
	{"world: a close before the epoch underflows", fence, `max(limit, 1)-1`, `limit-1`, "world:epoch,deploys:2,3:10"},
	{"world: an empty answer is a refusal", answer, `	Genuine(o)
}

// hasKey reports whether an item is the one with this key, and not one from the answer to
// another request.
func hasKey(av, key attributes) bool {
`, `}

func hasKey(av, key attributes) bool {
	if len(av) == 0 {
		return true
	}
`, "world:garbage,weather:4:20"},
	{"world: what others reserve is a clock behind", claim, `if p.ServerTime.Sub(at) > c.timings().MaxSkew() {`, `if o.Next.After(at.Add(c.Reserve + c.ClaimGuard)) {`, "world:weather,pauses,steps,deploys,releases:40,6:10"},
	{"world: a replacement gives up on a 403", renew, `if fatal(err) {`, `if permanent(err) {`, "world:denied,weather,operators:8:10"},
	{"world: a late retire undoes a later resize", dynamo, `AND (attribute_not_exists(resize) OR resize < :resize)",`, `AND :resize = :resize",`, "world:replay,operators:2,3:10"},
	{"world: the lease's clock stays ahead after a glitch", anchor, `max(wall, mono+floor))`, `max(wall, mono+floor, func() int64 { t.floor.Store(max(floor, wall-mono)); return 0 }()))`, "world:deploys,glitch:2,6:10"},
	{"world: a jumped clock needs no confirmation", renew, `	if jumped {
		ceiling = a.ceiling
	}
`, ``, "world:deploys,glitch:28,16,8:10"},
	{"world: a node looks before it is recorded", "pkg/cluster/node.go", `		if err := n.renewal(); err != nil {
			return err
		}
	}
	v, _ := n.view()
	// Invariant: each session begins at a later time than those in the heartbeats of the
	// previous one, so that none of these, if it arrives late, replaces the new session. A
	// backend may count milliseconds.
	if v.self.SessionID != n.sender {
		n.at, n.sender, n.begun = n.at.Add(time.Millisecond), v.self.SessionID, n.begun+1
		n.published = nil // it may have been forgotten with the previous session
	}
	one, cancel := context.WithTimeout(ctx, n.cfg.Timeout/3)
	defer cancel()
	first, _ := LowestSession(v.state)
	snap, err := n.cfg.Coordinator.Heartbeat(one, Beat{Self: v.self, At: n.at, Timeout: n.cfg.Timeout, Elect: n.cfg.Elect, Oldest: first.Same(v.self)})
	if errors.Is(err, ErrDropped) {
		if rotated := n.rotate(); rotated != nil {
			n.end(rotated)
		}
	}
	if err != nil {
		return err
	}
`, `		if l, _ := n.cfg.Agent.Lease(); l.Version > 0 && l.Metadata[metaSession] == "" && !n.times.recorded {
			n.mu.Lock()
			n.ttl, n.now.self.NodeID, n.now.self.Version = l.TTL, l.NodeID, l.Version
			n.mu.Unlock()
		} else if err := n.renewal(); err != nil {
			return err
		}
	}
	v, _ := n.view()
	// Invariant: each session begins at a later time than those in the heartbeats of the
	// previous one, so that none of these, if it arrives late, replaces the new session. A
	// backend may count milliseconds.
	if v.self.SessionID != n.sender {
		n.at, n.sender, n.begun = n.at.Add(time.Millisecond), v.self.SessionID, n.begun+1
		n.published = nil // it may have been forgotten with the previous session
	}
	one, cancel := context.WithTimeout(ctx, n.cfg.Timeout/3)
	defer cancel()
	first, _ := LowestSession(v.state)
	snap, err := n.cfg.Coordinator.Heartbeat(one, Beat{Self: v.self, At: n.at, Timeout: n.cfg.Timeout, Elect: n.cfg.Elect, Oldest: first.Same(v.self)})
	if errors.Is(err, ErrDropped) {
		if rotated := n.rotate(); rotated != nil {
			n.end(rotated)
		}
	}
	if err != nil {
		return err
	}
	if !snap.has(v.self) {
		snap.Members = append([]Member{v.self}, snap.Members...)
	}
`, "world:cluster,deploys:1,2,3,4:10"},
	{"world: listeners outlive the node", "pkg/cluster/close.go", `	close(n.done)
	n.cancel()`, `	close(n.done)`, "world:cluster,operators,deploys:1,3,2:40"},
	{"world: what a clock ahead left is never replaced", sharedFile, `Version: found.Version + 1, ReadAt`, `Version: at.UnixMilli(), ReadAt`, "world:discovery,glitch:3:10"},
	{"world: a later node ID begins before the floor", widener, `return Latest(Latest(at, p.Floor), p.Changed())`, `return Latest(at, p.Changed())`, "world:operators,raises,deploys:6:20"},
	{"world: a registration that somebody else answered counts", "pkg/discovery/table.go", `FailureAllOld,
	}, protocol.Genuine)`, `FailureAllOld,
	})`, "world:deploys,discovery,garbage,releases,weather:2050:20"},
	{"world: who waits does not leave holders time after an outage", claim, `a.outage.Patience(now)`, `0*now`, "world:outages,deploys,waiting:10,4:20"},
	{"world: nobody doubts an expired lease", sharedFile, `if ends := h.of(r); !ends.IsZero() && !ends.After(now) {`, `if ends := h.of(r); false && !ends.After(now) {`, "world:discovery,outages:2:10"},
	{"world: silence counts from the answer", "pkg/cluster/session.go", `	n.times.heard = max(n.times.heard, sent)
	return nil`, `	n.times.heard = n.clock.Monotonic()
	return nil`, "world:cluster,pauses,weather:44:30"},
	{"world: an older hint replaces newer knowledge", "internal/protocol/card.go", `attribute_not_exists(revision) OR revision < :revision OR`, `attribute_not_exists(revision) OR revision <> :revision OR`, "world:cards,deploys,operators:2,3:2"},
	{"world: a hint is believed where a strong read is needed", claim, `if seen.Free < 0 && a.hinted {`, `if false {`, "world:cards,deploys,operators:1,3:2"},
	{"world: a verdict of another Region counts", "internal/protocol/verdict.go", `v.Region == region && `, ``, "world:abroad,cards,deploys,reaper:2,3:2"},
}
