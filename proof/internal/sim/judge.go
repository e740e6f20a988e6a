package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/history"
	"github.com/nodelease/nodelease/pkg/lease"
)

// The judges in this file need to know the state of the processes, which package history
// does not.

// watch judges every second what each process believes and reports. Changes are also judged
// as they happen.
func (w *World) watch() {
	for sleep(w.ctx, time.Second) == nil {
		w.witnessBeliefs()
		for _, p := range w.processes() {
			if err := p.judge(); err != nil && !p.isDead() {
				w.fail(fmt.Errorf("process %d: %w", p.number, err))
			}
		}
	}
}

// patience returns how long everything must have worked before a process is blamed for
// something that it has not done.
func (p *process) patience() time.Duration { return 2*p.Plan.TTL() + 20*time.Second }

// judge judges a running process.
func (p *process) judge() error {
	_, err := p.agent.Lease()
	// A holder whose item was freed and then broken stays suspended, since it can read
	// nothing from the item.
	node, _ := p.holding()
	if errors.Is(err, lease.ErrSuspended) && !p.isBroken(node) && !strings.Contains(err.Error(), "is reserved for") && p.calmFor() > p.patience() {
		return fmt.Errorf("it is suspended though nothing has been wrong for %v: %w", p.calmFor(), err)
	}
	if errors.Is(err, lease.ErrSuspended) && p.calmFor() > p.patience() && p.World.keptAhead(p, node) {
		return fmt.Errorf("its clock has been right for %v, and it keeps a node ID that it claimed with a wrong clock: %w", time.Since(p.rightSince()), err)
	}
	// The events of one agent arrive in the order in which they happened.
	said, since := p.told()
	if time.Since(since) > 10*time.Second && p.beliefFor() > 10*time.Second {
		if held := err == nil; held && said == lease.EventSuspended || errors.Is(err, lease.ErrSuspended) && said == lease.EventResumed {
			return fmt.Errorf("the last event that it heard is %q, and it is %v that it holds its lease", said, held)
		}
	}
	return p.judgeListener()
}

// judgeReap checks that the reaper frees no node ID of a live process: no node ID whose
// milliseconds are still reserved, and none whose holder was cut off by an outage that also
// affected the reaper. With OnExpiry: Stop, an agent gives its lease up at the expiry, so the
// reaper may free it.
func (w *World) judgeReap(e history.Event, before history.Event) {
	if before.Until > time.Now().Add(time.Second).UnixMilli() {
		w.fail(fmt.Errorf("the reaper freed node %d, which is reserved until %d, at %d", e.Node, before.Until, time.Now().UnixMilli()))
		return
	}
	for _, p := range w.processes() {
		l, version := p.holding()
		if p.isDead() || p.release.OnExpiry == lease.Stop || l != e.Node || version != e.Version || w.Plan.Wild {
			continue
		}
		m := w.reaping.Load()
		confirmed := p.confirmed()
		if p.wellSince().Before(confirmed) && m != nil && m.wellSince().Before(confirmed) {
			w.fail(fmt.Errorf("the reaper freed node %d of process %d, which lives: both had the same outage since its last renewal, %v ago", e.Node, p.number, time.Since(confirmed)))
		}
	}
}

// judgeClaim checks that, if leases expired during an outage, a claimant that waited through
// the outage leaves the holders time to renew these leases.
func (w *World) judgeClaim(e, before history.Event) {
	from, until := w.network.lastOutage()
	sent := e.Expires - e.TTL.Milliseconds()
	if w.Plan.Wild || !before.Held || until.Sub(from) < time.Minute || time.Since(until) > 5*time.Second ||
		before.Expires < from.Add(15*time.Second).UnixMilli() || max(sent-time.Now().UnixMilli(), time.Now().UnixMilli()-sent) > time.Second.Milliseconds() {
		return
	}
	for _, t := range w.all() {
		p := t.present.Load() // World.processes does not include a process that is still starting
		if p != nil && p.number == e.Who && p.confirmed().IsZero() && p.wellSince().Before(from) && p.born.Before(until.Add(-10*time.Second)) {
			w.fail(fmt.Errorf("process %d claimed node %d, whose lease expired in an outage that ended %v ago: its holder had no time to renew it", p.number, e.Node, time.Since(until)))
		}
	}
}

// judgeMarks checks that a width is committed only after every node ID's item has been
// marked with it: the holder of an unmarked node ID would continue with the old width.
func (w *World) judgeMarks(try string) {
	want, _ := strconv.ParseInt(try, 10, 64)
	for node, item := range w.raw {
		if got, _ := strconv.ParseInt(text(item["widen_try"]), 10, 64); got < want {
			w.fail(fmt.Errorf("width %d is committed, and node %d knows of %d", want, node, got))
		}
	}
}

// judgeResize checks that a resize that was applied changes nothing when it is sent again. A
// resize that was only delayed may change the size: it depends on a revision, so it succeeds
// only if nothing else has changed since.
func (w *World) judgeResize(update string, item map[string]json.RawMessage, again bool) {
	size := string(item["pool_size"])
	if again && strings.HasPrefix(update, "SET pool_size") && w.size != size {
		w.fail(fmt.Errorf("a replayed resize changed the pool's size from %s to %s", w.size, size))
	}
	w.countShrink(w.size, size)
	w.size = size
}

// doneBefore reports whether a write of an operator was applied before, and records that it
// is applied now.
func (w *World) doneBefore(request []byte) bool {
	before := w.done[string(request)]
	w.done[string(request)] = true
	return before
}

// mostReads is how often in ten seconds a machine may read the pool's item.
const mostReads = 100

// judgeLoad checks that no machine reads the pool's item without a pause: after a failure,
// or while it waits, a process must pause between two tries.
func (n *network) judgeLoad(c *call) {
	if !c.is("GetItem") || !bytes.Contains(c.body, []byte(`"S":"`+poolName+`"`)) {
		return
	}
	n.mu.Lock()
	if l := n.reads[c.host]; time.Since(l.since) > 10*time.Second {
		n.reads[c.host] = load{since: time.Now()}
	}
	l := n.reads[c.host]
	l.number++
	n.reads[c.host] = l
	n.mu.Unlock()
	most := mostReads
	if n.isFunction(c.host) {
		most *= int(reaperTime / schedule) // up to this many invocations run on the function's machine at once
	}
	if l.number > most {
		n.fail(fmt.Errorf("machine %s has read the pool %d times in %v", c.host, l.number, time.Since(l.since)))
	}
}

// load is the number of reads of a machine since a time.
type load struct {
	since  time.Time
	number int
}

// ahead is how far an expiry or an ID must be ahead of the true time to show that a wrong
// clock caused it.
const ahead = time.Minute

// judgeExpiry checks that a wall clock that was wrong for a moment has no lasting effect:
// after two answered renewals, expiries follow the current clock. If the store does not
// send its time, unlike DynamoDB, a holder cannot detect that its clock was wrong when it
// claimed, so only holders whose clock was right then are judged. A holder without an
// answer cannot detect this either, even if it finds that its renewal was applied, so the
// network must have been calm. Worlds with hooks that block are not judged, because such
// hooks receive events late.
func (w *World) judgeExpiry(e, before history.Event) {
	if w.Plan.Wild || w.Plan.has("sinks") || e.Expires <= before.Expires {
		return
	}
	by := time.UnixMilli(e.Expires).Sub(time.Now().Add(w.Plan.MaxTTL()))
	for _, p := range w.processes() {
		if node, version := p.holding(); node != e.Node || version != e.Version || !w.Plan.Dates && !p.rightly.Load() {
			continue
		}
		right := p.rightSince()
		if by > ahead && p.calmFor() > w.Plan.TTL() && time.Since(right) > p.patience() && p.answeredTwiceSince(right) {
			w.fail(fmt.Errorf("process %d asks for an expiry %v too late, and its clock has been right for %v", p.number, by, time.Since(right)))
		}
	}
}

// judgeStamp checks that a wall clock that is an hour ahead for a moment does not lead to an
// ID with a time in the future, whatever the length of the lease. It judges only if the
// clock had been right before, the process had held its lease for a while, and the store
// sends its time.
func (w *World) judgeStamp(p *process, at time.Time) {
	by := time.Until(at)
	if w.Plan.Wild || !w.Plan.Dates || by < ahead {
		return
	}
	right, wrong := p.wentWrong()
	if time.Since(wrong) < ahead && w.network.calmFor() > p.patience() && wrong.Sub(right) > p.patience() && p.beliefFor() > time.Since(wrong)+p.patience() && p.answeredTwiceSince(right) {
		w.fail(fmt.Errorf("process %d made an ID %v ahead, %v after its clock jumped", p.number, by, time.Since(wrong)))
	}
}
