package protocol

import (
	"errors"
	"fmt"
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

// leaseItem is a number's item as DynamoDB keeps it. Pointers tell missing
// attributes from zero ones: what is missing is corrupt, never zero.
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
	Layout        int64             `dynamodbav:"layout,omitempty"`
	Retired       *bool             `dynamodbav:"retired,omitempty"`
	Metadata      map[string]string `dynamodbav:"metadata,omitempty"`
}

// poolItem is the pool's own item.
type poolItem struct {
	Format      *int   `dynamodbav:"item_format"`
	Size        *int   `dynamodbav:"pool_size"`
	OpenGroups  int    `dynamodbav:"open_groups"`
	ReservedLow int    `dynamodbav:"reserved_low"`
	CreatedAt   *int64 `dynamodbav:"created_at"`
	ResizedAt   *int64 `dynamodbav:"resized_at"`

	Layouts []struct {
		From     *int64 `dynamodbav:"from"`
		NodeBits int    `dynamodbav:"node_bits"`
	} `dynamodbav:"layouts"`
	WidenTry     *int64     `dynamodbav:"widen_try"`
	WidenFrom    *int64     `dynamodbav:"widen_from"`
	WidenBits    int        `dynamodbav:"widen_bits"`
	WidenState   WidenState `dynamodbav:"widen_state"`
	WidenNumbers int        `dynamodbav:"widen_numbers"`
}

// decodeLease reads a number's item; every doubt is a *CorruptError.
func decodeLease(k Key, av attributes) (*Lease, error) {
	var it leaseItem
	corrupt := func(err error) (*Lease, error) { return nil, &CorruptError{k.Pool, k.NodeID, err} }
	if err := attributevalue.UnmarshalMap(av, &it); err != nil {
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
	case it.Renewal < 0 || it.Renewal > mostEver || it.LeaseMS < 0 || it.LeaseMS > MaxTTL.Milliseconds() || it.Layout < 0:
		return corrupt(fmt.Errorf("renewal %d, lease_ms %d or layout %d is out of range", it.Renewal, it.LeaseMS, it.Layout))
	case it.NotBefore != nil && !plausible(*it.NotBefore):
		return corrupt(fmt.Errorf("not_before is %s", show(it.NotBefore)))
	case it.Holder != nil && (*it.Holder == "" || *it.Version == 0 || it.NotBefore == nil || av["renewal"] == nil):
		return corrupt(errors.New("it has a holder without a name, a version, a renewal or not_before"))
	case (it.Holder != nil) != (it.ExpiresAt != nil) || it.ExpiresAt != nil && !plausible(*it.ExpiresAt):
		return corrupt(fmt.Errorf("holder is %s, expires_at is %s", show(it.Holder), show(it.ExpiresAt)))
	}
	l := &Lease{
		Pool: k.Pool, NodeID: k.NodeID, Task: it.Task, Version: *it.Version, Renewal: it.Renewal,
		TTL: time.Duration(it.LeaseMS) * time.Millisecond, NotBefore: fromMS(it.NotBefore), ReservedUntil: fromMS(it.ReservedUntil),
		ExpiresAt: fromMS(it.ExpiresAt), Layout: it.Layout, Retired: it.Retired != nil, Metadata: it.Metadata,
	}
	if it.Holder != nil {
		l.Holder = *it.Holder
	}
	return l, nil
}

// decodePool reads a pool's item.
func decodePool(pool string, av attributes) (*PoolItem, error) {
	var it poolItem
	if err := attributevalue.UnmarshalMap(av, &it); err != nil {
		return nil, &CorruptError{pool, poolNode, err}
	}
	switch {
	case it.Format == nil:
		return nil, &CorruptError{pool, poolNode, errors.New("item_format is missing")}
	case *it.Format != ItemFormat:
		return nil, fmt.Errorf("%w: pool %q has item format %d, this release knows %d: upgrade this program", ErrItemFormat, pool, *it.Format, ItemFormat)
	case it.Size == nil || *it.Size < 1 || *it.Size > MaxPoolSize || it.OpenGroups < 0 || it.ReservedLow < 0 || it.ReservedLow >= *it.Size:
		return nil, &CorruptError{pool, poolNode, fmt.Errorf("pool_size %s, open_groups %d, reserved_low %d", show(it.Size), it.OpenGroups, it.ReservedLow)}
	}
	p := &PoolItem{
		Pool: pool, Format: *it.Format, Size: *it.Size, OpenGroups: it.OpenGroups, ReservedLow: it.ReservedLow,
		CreatedAt: fromMS(it.CreatedAt), ResizedAt: fromMS(it.ResizedAt),
	}
	if err := it.widths(p); err != nil {
		return nil, &CorruptError{pool, poolNode, err}
	}
	return p, nil
}

// widths reads the attributes that only a narrow pool has: all of them or none.
func (it poolItem) widths(p *PoolItem) error {
	if len(it.Layouts) == 0 {
		if it.WidenTry != nil || it.WidenFrom != nil || it.WidenBits != 0 || it.WidenState != "" || it.WidenNumbers != 0 {
			return errors.New("it has a widening and no layouts")
		}
		return nil
	}
	for i, l := range it.Layouts {
		if l.From == nil || !plausible(*l.From) || l.NodeBits < 1 || l.NodeBits > 16 || i > 0 && *l.From <= *it.Layouts[i-1].From {
			return fmt.Errorf("layouts: number %d has %d node bits from %s", i, l.NodeBits, show(l.From))
		}
		p.Eras = append(p.Eras, snowflake.Era{From: fromMS(l.From), NodeBits: l.NodeBits})
	}
	known := it.WidenState == WidenOpen || it.WidenState == WidenVoid || it.WidenState == WidenDone
	if it.WidenTry == nil || *it.WidenTry < 0 || *it.WidenTry > mostEver || it.WidenFrom == nil || !plausible(*it.WidenFrom) || !known ||
		it.WidenBits < 1 || it.WidenBits > 16 || it.WidenNumbers < 0 || it.WidenNumbers > 1<<p.Bits() {
		return fmt.Errorf("widen_try %s, widen_from %s, widen_bits %d, widen_state %q, widen_numbers %d", show(it.WidenTry), show(it.WidenFrom), it.WidenBits, it.WidenState, it.WidenNumbers)
	}
	p.Widening = Widening{Try: *it.WidenTry, From: fromMS(it.WidenFrom), Bits: it.WidenBits, State: it.WidenState}
	p.Numbers = it.WidenNumbers
	return nil
}

// itemKey is the table's key of a number.
func itemKey(k Key) attributes { return rawKey(groupKey(k.Pool, k.NodeID/GroupSize), k.NodeID) }

// poolKey is the table's key of a pool's own item.
func poolKey(pool string) attributes { return rawKey(pool, poolNode) }

func groupKey(pool string, group int) string { return pool + "#" + strconv.Itoa(group) }

func rawKey(group string, node int) attributes {
	return attributes{
		partitionKey: &types.AttributeValueMemberS{Value: group},
		sortKey:      &types.AttributeValueMemberN{Value: strconv.Itoa(node)},
	}
}

// mostEver is more than a number ever changes hands, or is renewed. What is larger
// would overflow when it grows.
const mostEver = 1 << 53

// plausible bounds the milliseconds that an item may hold: from 1970 to 9999.
func plausible(ms int64) bool { return ms >= 0 && ms < 253402300800000 }

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
