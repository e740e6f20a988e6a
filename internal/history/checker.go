package history

import "fmt"

// Checker judges a history, event by event. The zero value is ready.
type Checker struct {
	bounded bool
	nodes   map[int]*node
	ids     map[int64]struct{}
	holds   map[int]belief // by process
}

// node is what is known of one number.
type node struct {
	item Event
	// spans are the versions that were ever claimed, from version 1.
	spans []span
	// last is the latest millisecond that anyone stamped.
	last int64
}

// span is one version: its milliseconds are those after notBefore, up to the
// notBefore of the next version, or up to what the item reserves.
type span struct {
	who       int
	notBefore int64
	may       int64 // the latest millisecond that its holder was told it may stamp
	released  bool  // its holder has fenced itself and given back
}

type belief struct {
	node    int
	version int64
}

// Add judges one event. The error says which promise is broken, and by what.
func (c *Checker) Add(e Event) error {
	if c.nodes == nil {
		c.nodes, c.ids, c.holds = map[int]*node{}, map[int64]struct{}{}, map[int]belief{}
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
	}
	if err != nil {
		return fmt.Errorf("node %d: %w", e.Node, err)
	}
	return nil
}

// item judges a write that was done by what it left.
func (c *Checker) item(e Event) error {
	n := c.nodes[e.Node]
	if n == nil {
		if e.Op != Seed && e.Op != Mark || e.Version != 0 || e.Held {
			return fmt.Errorf("the item came to be by a %s, with version %d", e.Op, e.Version)
		}
		c.nodes[e.Node] = &node{item: e}
		return nil
	}
	old := n.item
	n.item = e
	if e.Op == Claim {
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
		return fmt.Errorf("version %d was renewed by process %d and not held by it", e.Version, e.Who)
	case e.Op == Renew && (e.Renewal <= old.Renewal || e.Expires < old.Expires):
		return fmt.Errorf("renewal %d, which expires at %d, landed after renewal %d, which expires at %d", e.Renewal, e.Expires, old.Renewal, old.Expires)
	case e.Op == Release:
		n.present().released = true
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

// claim judges the beginning of a version. Its span must begin behind all that
// the version before it may still stamp.
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

// present is the last version, nil before the first claim.
func (n *node) present() *span {
	if len(n.spans) == 0 {
		return nil
	}
	return &n.spans[len(n.spans)-1]
}

// may judges what a process was told that it may stamp: the table must reserve it
// for that version, and whoever came later must begin behind it.
func (c *Checker) may(e Event) error {
	n := c.nodes[e.Node]
	if n == nil || e.Version < 1 || e.Version > int64(len(n.spans)) {
		return fmt.Errorf("process %d believes in version %d, which never was", e.Who, e.Version)
	}
	s := &n.spans[e.Version-1]
	if s.who != e.Who {
		return fmt.Errorf("process %d believes in version %d, which is process %d's", e.Who, e.Version, s.who)
	}
	end := n.end(int(e.Version))
	if !s.released && e.Until > end {
		return fmt.Errorf("process %d may stamp up to %d in version %d, which ends at %d", e.Who, e.Until, e.Version, end)
	}
	s.may = max(s.may, e.Until)
	return nil
}

// end is the last millisecond of a version.
func (n *node) end(version int) int64 {
	if version < len(n.spans) {
		return n.spans[version].notBefore
	}
	return n.item.Until
}

// stamp judges an ID: its millisecond must belong to the process that made it.
func (c *Checker) stamp(e Event) error {
	if _, twice := c.ids[e.ID]; twice {
		return fmt.Errorf("process %d made ID %d (millisecond %d), which was made before", e.Who, e.ID, e.MS)
	}
	c.ids[e.ID] = struct{}{}
	n := c.nodes[e.Node]
	if n == nil {
		return fmt.Errorf("process %d made ID %d, and the number has no item", e.Who, e.ID)
	}
	v := len(n.spans)
	for v > 0 && n.spans[v-1].notBefore >= e.MS {
		v--
	}
	switch {
	case v == 0:
		return fmt.Errorf("process %d stamped %d, before the first version", e.Who, e.MS)
	case n.spans[v-1].who != e.Who || e.Version != 0 && e.Version != int64(v):
		return fmt.Errorf("process %d stamped %d with version %d: it belongs to version %d, process %d's", e.Who, e.MS, e.Version, v, n.spans[v-1].who)
	case e.MS > n.end(v):
		return fmt.Errorf("process %d stamped %d, and version %d ends at %d", e.Who, e.MS, v, n.end(v))
	}
	n.last = max(n.last, e.MS)
	return nil
}

// hold judges a belief: nobody else has it at the same time.
func (c *Checker) hold(e Event) error {
	if c.bounded {
		for who, h := range c.holds {
			if who != e.Who && h.node == e.Node {
				return fmt.Errorf("process %d believes to hold it with version %d, and so does process %d with version %d", e.Who, e.Version, who, h.version)
			}
		}
	}
	c.holds[e.Who] = belief{e.Node, e.Version}
	return nil
}

// lost judges a loss: it is for good, so it must be true.
func (c *Checker) lost(e Event) error {
	if n := c.nodes[e.Node]; n != nil && n.item.Held && n.item.Who == e.Who && n.item.Version == e.Version {
		return fmt.Errorf("process %d gave up version %d, which it holds", e.Who, e.Version)
	}
	return nil
}
