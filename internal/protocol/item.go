package protocol

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Attributes of the key, and the sort key of a pool's own item.
const (
	partitionKey = "pool_group"
	sortKey      = "node_id"
	poolNode     = -1
)

type attributes = map[string]types.AttributeValue

// leaseItem is a node ID's item as stored in DynamoDB. Pointers distinguish missing
// attributes from zero ones: an item that lacks a required attribute is corrupt. To add an
// attribute, see docs/architecture.md.
type leaseItem struct {
	Group         string            `dynamodbav:"pool_group"`
	NodeID        *int              `dynamodbav:"node_id"`
	Holder        *string           `dynamodbav:"holder,omitempty"`
	Task          string            `dynamodbav:"task,omitempty"`
	Version       *int64            `dynamodbav:"version"`
	Renewal       int64             `dynamodbav:"renewal,omitempty"`
	LeaseMS       int64             `dynamodbav:"lease_ms,omitempty"`
	ExpiresAt     *int64            `dynamodbav:"expires_at,omitempty"`
	NotBefore     *int64            `dynamodbav:"not_before,omitempty"`
	ReservedUntil *int64            `dynamodbav:"reserved_until"`
	WidenTry      int64             `dynamodbav:"widen_try,omitempty"`
	Retired       *bool             `dynamodbav:"retired,omitempty"`
	Resize        int64             `dynamodbav:"resize,omitempty"`
	OnDemand      *bool             `dynamodbav:"on_demand,omitempty"`
	Previous      *previousItem     `dynamodbav:"previous,omitempty"`
	TakenFrom     string            `dynamodbav:"taken_from,omitempty"`
	Metadata      map[string]string `dynamodbav:"metadata,omitempty"`
}

// previousItem is the previous holder, as stored in a lease's item.
type previousItem struct {
	Session string `dynamodbav:"session"`
	Version int64  `dynamodbav:"version"`
	Ended   Ending `dynamodbav:"ended"`
}

// poolItem is the pool's own item.
type poolItem struct {
	Format       *int   `dynamodbav:"item_format"`
	Size         *int   `dynamodbav:"pool_size"`
	OpenGroups   int    `dynamodbav:"open_groups"`
	ExcludeBelow int    `dynamodbav:"exclude_below"`
	CreatedAt    *int64 `dynamodbav:"created_at"`
	ResizedAt    *int64 `dynamodbav:"resized_at"`
	Revision     *int64 `dynamodbav:"revision"`
	Floor        *int64 `dynamodbav:"floor"`

	Layout       *IDLayout `dynamodbav:"layout"`
	LayoutBefore *IDLayout `dynamodbav:"layout_before"`
	LayoutFinal  *bool     `dynamodbav:"layout_final"`
	Expect       int       `dynamodbav:"expect"`
	Verdict      *verdict  `dynamodbav:"verdict"`
	Measured     *measured `dynamodbav:"measured"`

	Eras []struct {
		From     *int64 `dynamodbav:"from"`
		NodeBits int    `dynamodbav:"node_bits"`
	} `dynamodbav:"eras"`
	WidenTry   *int64     `dynamodbav:"widen_try"`
	WidenFrom  *int64     `dynamodbav:"widen_from"`
	WidenBits  int        `dynamodbav:"widen_bits"`
	WidenState WidenState `dynamodbav:"widen_state"`
	ExistBelow int        `dynamodbav:"exist_below"`
}

// verdict and measured are maps of the pool's item, with times in milliseconds.
type verdict struct {
	Region string `dynamodbav:"region"`
	Table  string `dynamodbav:"table,omitempty"`
	At     int64  `dynamodbav:"at"`
	By     string `dynamodbav:"by"`
	Safe   bool   `dynamodbav:"safe"`
}

type measured struct {
	Held    int   `dynamodbav:"held"`
	Cooling int   `dynamodbav:"cooling"`
	At      int64 `dynamodbav:"at"`
	ValidMS int64 `dynamodbav:"valid_ms,omitempty"`
}

// decodeLease decodes a node ID's item; every defect is a *CorruptError.
func decodeLease(k Key, av attributes) (*Lease, error) {
	var it leaseItem
	corrupt := func(err error) (*Lease, error) { return nil, &CorruptError{Pool: k.Pool, NodeID: k.NodeID, Err: err} }
	if err := errors.Join(Trimmed(av), nulls(av, leaseNames), attributevalue.UnmarshalMap(av, &it), it.checkText()); err != nil {
		return corrupt(err)
	}
	switch _, isText := av["holder"].(*types.AttributeValueMemberS); {
	case it.Holder != nil && !isText:
		return corrupt(errors.New("holder is not a string"))
	case it.NodeID == nil || *it.NodeID != k.NodeID:
		return corrupt(fmt.Errorf("node_id is %s", show(it.NodeID)))
	case it.Version == nil || *it.Version < 0 || *it.Version > mostEver:
		return corrupt(fmt.Errorf("version is %s", show(it.Version)))
	case it.ReservedUntil == nil || !plausible(*it.ReservedUntil):
		return corrupt(fmt.Errorf("reserved_until is %s", show(it.ReservedUntil)))
	case it.Renewal < 0 || it.Renewal > mostEver || it.LeaseMS < 0 || it.LeaseMS > MaxTTL.Milliseconds():
		return corrupt(fmt.Errorf("renewal %d or lease_ms %d is out of range", it.Renewal, it.LeaseMS))
	case it.WidenTry < 0 || it.WidenTry == 0 && av["widen_try"] != nil || it.WidenTry > mostEver || it.Resize < 0 || it.Resize > mostEver:
		return corrupt(fmt.Errorf("widen_try %d or resize %d is out of range", it.WidenTry, it.Resize))
	case it.NotBefore != nil && !plausible(*it.NotBefore):
		return corrupt(fmt.Errorf("not_before is %s", show(it.NotBefore)))
	case it.Holder != nil && (*it.Holder == "" || *it.Version == 0 || it.NotBefore == nil || av["renewal"] == nil):
		return corrupt(errors.New("it has a holder without a name, a version, a renewal or not_before"))
	case (it.Holder != nil) != (it.ExpiresAt != nil) || it.ExpiresAt != nil && !plausible(*it.ExpiresAt):
		return corrupt(fmt.Errorf("it has a holder: %t; expires_at is %s", it.Holder != nil, show(it.ExpiresAt)))
	}
	l := &Lease{
		Pool: k.Pool, NodeID: k.NodeID, Task: it.Task, Version: *it.Version, Renewal: it.Renewal,
		TTL: time.Duration(it.LeaseMS) * time.Millisecond, NotBefore: fromMS(it.NotBefore), ReservedUntil: fromMS(it.ReservedUntil),
		ExpiresAt: fromMS(it.ExpiresAt), WidenTry: it.WidenTry, Retired: it.Retired != nil, Metadata: it.Metadata,
		Resize: it.Resize, OnDemand: it.OnDemand != nil && *it.OnDemand, TakenFrom: it.TakenFrom,
	}
	if it.Previous != nil {
		l.Previous = &Previous{it.Previous.Session, it.Previous.Version, it.Previous.Ended}
	}
	if it.Holder != nil {
		l.Holder = *it.Holder
	}
	return l, nil
}

// decodePool decodes a pool's item.
func decodePool(pool string, av attributes) (*PoolItem, error) {
	var it poolItem
	if err := errors.Join(Trimmed(av), nulls(av, poolNames), attributevalue.UnmarshalMap(av, &it)); err != nil {
		return nil, &CorruptError{Pool: pool, NodeID: poolNode, Err: err}
	}
	switch {
	case it.Format == nil:
		return nil, &CorruptError{Pool: pool, NodeID: poolNode, Err: errors.New("item_format is missing")}
	case *it.Format != ItemFormat:
		return nil, refusedFormat(pool, *it.Format)
	case it.Size == nil || *it.Size < 1 || *it.Size > MaxPoolSize || it.OpenGroups < 0 || it.ExcludeBelow < 0 || it.ExcludeBelow >= *it.Size:
		return nil, &CorruptError{Pool: pool, NodeID: poolNode, Err: fmt.Errorf("pool_size %s, open_groups %d, exclude_below %d", show(it.Size), it.OpenGroups, it.ExcludeBelow)}
	}
	if it.Revision == nil || *it.Revision < 1 || *it.Revision > mostEver || it.Floor == nil || !plausible(*it.Floor) {
		return nil, &CorruptError{Pool: pool, NodeID: poolNode, Err: fmt.Errorf("revision is %s, floor is %s", show(it.Revision), show(it.Floor))}
	}
	for _, l := range []*IDLayout{it.Layout, it.LayoutBefore} {
		if l != nil && l.Snowflake().Validate() != nil {
			return nil, &CorruptError{Pool: pool, NodeID: poolNode, Err: fmt.Errorf("layout is %+v", *l)}
		}
	}
	if err := it.checkBounds(); err != nil {
		return nil, &CorruptError{Pool: pool, NodeID: poolNode, Err: err}
	}
	p := &PoolItem{
		Pool: pool, Format: *it.Format, Size: *it.Size, OpenGroups: it.OpenGroups, ExcludeBelow: it.ExcludeBelow,
		CreatedAt: fromMS(it.CreatedAt), ResizedAt: fromMS(it.ResizedAt), Revision: *it.Revision, Floor: floorOf(*it.Floor), Layout: it.Layout, LayoutBefore: it.LayoutBefore, Expect: it.Expect,
	}
	p.LayoutFinal = it.LayoutFinal != nil && *it.LayoutFinal
	if v := it.Verdict; v != nil {
		p.Verdict = &Verdict{Region: v.Region, Table: v.Table, At: time.UnixMilli(v.At).UTC(), By: v.By, Safe: v.Safe}
		p.Verdict.odd = asStored(av["verdict"], p.Verdict.item())
	}
	if m := it.Measured; m != nil {
		// Nothing vital depends on the count, so a bad value is tolerated; see Fresh.
		p.Measured = &Measured{Held: m.Held, Cooling: m.Cooling, At: time.UnixMilli(m.At).UTC(), Valid: time.Duration(min(max(m.ValidMS, 0), mostValid.Milliseconds())) * time.Millisecond}
		p.Measured.odd = asStored(av["measured"], p.Measured.item())
	}
	if err := it.widths(p); err != nil {
		return nil, &CorruptError{Pool: pool, NodeID: poolNode, Err: err}
	}
	return p, nil
}

// asStored returns a map of the pool's item as it is stored, or nil if it is what this
// release writes.
//
// Invariant: a write that is conditional on a map sends the map that was read. Without the
// keys that another release or somebody by hand has added, each write would be refused.
func asStored(stored, own types.AttributeValue) types.AttributeValue {
	if reflect.DeepEqual(stored, own) {
		return nil
	}
	return stored
}

// refusedFormat returns the error, with the remedy, for a pool whose items this release
// must not use.
func refusedFormat(pool string, format int) error {
	remedy := "upgrade this program"
	if format < ItemFormat {
		remedy = "stop its fleet, seed a new pool whose floor is later than every ID of the old one (nodelease seed --pool NEW --floor TIME), and start the fleet there"
	}
	return fmt.Errorf("%w: pool %q has item format %d, this release knows only %d: %s", ErrItemFormat, pool, format, ItemFormat, remedy)
}

// widths reads the attributes that only a narrow pool has. It returns an error if a pool
// has only some of them.
func (it poolItem) widths(p *PoolItem) error {
	if len(it.Eras) == 0 {
		if it.WidenTry != nil || it.WidenFrom != nil || it.WidenBits != 0 || it.WidenState != "" || it.ExistBelow != 0 {
			return errors.New("it has a widening and no eras")
		}
		return nil
	}
	for i, l := range it.Eras {
		if l.From == nil || !plausible(*l.From) || l.NodeBits < 1 || l.NodeBits > 16 || i > 0 && *l.From <= *it.Eras[i-1].From {
			return fmt.Errorf("eras: number %d has %d node bits from %s", i, l.NodeBits, show(l.From))
		}
		p.Eras = append(p.Eras, snowflake.Era{From: fromMS(l.From), NodeBits: l.NodeBits})
	}
	known := it.WidenState == WidenOpen || it.WidenState == WidenVoid || it.WidenState == WidenDone
	if it.WidenTry == nil || *it.WidenTry < 0 || *it.WidenTry > mostEver || it.WidenFrom == nil || !plausible(*it.WidenFrom) || !known ||
		it.WidenBits < 1 || it.WidenBits > 16 || it.ExistBelow <= it.ExcludeBelow || it.ExistBelow > 1<<p.Bits() {
		return fmt.Errorf("widen_try %s, widen_from %s, widen_bits %d, widen_state %q, exist_below %d", show(it.WidenTry), show(it.WidenFrom), it.WidenBits, it.WidenState, it.ExistBelow)
	}
	p.Widening = Widening{Try: *it.WidenTry, From: fromMS(it.WidenFrom), Bits: it.WidenBits, State: it.WidenState}
	p.ExistBelow = it.ExistBelow
	return nil
}

// itemKey returns the table's key of a node ID.
func itemKey(k Key) attributes { return rawKey(groupKey(k.Pool, k.NodeID/GroupSize), k.NodeID) }

// poolKey returns the table's key of a pool's own item.
func poolKey(pool string) attributes { return rawKey(pool, poolNode) }

func groupKey(pool string, group int) string { return pool + "#" + strconv.Itoa(group) }

func rawKey(group string, node int) attributes {
	return attributes{
		partitionKey: &types.AttributeValueMemberS{Value: group},
		sortKey:      &types.AttributeValueMemberN{Value: strconv.Itoa(node)},
	}
}

// mostEver bounds a counter. No node ID changes hands or is renewed that often, and a
// larger value could overflow when it is incremented.
const mostEver = 1<<53 - 1

// plausible reports whether ms is a time that an item may have: from 1970 to 9999.
func plausible(ms int64) bool { return ms >= 0 && ms < 253402300800000 }

// floorOf returns the floor of a pool; 0 means that none was set.
func floorOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func fromMS(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms).UTC()
}

func show[T any](p *T) string {
	if p == nil {
		return "missing"
	}
	return fmt.Sprint(*p)
}
