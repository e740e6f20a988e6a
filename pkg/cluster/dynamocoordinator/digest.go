package dynamocoordinator

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/cluster"
)

// digest is the snapshot that one member, the keeper, writes for all members, so that N
// members need not read N items each. Its item 0 contains the time of writing and a hash of
// each part's content. Each heartbeat reads item 0, for half a read unit; a large cluster
// has several copies of it. There is one part for each 256 node IDs, and one for about every
// 128 members without a lease. A part is written when its hash changes, that is, when
// members come or go. Item 0 also contains the latest of these changes. A reader reads a
// part only if it cannot use the changes to build a part that has the hash in item 0.
//
// A reader trusts a part only if the hash of the part's content is in item 0. It trusts a
// digest only if the digest contains the reader itself, the clocks of the reader and the
// keeper agree, and the leader's own item confirms the leader. Otherwise the reader reads
// the leases itself, so a digest that has been forged, or that has two writers, does no
// harm for long.
type digest struct {
	*Coordinator
	partition string

	mu     sync.Mutex
	copies int64     // the number of copies of item 0, as last read
	beat   int64     // the beat of item 0, as last seen; it grows with each write
	since  time.Time // when this beat was first seen, by this process's clock
	agrees bool      // whether the time in this beat agrees with this process's clock
	asked  time.Time // when item 0 was last read
	hash   map[string]string
	listed string // the list of parts in item 0, from which hash was parsed
	parts  map[string]part
	all    []cluster.Member // the members of all parts, in the order of their sessions

	believed  string    // the session of the leader that was confirmed
	confirmed time.Time // when the leader was confirmed
	slots     int       // parts for members without a lease

	// Used only if this member is the keeper.
	kept   kept
	broken types.AttributeValue // the beat of item 0 if no keeper wrote it, otherwise nil
	lowest int64                // the next beat is no lower
}

// part is a part of the digest as this member has read it.
type part struct {
	hash    string
	members []cluster.Member // in the order of their sessions
}

const (
	// firstSlot is the first part with members that have no lease.
	firstSlot = protocol.MaxPoolSize / protocol.GroupSize
	// maxParts bounds the number of parts in a list.
	maxParts = 4 * firstSlot
	// maxPart bounds the length of a part that is unpacked or written.
	maxPart = 1 << 20
	// maxListed bounds the number of members in a part that is read, at sixteen times the
	// average. Without this bound, a part could list 350,000 empty members, each of which
	// takes 100 bytes of memory.
	maxListed = 4096
	// maxItem is the length of the longest attribute that fits into a DynamoDB item
	// together with the item's other attributes.
	maxItem = 390_000
	// clockLimit is the largest allowed difference between the keeper's clock and a reader's.
	clockLimit = 1500 * time.Millisecond
	// copyFor is how many members read one copy of item 0.
	copyFor = 4096
	// highBeat is higher than every beat that keepers count to, unless one was broken by hand.
	// In that case, they continue to count from highBeat.
	highBeat = 1 << 52
	// maxBeat is higher than every beat that keepers count to from highBeat.
	//
	// Invariant (liveness): it is not much higher than highBeat, because a part with a beat in
	// between counts as one that another keeper wrote, and is written only after that beat.
	maxBeat = highBeat + 1<<40
)

// beatOf returns the beat of an item, or 0 if it has none that a keeper wrote.
func beatOf(item attributes) int64 {
	if n := number(item["beat"]); n > 0 && n < maxBeat {
		return n
	}
	return 0
}

// partOf returns the number of the part that contains m.
func (d *digest) partOf(m cluster.Member) int {
	if m.NodeID == cluster.NoNodeID {
		return firstSlot + int(hashOf(m.Name)%uint64(d.slots)) //nolint:gosec // slots are positive
	}
	return m.NodeID / protocol.GroupSize
}

func hashOf(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

// read returns the members listed in the digest, if the digest is credible and fresh. It
// is fresh if it was rewritten within the last time-out, by the reader's own clock. The
// first call only notes the digest's beat and the time.
func (d *digest) read(ctx context.Context, b cluster.Beat) (snap cluster.Snapshot, ok bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	began, asked := d.beat, d.asked
	d.asked = time.Now()
	item, err := d.get(ctx, d.copyOf(b.Self), 0, false)
	if err != nil {
		return cluster.Snapshot{}, false, err
	}
	written := time.UnixMilli(number(item["written_at"]))
	if at := beatOf(item); at != d.beat {
		d.beat, d.since = at, time.Now()
		// If all clocks are correct, item 0 was written after this reader's last read and
		// before now. The result is kept, because a later read of the same beat cannot
		// tell: by then, the time in it may be long past.
		d.agrees = !written.After(time.Now().Add(clockLimit)) && (asked.IsZero() || !written.Before(asked.Add(-clockLimit-b.Timeout/3)))
		d.copies = min(max(number(item["copies"]), 1), firstSlot)
	} else {
		d.copies = 1 // an unchanged copy may be one that is no longer written
	}
	if began == 0 || d.beat == 0 || !d.agrees || time.Since(d.since) > b.Timeout {
		return cluster.Snapshot{}, false, nil
	}
	if fits, err := d.take(ctx, text(item["parts"]), text(item["changes"])); !fits || err != nil {
		return cluster.Snapshot{}, false, err
	}
	if !d.has(b.Self) {
		return cluster.Snapshot{}, false, nil
	}
	if sure, err := d.confirm(ctx, b); !sure || err != nil {
		return cluster.Snapshot{}, false, err
	}
	// Each member in the digest had a heartbeat during the time-out that preceded the
	// writing of the digest.
	return cluster.Snapshot{Members: d.all, Ordered: true, Heard: written.Add(-b.Timeout).UTC()}, true, nil
}

// copyOf returns the partition from which a member reads item 0 or one of its copies.
func (d *digest) copyOf(m cluster.Member) string {
	return d.copyAt(int64(hashOf(m.SessionID) % uint64(max(d.copies, 1)))) //nolint:gosec // it is less than copies
}

func (d *digest) copyAt(i int64) string {
	if i == 0 {
		return d.partition
	}
	return d.partition + "#" + strconv.FormatInt(i, 10)
}

// take updates the parts whose hash has changed. If possible, it builds these parts from
// the changes; otherwise it reads them. The time that it takes is proportional to the
// number of changed parts.
func (d *digest) take(ctx context.Context, list, changes string) (fits bool, err error) {
	if list == d.listed && d.parts != nil {
		return true, nil
	}
	hash, ok := parseParts(list)
	if !ok {
		return false, nil
	}
	parts, advanced := make(map[string]part, len(hash)), d.advance(changes)
	var edits []edit
	for name, h := range hash {
		p, known := d.parts[name]
		if !known || p.hash != h {
			fresh := advanced[name]
			if fresh.hash != h {
				if fresh, err = d.part(ctx, name, h); err != nil {
					return false, err
				}
			}
			if fresh.hash != h { // the part is half-written, corrupt, or not the one in the list
				return false, nil
			}
			edits, p = append(edits, diff(p.members, fresh.members)...), fresh
		}
		parts[name] = p
	}
	for name, p := range d.parts {
		if _, ok := parts[name]; !ok {
			edits = append(edits, diff(p.members, nil)...)
		}
	}
	d.parts, d.hash, d.listed, d.kept = parts, hash, list, kept{} // this member's earlier writes as keeper are outdated
	d.all = patch(d.all, edits)
	return true, nil
}

// has reports whether the digest contains m's session.
func (d *digest) has(m cluster.Member) bool {
	_, found := slices.BinarySearchFunc(d.all, m.SessionID, sessionOf)
	return found
}

// confirm reports whether the leader's own item shows that the digest's leader is alive.
// It reads this item once for each leader, and again after every two time-outs. If the
// reader itself would be the leader, confirm returns false, so that the reader reads the
// leases itself.
func (d *digest) confirm(ctx context.Context, b cluster.Beat) (bool, error) {
	leader, ok := b.Leader(cluster.Snapshot{Members: d.all, Ordered: true})
	if !ok || leader.Same(b.Self) {
		return !ok, nil
	}
	if leader.SessionID == d.believed && time.Since(d.confirmed) < 2*b.Timeout {
		return true, nil
	}
	now := time.Now()
	m, ok, err := d.member(ctx, leader)
	if err != nil || !ok || !m.Same(leader) || m.Heartbeat.Before(now.Add(-b.Timeout)) {
		return false, err
	}
	d.believed, d.confirmed = leader.SessionID, now
	return true, nil
}

// write writes the parts that have changed, and then item 0. If two members write, the
// second write of item 0 is refused; write does not return an error for this.
//
// Before a keeper changes parts, it claims item 0. Each part contains the beat for which
// it was written. If another keeper, which has died or is late, has left a claim, this
// keeper's claim is refused. At its next heartbeat, this keeper writes all parts again,
// with a later beat, so that late writes of the other keeper are refused. So no part that
// does not match item 0 remains.
func (d *digest) write(ctx context.Context, b cluster.Beat, members []cluster.Member, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	split, contents, err := d.split(members)
	if err != nil {
		return err
	}
	if d.beat == 0 || d.hash == nil { // the present parts are unknown, so all are written
		item, err := d.get(ctx, d.partition, 0, true)
		if err != nil {
			return err
		}
		d.beat, d.broken, d.hash = beatOf(item), nil, map[string]string{}
		if d.beat == 0 && item["beat"] != nil {
			d.broken, d.lowest = item["beat"], highBeat
		}
	}
	all := len(d.hash) == 0
	if all {
		d.kept = kept{}
	}
	hash := map[string]string{}
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		hash[name] = sum(contents[name])
		if hash[name] != d.hash[name] {
			changed = append(changed, name)
		}
	}
	if len(changed) > 0 {
		if ok, err := d.head(ctx, "SET beat = :beat, claimed_by = :session", attributes{":session": str(b.Self.SessionID)}, all); !ok || err != nil {
			return err
		}
	}
	for _, name := range changed {
		packed, err := pack(contents[name])
		if err != nil {
			return err
		}
		written, err := d.update(ctx, d.partition, position(name), "SET beat = :beat, members = :members", "NOT beat BETWEEN :next AND :most", attributes{
			":beat": num(d.beat), ":members": str(packed), ":next": num(d.beat + 1), ":most": num(maxBeat),
		})
		if err != nil {
			d.beat = 0
			return err
		}
		// Invariant (liveness): a part that was broken by hand, so that its beat is too high, is
		// written at the next heartbeat, unless another keeper has written the part.
		if written == nil {
			d.beat, d.lowest = 0, highBeat
			return nil
		}
	}
	copies := int64(len(members)/copyFor + 1)
	values := attributes{
		":now": num(now.UnixMilli()), ":session": str(b.Self.SessionID), ":parts": str(formatParts(hash)), ":copies": num(copies),
	}
	next := d.kept.then(formatParts(hash), split, changed)
	set := "SET beat = :beat, written_at = :now, session_id = :session, parts = :parts, copies = :copies REMOVE claimed_by, changes"
	if changes := next.changes(); changes != "" {
		set = "SET beat = :beat, written_at = :now, session_id = :session, parts = :parts, copies = :copies, changes = :changes REMOVE claimed_by"
		values[":changes"] = str(changes)
	}
	if ok, err := d.head(ctx, set, values, all); !ok || err != nil {
		return err
	}
	d.since, d.hash, d.kept = time.Now(), hash, next
	for i := int64(1); i < copies; i++ {
		values[":beat"], values[":most"] = num(d.beat), num(maxBeat)
		written, err := d.update(ctx, d.copyAt(i), 0, set, "NOT beat BETWEEN :beat AND :most", values)
		if err != nil {
			return err
		}
		if written == nil { // as above
			d.lowest = highBeat
		}
	}
	return nil
}

// head updates item 0, unless another keeper has updated or claimed it since this keeper
// last updated it. If another keeper has done so, or the outcome of the update is
// unknown, this keeper no longer relies on its earlier writes. A keeper that writes all
// parts takes over another keeper's claim.
func (d *digest) head(ctx context.Context, set string, values attributes, all bool) (ok bool, err error) {
	sent := maps.Clone(values)
	sent[":beat"], sent[":seen"] = num(max(d.beat+1, d.lowest)), num(d.beat)
	// Invariant (liveness): item 0 is written even if its beat was broken by hand, so that it is
	// not a number or too high.
	if d.broken != nil {
		sent[":seen"] = d.broken
	}
	onlyIf := "(attribute_not_exists(beat) OR beat = :seen)"
	if !all {
		onlyIf += " AND (attribute_not_exists(claimed_by) OR claimed_by = :session)"
	}
	item, err := d.update(ctx, d.partition, 0, set, onlyIf, sent)
	if d.beat, d.broken = beatOf(item), nil; err != nil {
		d.beat = 0
	}
	return d.beat != 0, err
}

// split returns the parts and their contents. For the same members, the contents are the
// same.
func (d *digest) split(members []cluster.Member) (parts map[string][]cluster.Member, contents map[string][]byte, err error) {
	leaseless := 0
	for _, m := range members {
		if m.NodeID == cluster.NoNodeID {
			leaseless++
		}
	}
	// The two limits are far apart. Otherwise, if the number of members kept crossing one
	// limit, all parts would be written each time.
	for d.slots = max(d.slots, 1); leaseless > 192*d.slots && d.slots < firstSlot; {
		d.slots *= 2
	}
	for d.slots > 1 && leaseless < 64*d.slots {
		d.slots /= 2
	}
	parts, contents = d.byPart(members), map[string][]byte{}
	for name, all := range parts {
		if contents[name], err = json.Marshal(all); err != nil {
			return nil, nil, err
		}
	}
	return parts, contents, nil
}

// part reads one part. It returns the zero part if the content does not match the hash in
// the list.
func (d *digest) part(ctx context.Context, name, hash string) (part, error) {
	item, err := d.get(ctx, d.partition, position(name), true)
	if err != nil {
		return part{}, err
	}
	content, err := unpack(text(item["members"]))
	if err != nil || sum(content) != hash {
		return part{}, nil
	}
	p := part{hash: hash}
	if p.members, err = listed(content); err != nil {
		return part{}, nil
	}
	p.members = d.valid(p.members)
	slices.SortFunc(p.members, bySession)
	return p, nil
}
