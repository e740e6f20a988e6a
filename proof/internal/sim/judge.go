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

// This file judges what package history cannot, since it needs to know how the processes are.

// watch judges every second what each process believes and says, beside the
// moments at which that changes.
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

// patience is how long everything must work before a process is blamed for an omission.
func (p *process) patience() time.Duration { return 2*p.Plan.TTL() + 20*time.Second }

// judge judges a process that runs.
func (p *process) judge() error {
	_, err := p.agent.Lease()
	// A holder whose item was freed and then broken stays suspended: the item says nothing.
	node, _ := p.holding()
	if errors.Is(err, lease.ErrSuspended) && !p.isBroken(node) && !strings.Contains(err.Error(), "is reserved for") && p.calmFor() > p.patience() {
		return fmt.Errorf("it is suspended though nothing has been wrong for %v: %w", p.calmFor(), err)
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

// judgeReap judges that the reaper has left a process alone that lives: one whose
// milliseconds were reserved, or whose troubles were an outage that the reaper had too.
func (w *World) judgeReap(e history.Event, before history.Event) {
	if before.Until > time.Now().Add(time.Second).UnixMilli() {
		w.fail(fmt.Errorf("the reaper freed node %d, which is reserved until %d, at %d", e.Node, before.Until, time.Now().UnixMilli()))
		return
	}
	for _, p := range w.processes() {
		l, version := p.holding()
		if p.isDead() || l != e.Node || version != e.Version || w.Plan.Wild {
			continue
		}
		m := w.reaping.Load()
		confirmed := p.confirmed()
		if p.wellSince().Before(confirmed) && m != nil && m.wellSince().Before(confirmed) {
			w.fail(fmt.Errorf("the reaper freed node %d of process %d, which lives: both had the same outage since its last renewal, %v ago", e.Node, p.number, time.Since(confirmed)))
		}
	}
}

// judgeClaim checks that a claimant that waited through an outage leaves the leases that expired
// in it to their holders, for as long as these may need to renew.
func (w *World) judgeClaim(e, before history.Event) {
	from, until := w.network.lastOutage()
	sent := e.Expires - e.TTL.Milliseconds()
	if w.Plan.Wild || !before.Held || until.Sub(from) < time.Minute || time.Since(until) > 5*time.Second ||
		before.Expires < from.Add(15*time.Second).UnixMilli() || max(sent-time.Now().UnixMilli(), time.Now().UnixMilli()-sent) > time.Second.Milliseconds() {
		return
	}
	for _, t := range w.all() {
		p := t.present.Load() // it starts, and is none of the world's processes yet
		if p != nil && p.number == e.Who && p.confirmed().IsZero() && p.wellSince().Before(from) && p.born.Before(until.Add(-10*time.Second)) {
			w.fail(fmt.Errorf("process %d claimed node %d, whose lease expired in an outage that ended %v ago: its holder had no time to renew it", p.number, e.Node, time.Since(until)))
		}
	}
}

// judgeMarks judges that no node ID is left that has not been told of the width that is
// committed now: its holder would go on with the old one.
func (w *World) judgeMarks(try string) {
	want, _ := strconv.ParseInt(try, 10, 64)
	for node, item := range w.raw {
		if got, _ := strconv.ParseInt(text(item["widen_try"]), 10, 64); got < want {
			w.fail(fmt.Errorf("width %d is committed, and node %d knows of %d", want, node, got))
		}
	}
}

// judgeResize judges that a resize that was done and is sent again changes nothing. One
// that was lost on its way, and is done later than it was sent, is a late one: the
// revision that it is pinned on says that nothing has changed meanwhile.
func (w *World) judgeResize(update string, item map[string]json.RawMessage, again bool) {
	size := string(item["pool_size"])
	if again && strings.HasPrefix(update, "SET pool_size") && w.size != size {
		w.fail(fmt.Errorf("a replayed resize changed the pool's size from %s to %s", w.size, size))
	}
	w.countShrink(w.size, size)
	w.size = size
}

// doneBefore reports whether a write of an operator was done before, and remembers that
// it is done.
func (w *World) doneBefore(request []byte) bool {
	before := w.done[string(request)]
	w.done[string(request)] = true
	return before
}

// mostReads is how often in ten seconds a machine may read the pool's item.
const mostReads = 100

// judgeLoad judges that nobody asks all the time: whoever waits, or fails, pauses
// between two tries.
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
		most *= int(reaperTime / schedule) // so many invocations share its machine
	}
	if l.number > most {
		n.fail(fmt.Errorf("machine %s has read the pool %d times in %v", c.host, l.number, time.Since(l.since)))
	}
}

// load is how often a machine has asked for something, and since when.
type load struct {
	since  time.Time
	number int
}

// ahead is from when on an expiry is one that only a wrong clock asks for.
const ahead = time.Minute

// judgeExpiry judges that a wall clock that was wrong for a moment leaves nothing
// behind: once two renewals were answered, expiries are those of the current clock. It
// judges worlds whose store tells its time only, as DynamoDB does: elsewhere nothing can
// show the holder that the clock was wrong when it claimed. Without an answer nothing can
// either, not even where a renewal is found to have landed: the network was calm, too. A
// hook that blocks hears of answers late.
func (w *World) judgeExpiry(e, before history.Event) {
	if w.Plan.Wild || !w.Plan.Dates || w.Plan.has("sinks") || e.Expires <= before.Expires {
		return
	}
	by := time.UnixMilli(e.Expires).Sub(time.Now().Add(w.Plan.MaxTTL()))
	for _, p := range w.processes() {
		if node, version := p.holding(); node != e.Node || version != e.Version {
			continue
		}
		right := p.rightSince()
		if by > ahead && p.calmFor() > w.Plan.TTL() && time.Since(right) > p.patience() && p.answeredTwiceSince(right) {
			w.fail(fmt.Errorf("process %d asks for an expiry %v too late, and its clock has been right for %v", p.number, by, time.Since(right)))
		}
	}
}

// judgeStamp judges that no ID is ahead while a wall clock is an hour ahead for a moment,
// whatever the length of the lease: the clock had been right, the process had held its
// lease for a while, and the store tells its time.
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
