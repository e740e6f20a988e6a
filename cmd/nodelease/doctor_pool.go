package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// checkPool looks at the pool's own item and at every number.
func (d *doctor) checkPool(ctx context.Context) {
	item, err := d.store.PoolItem(ctx, d.pool)
	var corrupt *lease.CorruptError
	switch {
	case errors.Is(err, lease.ErrPoolNotSeeded):
		d.checkHalfSeeded(ctx)
		return
	case errors.Is(err, lease.ErrItemFormat):
		d.add("pool", problem, plain(err), "go install github.com/nodelease/nodelease/cmd/nodelease@latest")
		return
	case errors.As(err, &corrupt):
		d.add("pool", problem, plain(err)+": restore it as it was; nothing here mends it, so that no ID is made twice",
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
	d.checkNumbers(l)
	d.checkItems(ctx, l)
	d.checkRoom(l)
	d.checkReleases(l)
}

// checkHalfSeeded: a seed makes the pool's own item last.
func (d *doctor) checkHalfSeeded(ctx context.Context) {
	const size = "seed --size N"
	g, err := d.store.Group(ctx, d.pool, 0)
	switch n := len(g.Leases) + len(g.Corrupt); {
	case err != nil:
		d.add("pool", problem, plain(err), "")
	case n > 0:
		d.add("pool", problem, fmt.Sprintf("%s is half-seeded: %d or more numbers are there, and its own item is missing; seed it again with the size that it should have", d.pool, n), d.again(size))
	default:
		d.add("pool", problem, fmt.Sprintf("%s is not seeded", d.pool), d.again(size))
	}
}

// checkNumbers: all numbers below the pool's size are there and in use, and none above.
func (d *doctor) checkNumbers(l *listed) {
	p := l.Pool
	there := len(l.Corrupt)
	var wrong []int
	for _, n := range l.Nodes {
		if n.NodeID >= p.ReservedLow && n.NodeID < p.Size {
			there++
		}
		if n.Retired != (n.NodeID >= p.Size) {
			wrong = append(wrong, n.NodeID)
		}
	}
	want := p.Size - p.ReservedLow
	if narrow(p) { // the others come with the width that they need
		want = min(p.Size, p.Numbers) - p.ReservedLow
	}
	switch {
	case there < want:
		seed := fmt.Sprintf("seed --size %d --floor +1m", p.Size)
		if p.ReservedLow > 0 {
			seed += fmt.Sprintf(" --reserved-low %d", p.ReservedLow)
		}
		if narrow(p) {
			seed += " --narrow"
		}
		d.add("pool", problem, fmt.Sprintf("%s is half-seeded: %d of its %d numbers are missing", p.Pool, want-there, want), d.again(seed))
	case p.Widening.State == protocol.WidenOpen && p.Widening.From.Before(l.at):
		d.add("pool", warning, fmt.Sprintf("a change of the width of %s to %d bits was not finished; any start of a task does it too, when it is needed", p.Pool, p.Widening.Bits), d.again(fmt.Sprintf("resize --size %d", p.Size)))
	case len(wrong) > 0:
		d.add("pool", problem, fmt.Sprintf("a resize of %s to %d numbers was not finished: %s", p.Pool, p.Size, some(wrong)), d.again(fmt.Sprintf("resize --size %d", p.Size)))
	default:
		d.add("pool", fine, fmt.Sprintf("%s has all of its %d numbers", p.Pool, want), "")
	}
}

// forgotten is for how long an expired number has been there when the reaper
// must have missed it: it runs every few minutes.
const forgotten = 15 * time.Minute

// checkItems looks for numbers that are corrupt, stuck or forgotten.
func (d *doctor) checkItems(ctx context.Context, l *listed) {
	for _, n := range slices.Sorted(maps.Keys(l.Corrupt)) {
		d.add("items", problem, fmt.Sprintf("node %d is corrupt, someone else wrote it: %s; leave it, since deleting or rewriting it makes IDs twice", n, l.Corrupt[n]), d.again(fmt.Sprintf("inspect %d", n)))
	}
	report, err := leasepool.Open(d.store, d.pool).Due(ctx)
	switch {
	case errors.Is(err, lease.ErrClockSkew):
		d.add("items", skipped, "with this clock nobody can say whether numbers are stuck", "")
		return
	case err != nil:
		d.add("items", problem, plain(err), "")
		return
	}
	if len(report.Stuck) > 0 {
		d.add("items", problem, fmt.Sprintf("stuck, reserved for hours ahead by a clock that was wrong: %s; they come back by themselves, nothing may shorten that; more room meanwhile", some(report.Stuck)),
			d.again(fmt.Sprintf("resize --size %d", min(l.Pool.Size+len(report.Stuck), leasepool.MaxSize))))
	}
	var old []int
	for _, n := range l.Nodes {
		if n.State == lease.Expired && n.ExpiresAt.Add(forgotten).Before(l.at) {
			old = append(old, n.NodeID)
		}
	}
	if len(old) > 0 {
		d.add("items", warning, fmt.Sprintf("expired for more than %v, does the reaper run? %s", forgotten, some(old)), d.again("reap"))
	}
	if len(l.Corrupt)+len(report.Stuck)+len(old) == 0 {
		d.add("items", fine, "none is corrupt, stuck or forgotten", "")
	}
}

// checkRoom tells how full the pool is.
func (d *doctor) checkRoom(l *listed) {
	s := l.stats()
	text := fmt.Sprintf("%d of %d numbers are held", s.Held, s.Capacity)
	switch {
	case s.Held >= s.Capacity && s.Held > 0:
		d.add("room", problem, text+": nobody can start", d.again(fmt.Sprintf("resize --size %d", min(2*l.Pool.Size, leasepool.MaxSize))))
	case 100*s.Held >= nearlyFull*max(s.Capacity, 1):
		d.add("room", warning, text, d.again(fmt.Sprintf("resize --size %d", min(2*l.Pool.Size, leasepool.MaxSize))))
	default:
		d.add("room", fine, text, "")
	}
}

// checkReleases counts the releases of the library that the holders run.
func (d *doctor) checkReleases(l *listed) {
	count := map[string]int{}
	for _, n := range l.Nodes {
		if n.State == lease.Held {
			release := n.Metadata[lease.MetadataLibrary]
			if release == "" {
				release = "unknown"
			}
			count[release]++
		}
	}
	var parts []string
	for _, release := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", release, count[release]))
	}
	text := "tasks run " + strings.Join(parts, ", ")
	switch len(count) {
	case 0:
		d.add("releases", fine, "nobody holds a number", "")
	case 1:
		d.add("releases", fine, text, "")
	default:
		d.add("releases", warning, text+"; that is right during a deploy only",
			d.again("list --json --state held")+fmt.Sprintf(" | jq -r '.nodes[]|[.metadata.%s,.task]|@tsv' | sort", lease.MetadataLibrary))
	}
}

// checkOtherPools: a pool is an ID space of its own, and numbers that two pools
// have make the same IDs.
func (d *doctor) checkOtherPools(ctx context.Context) {
	type span struct{ low, size int }
	pools := map[string]span{}
	pages := dynamodb.NewScanPaginator(d.client, &dynamodb.ScanInput{
		TableName: &d.table, FilterExpression: aws.String("node_id = :pool"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pool": &types.AttributeValueMemberN{Value: "-1"}},
	})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			d.add("other pools", skipped, "only a Scan finds them: "+brief(err), "")
			return
		}
		for _, i := range out.Items {
			if name, ok := i["pool_group"].(*types.AttributeValueMemberS); ok {
				pools[name.Value] = span{numberIn(i, "reserved_low"), numberIn(i, "pool_size")}
			}
		}
	}
	names := slices.Sorted(maps.Keys(pools))
	var equal []string
	for i, a := range names {
		for _, b := range names[i+1:] {
			low, high := max(pools[a].low, pools[b].low), min(pools[a].size, pools[b].size)
			if low < high && (d.pool == "" || a == d.pool || b == d.pool) {
				equal = append(equal, fmt.Sprintf("%s and %s (both have %d to %d)", a, b, low, high-1))
			}
		}
	}
	switch {
	case len(equal) > 0:
		d.add("other pools", warning, "make equal IDs: "+strings.Join(equal, ", ")+"; right only if their IDs never meet, else seed one pool for both, or keep their numbers apart",
			(&globals{table: d.table, pool: "NEW", endpoint: d.endpoint}).again("seed --size N --reserved-low M"))
	default:
		d.add("other pools", fine, fmt.Sprintf("none of %d in the table makes IDs that another makes too", len(names)), "")
	}
}

func numberIn(item map[string]types.AttributeValue, name string) int {
	if n, ok := item[name].(*types.AttributeValueMemberN); ok {
		v, _ := strconv.Atoi(n.Value) // 0: as if it were missing
		return v
	}
	return 0
}

// some names the first numbers of many.
func some(numbers []int) string {
	const most = 8
	text := strings.Trim(fmt.Sprint(numbers[:min(most, len(numbers))]), "[]")
	if len(numbers) > most {
		text += fmt.Sprintf(" and %d more", len(numbers)-most)
	}
	return "numbers " + text
}
