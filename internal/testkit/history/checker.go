package history

import (
	"fmt"
	"slices"
)

// Checker judges a history, event by event. The zero value is ready.
type Checker struct {
	bounded bool
	nodes   map[int]*node
	ids     map[int64]int  // from an ID to the process that made it
	holds   map[int]belief // by process
	copies  map[int]int    // from a copy to the process from which it was originally made
	floor   int64          // node IDs created later stamp only milliseconds after it
}

// node is the known state of one node ID.
type node struct {
	item Event
	// spans are the versions that were ever claimed, from version 1.
	spans []span
	// last is the latest millisecond that was stamped.
	last int64
	// early means that the item was created below the floor. A seed that arrives late may
	// create such an item outside the pool; whoever adds it to the pool raises it first.
	early bool
	// corrupt is how many versions there were when the item was broken by hand: no later
	// version may be used. It is -1 if the item is not broken.
	corrupt int
	blind   bool  // the broken item was claimed, and the claim was not undone
	blindAt int64 // when it was claimed
	undone  int   // who has undone a claim of the broken item, or 0: a later claim by it may be a replay
}

// span is one version. Its milliseconds are those after notBefore, up to the notBefore of
// the next version or, for the last version, up to the item's reservation.
type span struct {
	who       int
	notBefore int64
	may       int64 // the latest millisecond that its holder was told it may stamp
	released  bool  // its holder has fenced itself and released the version
	// copied is 0 until a process with this version is copied. Then it is the reservation at
	// that time, or a later time that both have requested since. Both processes may stamp up
	// to copied. Later milliseconds belong to heir alone: the first of the two that got a
	// confirmation, or 0 while neither has.
	copied  int64
	made    int64 // the reservation when the last copy was made
	heir    int
	unaware map[int]bool // which of the two have had no answer since the copy was made
	// asked maps the end of each requested reservation, if it is after copied, to the process
	// that requested it first.
	asked map[int64]int
	// loose equals made if one of the two released the version while the other had had no
	// answer, and is 0 otherwise. The table has no record of the other process, which may
	// still stamp up to made.
	loose int64
}

type belief struct {
	node    int
	version int64
}

// Add judges one event. The error names the broken promise and its cause.
func (c *Checker) Add(e Event) error {
	if c.nodes == nil {
		c.nodes, c.ids, c.holds, c.copies = map[int]*node{}, map[int64]int{}, map[int]belief{}, map[int]int{}
	}
	var err error
	switch e.Kind {
	case World:
		c.bounded = e.Bounded
	case Item:
		err = c.item(e)
	case May:
		err = c.may(e)
	case Stamp:
		err = c.stamp(e)
	case Hold:
		err = c.hold(e)
	case Unhold:
		delete(c.holds, e.Who)
	case Lost:
		err = c.lost(e)
	case Copy:
		err = c.copy(e)
	case Ask:
		c.ask(e)
	case Corrupt:
		if n := c.nodes[e.Node]; n != nil {
			n.corrupt, n.blind, n.undone = len(n.spans), false, 0
		}
	case Skip:
		err = c.skip(e)
	case Floor:
		c.floor = max(c.floor, e.Until)
	}
	if err != nil {
		return fmt.Errorf("node %d: %w", e.Node, err)
	}
	return nil
}

// item judges an executed write by the resulting item.
func (c *Checker) item(e Event) error {
	n := c.nodes[e.Node]
	if n == nil {
		if e.Op != Seed && e.Op != Mark || e.Version != 0 || e.Held {
			return fmt.Errorf("the item was created by a %s, with version %d", e.Op, e.Version)
		}
		c.nodes[e.Node] = &node{item: e, corrupt: -1, early: e.Until < c.floor}
		return nil
	}
	if n.corrupt >= 0 { // the content of a broken item is meaningless: see used
		// No condition of a claim can refuse a number that is not an integer. A claimant
		// sees such a number in the answer and undoes its claim. If the answer is lost and
		// the claimant dies, the item looks intact to the next claimant.
		switch {
		case e.Op == Claim && n.blind && e.Version == int64(len(n.spans))+1:
			n.corrupt, n.last = -1, 0 // forget the stamps from before the item was broken too
			n.item = e
			n.spans = append(n.spans, span{who: e.Who, notBefore: e.NotBefore})
			return nil
		case e.Op == Claim:
			n.blind, n.blindAt = true, e.At
			n.spans = append(n.spans, span{who: e.Who, notBefore: e.NotBefore})
		case e.Op == Abandon:
			n.blind, n.undone = false, n.spans[len(n.spans)-1].who
		}
		if e.Op == Raise && e.Version == int64(len(n.spans)) { // an operator has set the time up to which everything is treated as reserved
			n.item, n.corrupt = e, -1
		}
		return nil
	}
	old := n.item
	n.item = e
	if e.Op == Claim {
		if n.early && e.NotBefore < c.floor {
			return fmt.Errorf("it was created after the floor %d was set, and its claim begins at %d", c.floor, e.NotBefore)
		}
		return n.claim(old, e)
	}
	switch {
	case e.Op == Seed:
		return fmt.Errorf("seeded again, at version %d", old.Version)
	case e.Version != old.Version:
		return fmt.Errorf("a %s changed the version from %d to %d", e.Op, old.Version, e.Version)
	case e.NotBefore != old.NotBefore:
		return fmt.Errorf("a %s moved not_before from %d to %d", e.Op, old.NotBefore, e.NotBefore)
	case e.Op == Renew && !(old.Held && e.Held && old.Who == e.Who):
		return fmt.Errorf("version %d was renewed by process %d, which does not hold it", e.Version, e.Who)
	case e.Op == Renew && (e.Renewal <= old.Renewal || e.Expires < old.Expires):
		return fmt.Errorf("renewal %d, which expires at %d, landed after renewal %d, which expires at %d", e.Renewal, e.Expires, old.Renewal, old.Expires)
	case e.Op == Release && e.Until > old.Until:
		return fmt.Errorf("a release reserves up to %d, and %d was reserved before", e.Until, old.Until)
	case e.Op == Release:
		s := n.present()
		s.released = true
		if len(s.unaware) > 0 {
			s.loose, n.last = s.made, min(n.last, e.Until)
		}
	case e.Op == Abandon && n.present().may != 0:
		return fmt.Errorf("version %d was abandoned though its holder may stamp up to %d", e.Version, n.present().may)
	case e.Op != Abandon && e.Until < old.Until:
		return fmt.Errorf("a %s lowered reserved_until from %d to %d", e.Op, old.Until, e.Until)
	}
	if e.Until < n.last {
		return fmt.Errorf("after a %s the table reserves up to %d, and %d was stamped", e.Op, e.Until, n.last)
	}
	return nil
}

// claim judges the beginning of a version. Its span must begin after everything that the
// previous version may still stamp.
func (n *node) claim(old, e Event) error {
	switch {
	case e.Version != old.Version+1:
		return fmt.Errorf("a claim changed the version from %d to %d", old.Version, e.Version)
	case e.NotBefore < old.Until:
		return fmt.Errorf("version %d begins after %d, and up to %d was reserved", e.Version, e.NotBefore, old.Until)
	case e.Until < e.NotBefore:
		return fmt.Errorf("version %d ends at %d, before it begins after %d", e.Version, e.Until, e.NotBefore)
	case e.NotBefore < n.last:
		return fmt.Errorf("version %d begins after %d, and %d was stamped", e.Version, e.NotBefore, n.last)
	}
	if p := n.present(); p != nil && !p.released && e.NotBefore < p.may {
		return fmt.Errorf("version %d begins after %d, and the holder of the one before may stamp up to %d", e.Version, e.NotBefore, p.may)
	}
	n.spans = append(n.spans, span{who: e.Who, notBefore: e.NotBefore})
	return nil
}

// present returns the latest version, or nil before the first claim.
func (n *node) present() *span {
	if len(n.spans) == 0 {
		return nil
	}
	return &n.spans[len(n.spans)-1]
}

// may judges the milliseconds that a process was allowed to stamp: the table must
// reserve them for that version, and later versions must begin after them.
func (c *Checker) may(e Event) error {
	n := c.nodes[e.Node]
	if n == nil || e.Version < 1 || e.Version > int64(len(n.spans)) {
		return fmt.Errorf("process %d believes in version %d, which never existed", e.Who, e.Version)
	}
	if err := n.used(e, int(e.Version)); err != nil {
		return err
	}
	s := &n.spans[e.Version-1]
	if s.who != c.first(e.Who) {
		return fmt.Errorf("process %d believes in version %d, which is process %d's", e.Who, e.Version, s.who)
	}
	end := n.end(int(e.Version))
	if !s.released && e.Until > end {
		return fmt.Errorf("process %d may stamp up to %d in version %d, which ends at %d", e.Who, e.Until, e.Version, end)
	}
	if s.copied != 0 && e.Until > s.copied {
		if s.heir == 0 {
			s.heir = e.Who
		}
		if s.heir != e.Who {
			return fmt.Errorf("process %d may stamp up to %d in version %d, and so may its copy or original %d: both have renewed since the copy was made",
				e.Who, e.Until, e.Version, s.heir)
		}
	}
	s.may = max(s.may, e.Until)
	if s.copied != 0 && e.Until > s.made {
		delete(s.unaware, e.Who)
	}
	return nil
}

// skip checks that who skips a broken item has undone its claim of it, if nothing kept it
// from doing so.
func (c *Checker) skip(e Event) error {
	n := c.nodes[e.Node]
	if n != nil && n.corrupt >= 0 && n.blind && n.blindAt > e.Until && n.undone != e.Who && n.spans[len(n.spans)-1].who == e.Who {
		return fmt.Errorf("process %d skips an item that was broken by hand, and has not undone its claim of it", e.Who)
	}
	return nil
}

// used checks that a version does not belong to a broken item.
func (n *node) used(e Event, version int) error {
	if n.corrupt >= 0 && version > n.corrupt {
		return fmt.Errorf("process %d uses version %d of an item that was broken by hand before", e.Who, version)
	}
	return nil
}

// end returns the last millisecond of a version. A claim of a broken item has no valid
// beginning, so it does not change the end of the version before it.
func (n *node) end(version int) int64 {
	if version < len(n.spans) && version != n.corrupt {
		return n.spans[version].notBefore
	}
	return n.item.Until
}

// stamp judges an ID: its millisecond must belong to the process that made it.
func (c *Checker) stamp(e Event) error {
	n := c.nodes[e.Node]
	if by, twice := c.ids[e.ID]; twice && !c.excused(n, e, by) && !c.looseID(n, e, by) {
		return fmt.Errorf("process %d made ID %d (millisecond %d), which process %d made before", e.Who, e.ID, e.MS, by)
	}
	c.ids[e.ID] = e.Who
	if n == nil {
		return fmt.Errorf("process %d made ID %d, and its node ID has no item", e.Who, e.ID)
	}
	v := n.version(c.first(e.Who), e.MS)
	switch {
	case c.loose(n, e):
		return nil
	case v == 0:
		return fmt.Errorf("process %d stamped %d, before the first version", e.Who, e.MS)
	case n.spans[v-1].who != c.first(e.Who) || e.Version != 0 && e.Version != int64(v):
		return fmt.Errorf("process %d stamped %d with version %d: it belongs to version %d, process %d's", e.Who, e.MS, e.Version, v, n.spans[v-1].who)
	case e.MS > n.end(v):
		return fmt.Errorf("process %d stamped %d, and version %d ends at %d", e.Who, e.MS, v, n.end(v))
	}
	if err := n.used(e, v); err != nil {
		return err
	}
	n.last = max(n.last, e.MS)
	return nil
}

// version returns the version to which a millisecond belongs. A process that held the item
// before it was broken may not know yet that its lease has ended, as after a forced
// release. A claim of the broken item takes no milliseconds from it.
func (n *node) version(who int, ms int64) int {
	v := len(n.spans)
	if n.corrupt > 0 && slices.ContainsFunc(n.spans[:n.corrupt], func(s span) bool { return s.who == who }) {
		v = n.corrupt
	}
	for v > 0 && n.spans[v-1].notBefore >= ms {
		v--
	}
	return v
}

// hold judges a belief: no other process may have the same belief at the same time.
func (c *Checker) hold(e Event) error {
	if c.bounded {
		for who, h := range c.holds {
			if who != e.Who && h.node == e.Node && c.first(who) != c.first(e.Who) && c.believes(h.node, h.version) && c.believes(e.Node, e.Version) {
				return fmt.Errorf("process %d believes that it holds it with version %d, and so does process %d with version %d", e.Who, e.Version, who, h.version)
			}
		}
	}
	c.holds[e.Who] = belief{e.Node, e.Version}
	return nil
}

// lost checks that a process gives up a node ID, which is permanent, only if it no longer
// has it. A loss is also justified if the process claimed the node ID with a wrong clock,
// before the last holder's milliseconds have passed.
func (c *Checker) lost(e Event) error {
	if n := c.nodes[e.Node]; n != nil && e.Version > 0 && e.Version <= int64(len(n.spans)) {
		delete(n.spans[e.Version-1].unaware, e.Who)
	}
	if n := c.nodes[e.Node]; n != nil && n.item.Held && n.item.Who == e.Who && n.item.Version == e.Version && n.spans[e.Version-1].copied == 0 && n.item.NotBefore <= e.At {
		return fmt.Errorf("process %d gave up version %d, which it holds", e.Who, e.Version)
	}
	return nil
}
