package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/overlap"
	"github.com/nodelease/nodelease/cmd/nodelease/internal/remedy"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// checkPool checks the pool's own item and every node ID.
func (d *doctor) checkPool(ctx context.Context) {
	item, err := d.store.PoolItem(ctx, d.pool)
	var corrupt *lease.CorruptError
	switch {
	case errors.Is(err, lease.ErrPoolNotSeeded):
		d.checkHalfSeeded(ctx)
		return
	case errors.Is(err, lease.ErrItemFormat):
		fix := "go install github.com/nodelease/nodelease/cmd/nodelease@latest"
		if strings.Contains(err.Error(), "seed a new pool") { // the pool is older than this program
			fix = ""
		}
		d.add("pool", problem, plain(err), fix)
		return
	case errors.As(err, &corrupt):
		d.add("pool", problem, plain(err)+": restore it as it was; nothing here repairs it, so that no ID is made twice",
			d.aws("get-item", fmt.Sprintf(`--consistent-read --key '{"pool_group":{"S":%q},"node_id":{"N":"-1"}}'`, d.pool)))
		return
	case err != nil:
		d.add("pool", problem, plain(err), "")
		return
	}
	l, err := look(ctx, leasepool.Open(d.store, d.pool), item)
	if err != nil {
		d.add("pool", problem, plain(err), "")
		return
	}
	if before := item.LayoutBefore; before != nil {
		d.add("layout", problem, fmt.Sprintf("a set-layout of %s, which had %s, was not finished: no process can begin to make IDs; run it again with the layout that all IDs are to have", d.pool, leasepool.LayoutName(before.Snowflake())), d.again("set-layout LAYOUT"))
	}
	d.checkNumbers(l)
	d.checkItems(ctx, l)
	d.checkRoom(l)
	d.checkReleases(l)
	d.checkIndex(ctx)
}

// checkHalfSeeded finds a seed that did not finish: node IDs without the pool's own item,
// which a seed writes last. If a node ID was claimed, the item was there and was deleted.
func (d *doctor) checkHalfSeeded(ctx context.Context) {
	const size = "seed --size N"
	n, used, err := d.countAll(ctx)
	switch {
	case err != nil:
		d.add("pool", problem, plain(err), "")
	case used: // Invariant (S1): the pool gets no other layout than its IDs have
		d.add("pool", problem, fmt.Sprintf("node IDs of %s were claimed, and the pool's own item was deleted, with the layout of all IDs; stop every process, seed the pool again as it was, with that layout, and raise it; if it was narrow, move the fleet to a new pool instead, whose floor is later than every ID", d.pool),
			d.again(size+" --layout LAYOUT --floor +1m"))
	case n > 0:
		d.add("pool", problem, fmt.Sprintf("%s is half-seeded: it has at least %d node IDs, but the pool's own item is missing; seed it again with its intended size", d.pool, n), d.again(size))
	default:
		d.add("pool", problem, fmt.Sprintf("%s is not seeded", d.pool), d.again(size))
	}
}

// countAll counts the node IDs in all groups that a pool can have, and reports whether one
// was ever claimed. The first groups may be excluded, so an empty one means nothing.
func (d *doctor) countAll(ctx context.Context) (n int, used bool, err error) {
	const readers = 16
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			for g := i; g < leasepool.MaxSize/protocol.GroupSize; g += readers {
				got, failed := d.store.Group(ctx, d.pool, g)
				mu.Lock()
				n += len(got.Leases) + len(got.Corrupt)
				used = used || slices.ContainsFunc(got.Leases, func(l protocol.Lease) bool { return l.Version > 0 })
				err = cmp.Or(err, failed)
				mu.Unlock()
				if failed != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return n, used, err
}

// checkNumbers checks that all node IDs below the pool's size exist and are in use, and
// that all others are retired.
func (d *doctor) checkNumbers(l *listed) {
	p := l.Pool
	there := 0
	see := func(n int) {
		if n >= p.ExcludeBelow && n < p.Limit() { // a narrow pool gets the others when it widens
			there++
		}
	}
	for n := range l.own {
		see(n)
	}
	var wrong []int
	for _, n := range l.Nodes {
		see(n.NodeID)
		if n.Retired != (n.NodeID >= p.Size) {
			wrong = append(wrong, n.NodeID)
		}
	}
	want := p.Limit() - p.ExcludeBelow
	switch {
	case there < want:
		d.add("pool", problem, fmt.Sprintf("%s is half-seeded: %d of its %d node IDs are missing; %s", p.Pool, want-there, want, remedy.Deleted), d.again(remedy.Seed(p)))
	case p.Widening.State == protocol.WidenOpen && p.Widening.From.Before(l.at):
		d.add("pool", warning, fmt.Sprintf("a change of the width of %s to %d bits was not finished; a starting task also finishes it if needed", p.Pool, p.Widening.Bits), d.again(fmt.Sprintf("resize --size %d", p.Size)))
	case len(wrong) > 0:
		d.add("pool", problem, fmt.Sprintf("a resize of %s to %d node IDs was not finished: %s", p.Pool, p.Size, some(wrong)), d.again(fmt.Sprintf("resize --size %d", p.Size)))
	default:
		d.add("pool", fine, fmt.Sprintf("%s has all of its %d node IDs", p.Pool, want), "")
	}
}

// forgotten is how long a lease must have been expired before the doctor concludes that
// the reaper, which runs every few minutes, has missed it.
const forgotten = 15 * time.Minute

// checkItems finds node IDs that are corrupt, stuck or forgotten.
func (d *doctor) checkItems(ctx context.Context, l *listed) {
	for _, n := range slices.Sorted(maps.Keys(l.Corrupt)) {
		d.add("items", problem, fmt.Sprintf("node %d is corrupt; something other than Nodelease wrote it: %s; leave it alone: deleting or rewriting it could cause duplicate IDs", n, l.Corrupt[n]), d.again(fmt.Sprintf("inspect %d", n)))
	}
	report, err := leasepool.Open(d.store, d.pool).Due(ctx)
	switch {
	case errors.Is(err, lease.ErrClockSkew):
		d.add("items", skipped, "whether node IDs are stuck is unknown, since this machine's clock is wrong", "")
		return
	case err != nil:
		d.add("items", problem, plain(err), "")
		return
	}
	d.checkForged(report.Forged)
	if len(report.Stuck) > 0 {
		how, fix := d.larger(l.Pool, l.Pool.Size+len(report.Stuck))
		d.add("items", problem, fmt.Sprintf("stuck, reserved for hours ahead by a wrong clock: %s; they become free by themselves, and nothing can free them sooner; for more room until then, %s", some(report.Stuck), how), fix)
	}
	var old []int
	for _, n := range l.Nodes {
		// The reaper does not free node IDs whose milliseconds are reserved ahead, as
		// with a lease that has grown.
		if n.State == lease.Expired && protocol.Latest(n.ExpiresAt, n.ReservedUntil).Add(forgotten).Before(l.at) {
			old = append(old, n.NodeID)
		}
	}
	if len(old) > 0 {
		d.add("items", warning, fmt.Sprintf("expired for more than %v, is the reaper running? %s", forgotten, some(old)), d.again("reap"))
	}
	if len(l.Corrupt)+len(report.Forged)+len(report.Stuck)+len(old) == 0 {
		d.add("items", fine, "no node ID is corrupt, stuck or forgotten", "")
	}
}

// checkForged reports changes since the reaper's last scan that were not written by
// Nodelease.
func (d *doctor) checkForged(forged leasepool.Corrupt) {
	for _, n := range slices.Sorted(maps.Keys(forged)) {
		why := forged[n]
		switch {
		case n < 0:
			d.add("forged", problem, "something other than Nodelease wrote the pool's own item: "+why+"; find out which role did it, and move the fleet to a new pool",
				(&globals{table: d.table, pool: "NEW", endpoint: d.endpoint}).again("seed --size N --layout LAYOUT --floor TIME"))
		case strings.Contains(why, "reserved_until") || strings.Contains(why, "span begins"):
			d.add("forged", problem, fmt.Sprintf("something other than Nodelease wrote node %d: %s; IDs of the time between may be made twice; find out which role did it, stop the fleet, and raise", n, why),
				d.again("raise --to +1m"))
		default:
			d.add("forged", problem, fmt.Sprintf("something other than Nodelease wrote node %d: %s; its fencing tokens or IDs may repeat, so move the fleet to a new pool, and find out which role did it", n, why),
				(&globals{table: d.table, pool: "NEW", endpoint: d.endpoint}).again("seed --size N --layout LAYOUT --floor TIME"))
		}
	}
}

// checkRoom reports how full the pool is.
func (d *doctor) checkRoom(l *listed) {
	s := l.stats()
	text := fmt.Sprintf("%d of %d node IDs are held", s.Held, s.Capacity)
	how, fix := d.larger(l.Pool, 2*l.Pool.Size)
	var first time.Time // when the first node ID that is reserved and not held can be claimed
	claimable := s.Free
	for _, n := range l.Nodes {
		switch {
		case n.State == lease.Expired && !n.ReservedUntil.After(l.at):
			claimable++
		case (n.State == lease.Expired || n.State == lease.Cooling) && (first.IsZero() || n.ReservedUntil.Before(first)):
			first = n.ReservedUntil
		}
	}
	switch {
	case s.Held >= s.Capacity && s.Held > 0:
		d.add("room", problem, text+": no task can start; "+how, fix)
	case claimable == 0 && s.Capacity > 0: // as after crashes, or before a floor
		text = fmt.Sprintf("%s, and all others are still reserved: no task can start before %s", text, stamp(first))
		if l.Pool.Floor.Before(first) {
			d.add("room", warning, text+"; for more room until then, "+how, fix)
		} else { // Invariant: no advice that does not help. New node IDs begin at the floor, too
			d.add("room", warning, text+"; a larger pool has no room sooner, since new node IDs begin at the floor, "+stamp(l.Pool.Floor), "")
		}
	case 100*s.Held >= nearlyFull*max(s.Capacity, 1):
		d.add("room", warning, text+"; "+how, fix)
	default:
		d.add("room", fine, text, "")
	}
}

// larger returns what makes the pool larger, and the command for it, if there is one.
func (d *doctor) larger(p leasepool.Item, size int) (how, fix string) {
	how, words := remedy.Larger(p, size)
	switch {
	case words != "":
		fix = d.again(words)
	case p.Size < leasepool.MaxSize: // it has outgrown its layout
		fix = (&globals{table: d.table, pool: "NEW", endpoint: d.endpoint}).again("seed --size N --layout LAYOUT --floor TIME")
	}
	return how, fix
}

// checkReleases counts the holders that run each release of the library, oldest release
// first.
func (d *doctor) checkReleases(l *listed) {
	var holders []string
	for _, n := range l.Nodes {
		if n.State == lease.Held {
			holders = append(holders, n.Metadata[lease.MetadataLibrary])
		}
	}
	var parts []string
	for _, r := range leasepool.CountReleases(holders) {
		parts = append(parts, fmt.Sprintf("%s (%d)", cmp.Or(r.Release, "unknown"), r.Held))
	}
	text := "tasks run " + strings.Join(parts, ", ")
	switch len(parts) {
	case 0:
		d.add("releases", fine, "no node ID is held", "")
	case 1:
		d.add("releases", fine, text, "")
	default:
		d.add("releases", warning, text+"; expected only during a deploy",
			d.again("list --state held -o wide"))
	}
}

// checkOtherPools reports which pools of the table can make the same IDs, or only those that
// can make the same IDs as the pool that is checked. Nothing prevents that, because IDs are
// unique only within a pool.
func (d *doctor) checkOtherPools(ctx context.Context) {
	pools, unread, err := d.otherPools(ctx)
	if err != nil {
		d.add("other pools", skipped, "they can only be found by a Scan, which failed: "+brief(err), "")
		return
	}
	names := slices.Sorted(maps.Keys(pools))
	var equal []string
	for i, a := range names {
		for _, b := range names[i+1:] {
			if (d.pool == "" || a == d.pool || b == d.pool) && pools[a].CanCollide(*pools[b]) {
				equal = append(equal, a+" and "+b)
			}
		}
	}
	switch {
	case len(equal) > 0:
		d.add("other pools", warning, "can make equal IDs: "+strings.Join(equal, ", ")+"; acceptable only if their IDs are never used together; otherwise seed one pool for both, or two pools without common node IDs, neither of them narrow",
			(&globals{table: d.table, pool: "NEW", endpoint: d.endpoint}).again("seed --size N --exclude-below M"))
	// Invariant (S1): only pools that were compared are said to make different IDs.
	case len(unread) > 0:
		d.add("other pools", skipped, "not compared, since their items cannot be read: "+strings.Join(unread, ", "), "")
	case d.pool != "" && pools[d.pool] == nil:
		d.add("other pools", skipped, d.pool+" has no item to compare with", "")
	case d.pool == "":
		d.add("other pools", fine, fmt.Sprintf("none of the table's %d can make the same ID as another", len(names)), "")
	case len(names) == 1:
		d.add("other pools", fine, d.pool+" is the only pool of the table", "")
	default:
		d.add("other pools", fine, fmt.Sprintf("none of the table's other %d can make the same ID as %s", len(names)-1, d.pool), "")
	}
}

// otherPools reads every pool of the table, with those of its retired node IDs that are
// still held. unread are the pools whose items cannot be read.
func (d *doctor) otherPools(ctx context.Context) (pools map[string]*overlap.Makers, unread []string, err error) {
	pools = map[string]*overlap.Makers{}
	retiring := map[string][]int{}
	pages := dynamodb.NewScanPaginator(d.client, &dynamodb.ScanInput{
		TableName: &d.table, FilterExpression: aws.String("node_id = :pool OR attribute_exists(retired) AND attribute_exists(holder)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pool": &types.AttributeValueMemberN{Value: "-1"}},
	})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, i := range out.Items {
			key, ok := i["pool_group"].(*types.AttributeValueMemberS)
			if !ok {
				continue
			}
			name, part, other := strings.Cut(key.Value, "#")
			if other {
				// The partitions that are not groups, such as the reaper's, have no node IDs.
				if _, err := strconv.Atoi(part); err == nil && numberIn(i, "node_id") >= 0 {
					retiring[name] = append(retiring[name], numberIn(i, "node_id"))
				}
			} else if item, err := d.store.PoolItem(ctx, name); err == nil {
				pools[name] = &overlap.Makers{Item: item}
			} else if leasepool.CheckName(name) == nil {
				unread = append(unread, name)
			}
		}
	}
	for name, m := range pools {
		m.Retiring = retiring[name]
	}
	slices.Sort(unread)
	return pools, unread, nil
}

func numberIn(item map[string]types.AttributeValue, name string) int {
	if n, ok := item[name].(*types.AttributeValueMemberN); ok {
		v, _ := strconv.Atoi(n.Value) // 0, as for a missing attribute, if the text is invalid
		return v
	}
	return 0
}

// some names the node IDs, or the first of them if there are many.
func some(numbers []int) string {
	const most = 8
	named := strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers[:min(most, len(numbers))]), "[]"), " ", ", ")
	switch {
	case len(numbers) == 1:
		return "node ID " + named
	case len(numbers) > most:
		return fmt.Sprintf("node IDs %s and %d more", named, len(numbers)-most)
	}
	return "node IDs " + named
}
