package protocol

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Cards is the number of hint cards of a pool, each in a partition of its own. Together
// they answer 96,000 eventually consistent reads a second, whereas the pool's item answers
// 3,000 strongly consistent ones.
const Cards = 16

// CardStore is a [Store] with hint cards: copies of the pool's item that are read cheaply,
// and that may be old. With a store that has no cards, each starting agent reads the
// pool's item, strongly consistent.
//
// A process that has read a card is in the same state as one that read the pool's item
// some time ago and has been paused since. So nothing relies on a card being current: a
// write that is based on an old card is refused, or its sender reads the pool's item
// first. See docs/architecture.md, "The item and its cards".
type CardStore interface {
	// Card reads card n (0 to Cards-1), eventually consistent. It returns nil if the card
	// was never written.
	Card(ctx context.Context, pool string, n int) (*PoolItem, error)
	// WriteCard does one conditional write of a card, with one attempt.
	WriteCard(ctx context.Context, w WriteCard) (applied bool, err error)
}

// WriteCard copies the pool's item to a card. Item is the result of a read or of a write.
type WriteCard struct {
	Card int
	Item PoolItem
}

// Apply returns the card after the write; see [Write].
//
// Invariant: an older copy never replaces a newer one. Every change of the pool increments
// its revision, except a new verdict or count. So of two copies with the same revision,
// the one with the newer verdict is newer; if they have the same verdict, the one with the
// newer count is newer. Forgetting a verdict increments the revision, so that no late copy
// brings the verdict back.
func (w WriteCard) Apply(old *PoolItem) (PoolItem, bool) {
	if old != nil && !w.Item.newerThan(*old) {
		return PoolItem{}, false
	}
	p := w.Item
	p.ServerTime = time.Time{}
	return p, true
}

// newerThan reports whether a copy of p replaces a copy of o.
func (p PoolItem) newerThan(o PoolItem) bool {
	return cmp.Or(cmp.Compare(p.Revision, o.Revision), cmp.Compare(p.vouchedAt(), o.vouchedAt()), cmp.Compare(p.measuredAt(), o.measuredAt())) > 0
}

// Behind reports whether a card must be written again with p. The card is nil if it was
// never written. If p differs from the card only by a newer count, a write is worthwhile
// only if the count is newer by at least half of its validity.
func Behind(p PoolItem, card *PoolItem) bool {
	if card == nil || !p.newerThan(*card) {
		return card == nil
	}
	counted := p.Revision == card.Revision && p.vouchedAt() == card.vouchedAt()
	return !counted || p.measuredAt()-card.measuredAt() >= p.Measured.Valid.Milliseconds()/2
}

// HintEnough reports whether a card with p is enough for an agent to start. No change of
// the width of node IDs may be open, because a claimant must know of it. And either all
// groups must be open, or enough of them for the expected holders: if agents open groups
// as they arrive, a herd may already have filled the groups that are open according to the
// card.
func HintEnough(p PoolItem) bool {
	_, last := p.GroupsOpen()
	enough := last+1 >= UsableGroups(p) || p.Expect > 0 && p.OpenGroups >= GroupsFor(p, p.Expect)
	return enough && p.Widening.State != WidenOpen
}

// vouchedAt returns when the verdict was made; 0 if there is none.
func (p PoolItem) vouchedAt() int64 {
	if p.Verdict == nil {
		return 0
	}
	return p.Verdict.At.UnixMilli()
}

// measuredAt returns when the pool's node IDs were last counted; 0 if they never were.
func (p PoolItem) measuredAt() int64 {
	if p.Measured == nil {
		return 0
	}
	return p.Measured.At.UnixMilli()
}

func (w WriteCard) update() update {
	item, _ := w.Apply(nil)
	return update{
		set: "SET revision = :revision, vouched_at = :vouched_at, measured_at = :measured_at, card = :card",
		onlyIf: "attribute_not_exists(revision) OR revision < :revision OR (revision = :revision AND vouched_at < :vouched_at) OR " +
			"(revision = :revision AND vouched_at = :vouched_at AND measured_at < :measured_at)",
		values: attributes{":revision": num(item.Revision), ":vouched_at": num(item.vouchedAt()), ":measured_at": num(item.measuredAt()), ":card": item.card()},
	}
}

// card encodes p for a card: the attributes of the pool's item in one map.
func (p PoolItem) card() types.AttributeValue {
	av := attributes{
		"item_format": num(p.Format), "pool_size": num(p.Size), "open_groups": num(p.OpenGroups), "exclude_below": num(p.ExcludeBelow),
		"revision": num(p.Revision), "floor": millis(Latest(p.Floor, time.UnixMilli(0))),
	}
	for name, at := range map[string]time.Time{"created_at": p.CreatedAt, "resized_at": p.ResizedAt} {
		if !at.IsZero() {
			av[name] = millis(at)
		}
	}
	for name, l := range map[string]*IDLayout{"layout": p.Layout, "layout_before": p.LayoutBefore} {
		if l != nil {
			av[name] = encoded(*l)
		}
	}
	if p.LayoutFinal {
		av["layout_final"] = boolean(true)
	}
	if p.Expect > 0 {
		av["expect"] = num(p.Expect)
	}
	if p.Verdict != nil {
		av["verdict"] = p.Verdict.item()
	}
	if p.Measured != nil {
		av["measured"] = p.Measured.item()
	}
	if p.Narrow() {
		av["eras"] = eraList(p.Eras...)
		av["widen_try"], av["widen_from"], av["widen_bits"] = num(p.Widening.Try), millis(p.Widening.From), num(p.Widening.Bits)
		av["widen_state"], av["exist_below"] = str(string(p.Widening.State)), num(p.ExistBelow)
	}
	return &types.AttributeValueMemberM{Value: av}
}

// Card implements [CardStore] with one GetItem, which costs half a read unit. The error is
// a *CorruptError if the card's content could not be that of a pool's item.
func (d *DynamoDB) Card(ctx context.Context, pool string, n int) (*PoolItem, error) {
	out, err := d.read(ctx, cardKey(pool, n), false)
	if err != nil || len(out.Item) == 0 {
		return nil, err
	}
	card, ok := out.Item["card"].(*types.AttributeValueMemberM)
	if wrong := Trimmed(out.Item); wrong != nil || !ok {
		return nil, &CorruptError{Pool: pool, NodeID: poolNode, Err: errors.Join(wrong, fmt.Errorf("hint card %d has no map of the pool's attributes", n))}
	}
	p, err := decodePool(pool, card.Value)
	if err != nil {
		return nil, err
	}
	p.ServerTime, _ = middleware.GetServerTime(out.ResultMetadata)
	return p, nil
}

// WriteCard implements [CardStore].
func (d *DynamoDB) WriteCard(ctx context.Context, w WriteCard) (applied bool, err error) {
	_, applied, err = d.send(ctx, cardKey(w.Item.Pool, w.Card), w.update())
	return applied, explain(err, "UpdateItem", d.table)
}

// cardKey returns the table's key of a hint card. Each card has its own partition key, and
// so most likely its own partition.
func cardKey(pool string, n int) attributes { return rawKey(pool+"#card#"+strconv.Itoa(n), 0) }
