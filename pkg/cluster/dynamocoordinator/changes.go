package dynamocoordinator

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/nodelease/nodelease/pkg/cluster"
)

// Item 0 of the digest contains the latest changes of members, so that a reader need not
// read a whole part because of one change. If every reader read a part after each change,
// a single partition could not serve them all. Older releases ignore the changes and read
// the parts.

// step is the change from one list of parts to the next.
type step struct {
	From  string            `json:"from"` // hash of the previous list
	Parts map[string]change `json:"parts"`
}

// change contains the sessions that left a part, and the members that joined the part or
// changed.
type change struct {
	Gone []string         `json:"gone,omitempty"`
	Came []cluster.Member `json:"came,omitempty"`
}

const (
	// stepsKept is the number of writes for which a step is kept. The time between two
	// heartbeats of a reader is at most three times the time between two heartbeats of
	// the keeper.
	stepsKept = 4
	// maxChanges bounds the bytes that steps add to item 0. With maxChanges and 256
	// parts, item 0 costs its reader three read units; 4,096 readers in 5 s cost less
	// than 3,000 units a second.
	maxChanges = 16_000
	// maxStep bounds the number of sessions in the steps that are packed.
	maxStep = 1000
)

// kept is the keeper's last write, and the steps that led to it. A nil step means a
// write that changed nothing.
type kept struct {
	list  string
	parts map[string][]cluster.Member
	steps []*step
}

// then returns the state to keep after the next write.
func (k kept) then(list string, parts map[string][]cluster.Member, changed []string) kept {
	next := kept{list: list, parts: parts}
	if k.parts == nil { // the readers' state is unknown
		return next
	}
	var s *step
	if list != k.list {
		s = &step{From: sum([]byte(k.list)), Parts: map[string]change{}}
		for name := range k.parts {
			if _, stays := parts[name]; !stays {
				changed = append(changed, name)
			}
		}
		for _, name := range changed {
			var c change
			for _, e := range diff(k.parts[name], parts[name]) {
				if e.member == nil {
					c.Gone = append(c.Gone, e.session)
				} else {
					c.Came = append(c.Came, *e.member)
				}
			}
			s.Parts[name] = c
		}
	}
	next.steps = append(slices.Clone(k.steps[max(0, len(k.steps)-stepsKept+1):]), s)
	return next
}

// changes packs as many of the latest steps as fit into item 0. It returns "" if none
// fits.
func (k kept) changes() string {
	steps := slices.DeleteFunc(slices.Clone(k.steps), func(s *step) bool { return s == nil })
	for ; len(steps) > 0; steps = steps[1:] {
		sessions := 0
		for _, s := range steps {
			for _, c := range s.Parts {
				sessions += len(c.Gone) + len(c.Came)
			}
		}
		if sessions > maxStep {
			continue
		}
		content, err := json.Marshal(steps)
		if err != nil {
			return ""
		}
		if packed, err := pack(content); err == nil && len(packed) <= maxChanges {
			return packed
		}
	}
	return ""
}

// advance builds parts from the reader's parts and the changes in item 0. A part that it
// returns is valid only if its hash is the hash in the list.
func (d *digest) advance(packed string) map[string]part {
	if packed == "" || len(packed) > maxChanges || d.listed == "" {
		return nil
	}
	content, err := unpack(packed)
	if err != nil {
		return nil
	}
	var steps []step
	if err := json.Unmarshal(content, &steps); err != nil {
		return nil
	}
	from := sum([]byte(d.listed))
	first := slices.IndexFunc(steps, func(s step) bool { return s.From == from })
	if first < 0 {
		return nil // the reader missed too many steps, or its parts are not from the keeper
	}
	members := map[string][]cluster.Member{}
	for _, s := range steps[first:] {
		for name, c := range s.Parts {
			before, known := members[name]
			if !known {
				before = d.parts[name].members
			}
			var edits []edit
			for _, session := range c.Gone {
				edits = append(edits, edit{session, nil})
			}
			for _, m := range d.valid(c.Came) {
				edits = append(edits, edit{m.SessionID, &m})
			}
			members[name] = patch(before, edits)
		}
	}
	fresh := make(map[string]part, len(members))
	for name, all := range members {
		if content, err := json.Marshal(all); err == nil {
			fresh[name] = part{sum(content), all}
		}
	}
	return fresh
}

// valid returns the members that a node of this cluster can have written.
func (d *digest) valid(members []cluster.Member) []cluster.Member {
	return slices.DeleteFunc(members, func(m cluster.Member) bool { return m.Cluster+"#digest" != d.partition || m.Validate() != nil })
}

// seed makes parts from the members that the reader has read itself, if the reader has no
// parts yet. So the reader need not read those parts of the digest that are the same. It
// leaves out members without a lease, because the reader does not know their parts.
func (d *digest) seed(members []cluster.Member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.parts != nil {
		return
	}
	d.parts, d.hash, d.listed, d.all = map[string]part{}, nil, "", nil
	leased := slices.DeleteFunc(slices.Clone(members), func(m cluster.Member) bool { return m.NodeID == cluster.NoNodeID })
	byPart := d.byPart(leased)
	for _, name := range slices.Sorted(maps.Keys(byPart)) {
		content, err := json.Marshal(byPart[name])
		if err != nil {
			continue
		}
		d.parts[name] = part{sum(content), byPart[name]}
		d.all = append(d.all, byPart[name]...)
	}
	slices.SortFunc(d.all, bySession)
	d.all = slices.CompactFunc(d.all, cluster.Member.Same)
}

// byPart divides members into parts. Each part is sorted by session. Parts do not contain
// the times of heartbeats, which change all the time.
func (d *digest) byPart(members []cluster.Member) map[string][]cluster.Member {
	parts := map[string][]cluster.Member{}
	for _, m := range members {
		m.Heartbeat = time.Time{}
		name := partName(d.partOf(m))
		parts[name] = append(parts[name], m)
	}
	for _, all := range parts {
		slices.SortFunc(all, bySession)
	}
	return parts
}
