package protocol

import (
	"maps"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// update is an UpdateItem in DynamoDB's words.
type update struct {
	set    string
	onlyIf string
	values attributes
}

// The writes, side by side. Right-hand sides see the item as it was before the
// write. A comparison with a missing attribute is false, and every condition
// names the attributes that must exist: a corrupt item is refused, not healed.

// A number is seeded once, and only where there is no item at all: seeding it
// again would forget which milliseconds of it were stamped.
func (w Seed) update() update {
	u := update{
		set:    "SET version = :zero, reserved_until = :floor",
		onlyIf: "attribute_not_exists(pool_group)",
		values: attributes{":zero": num(0), ":floor": millis(w.Floor)},
	}
	if w.Layout > 0 {
		u.set += ", layout = :layout"
		u.values[":layout"] = num(w.Layout)
	}
	return u
}

// The new span begins where the stored one ended, in the same atomic write: so
// spans of one number never overlap, whatever any clock says (S1). The guards on
// expires_at and reserved_until only keep believers apart (S2).
func (w Claim) update() update {
	return update{
		set: "SET holder = :session, task = :task, version = version + :one, renewal = :zero, lease_ms = :ttl, " +
			"expires_at = :expires_at, not_before = reserved_until, reserved_until = :reserved_until, metadata = :metadata",
		onlyIf: "version >= :zero AND attribute_not_exists(retired) " +
			"AND (attribute_not_exists(layout) OR layout <= :layout) " +
			"AND (attribute_not_exists(holder) OR expires_at < :expired_before) " +
			"AND reserved_until BETWEEN :zero AND :reserved_by",
		values: attributes{
			":session": str(w.Session), ":task": str(w.Task), ":one": num(1), ":zero": num(0), ":ttl": num(w.TTL.Milliseconds()),
			":expires_at": millis(w.ExpiresAt), ":reserved_until": millis(w.ReservedUntil), ":metadata": stringMap(w.Metadata),
			":layout": num(w.Layout), ":expired_before": millis(w.expiredBefore()), ":reserved_by": millis(w.reservedBy()),
		},
	}
}

// Only the session and version that hold the number renew it, and renewals land
// in the order in which they were sent, or not at all: a late one must not lower
// what a newer one reserved.
func (w Renew) update() update {
	u := update{
		set: "SET expires_at = :expires_at, reserved_until = :reserved_until, renewal = :renewal",
		onlyIf: "holder = :session AND version = :version AND renewal < :renewal " +
			"AND (attribute_not_exists(layout) OR layout <= :layout)",
		values: attributes{
			":session": str(w.Session), ":version": num(w.Version), ":renewal": num(w.Renewal),
			":expires_at": millis(w.ExpiresAt), ":reserved_until": millis(w.ReservedUntil), ":layout": num(w.Layout),
		},
	}
	if w.Metadata != nil { // the same one write, not another
		u.set += ", metadata = :metadata"
		u.values[":metadata"] = stringMap(w.Metadata)
	}
	return u
}

// What was reserved and not stamped is handed back, by its holder alone and
// after the fence: a successor begins right behind the last stamp.
func (w Release) update() update {
	return update{
		set:    "SET reserved_until = :reserved_until REMOVE holder, expires_at",
		onlyIf: "holder = :session AND version = :version",
		values: attributes{":session": str(w.Session), ":version": num(w.Version), ":reserved_until": millis(w.ReservedUntil)},
	}
}

// A session that never learned of its claim stamped nothing.
func (w Abandon) update() update {
	return update{
		set:    "SET reserved_until = not_before REMOVE holder, expires_at",
		onlyIf: "holder = :session",
		values: attributes{":session": str(w.Session)},
	}
}

// Reaping is pinned on what was seen: a holder that comes back is left alone.
// version and reserved_until stay.
func (w Reap) update() update {
	return update{
		set:    "REMOVE holder, expires_at",
		onlyIf: "holder = :holder AND version = :version AND renewal = :renewal",
		values: attributes{":holder": str(w.Holder), ":version": num(w.Version), ":renewal": num(w.Renewal)},
	}
}

// An operator frees the lease that they saw, not the next one.
func (w ForceRelease) update() update {
	return update{
		set:    "REMOVE holder, expires_at",
		onlyIf: "attribute_exists(holder) AND version = :version",
		values: attributes{":version": num(w.Version)},
	}
}

// Retiring makes no item: one made here would be a number seeded at 0.
func (w Retire) update() update {
	u := update{set: "REMOVE retired", onlyIf: "attribute_exists(version)"}
	if w.Retired {
		u.set, u.values = "SET retired = :true", attributes{":true": boolean(true)}
	}
	return u
}

// Reserved milliseconds only ever grow here.
func (w Raise) update() update {
	return update{
		set:    "SET reserved_until = :to REMOVE holder, expires_at",
		onlyIf: "attribute_exists(version) AND reserved_until < :to",
		values: attributes{":to": millis(w.To)},
	}
}

// The writes of a pool's item are pinned on what their sender saw, and on the
// format that it knows: what a newer release has written is left to it.

func (w CreatePool) update() update {
	u := update{
		set:    "SET item_format = :format, pool_size = :size, open_groups = :open_groups, reserved_low = :reserved_low, created_at = :at",
		onlyIf: "attribute_not_exists(pool_group)",
		values: attributes{":format": num(ItemFormat), ":size": num(w.Size), ":open_groups": num(w.OpenGroups), ":reserved_low": num(w.ReservedLow), ":at": millis(w.At)},
	}
	if w.NodeBits > 0 {
		u.set += ", layouts = :layouts, widen_try = :zero, widen_from = :zero, widen_bits = :bits, widen_state = :done, widen_numbers = :numbers"
		maps.Copy(u.values, attributes{
			":layouts": layouts(snowflake.Era{From: time.UnixMilli(0), NodeBits: w.NodeBits}), ":zero": num(0), ":bits": num(w.NodeBits),
			":done": str(string(WidenDone)), ":numbers": num(w.Numbers),
		})
	}
	return u
}

func (w OpenGroups) update() update {
	return update{
		set:    "SET open_groups = :to",
		onlyIf: "item_format = :format AND open_groups = :from",
		values: attributes{":format": num(ItemFormat), ":from": num(w.From), ":to": num(w.To)},
	}
}

func (w ResizePool) update() update {
	return update{
		set:    "SET pool_size = :to, resized_at = :at",
		onlyIf: "item_format = :format AND pool_size = :from",
		values: attributes{":format": num(ItemFormat), ":from": num(w.From), ":to": num(w.To), ":at": millis(w.At)},
	}
}

// The writes that change a width: widening.go says how they keep each other's
// promises.

// With a new try the one before it can no longer be committed.
func (w BeginWiden) update() update {
	return update{
		set:    "SET widen_try = :try, widen_from = :from, widen_bits = :bits, widen_state = :open",
		onlyIf: "item_format = :format AND widen_try = :before AND widen_state = :seen",
		values: attributes{
			":format": num(ItemFormat), ":try": num(w.Try), ":before": num(w.Try - 1), ":seen": str(string(w.Seen)),
			":from": millis(w.From), ":bits": num(w.Bits), ":open": str(string(WidenOpen)),
		},
	}
}

// A void and a commit exclude each other.
func (w VoidWiden) update() update {
	return update{
		set:    "SET widen_state = :void",
		onlyIf: "item_format = :format AND widen_try = :try AND widen_state = :open",
		values: attributes{":format": num(ItemFormat), ":try": num(w.Try), ":open": str(string(WidenOpen)), ":void": str(string(WidenVoid))},
	}
}

func (w CommitWiden) update() update {
	return update{
		set: "SET layouts = list_append(layouts, :layout), widen_state = :done",
		onlyIf: "item_format = :format AND widen_try = :try AND widen_state = :open " +
			"AND widen_from = :from AND widen_bits = :bits",
		values: attributes{
			":format": num(ItemFormat), ":try": num(w.Try), ":open": str(string(WidenOpen)), ":done": str(string(WidenDone)),
			":from": millis(w.From), ":bits": num(w.Bits), ":layout": layouts(snowflake.Era{From: w.From, NodeBits: w.Bits}),
		},
	}
}

// None come while a try is open: its widener has decided by then what to mark.
func (w AddNumbers) update() update {
	return update{
		set:    "SET widen_numbers = :to",
		onlyIf: "item_format = :format AND widen_numbers = :from AND widen_try = :try AND widen_state <> :open",
		values: attributes{":format": num(ItemFormat), ":from": num(w.From), ":to": num(w.To), ":try": num(w.Try), ":open": str(string(WidenOpen))},
	}
}

// Nothing from E on is reserved at the moment of the mark, and after it only by
// who knows of the try. A number that is not there is made, so that no late seed
// makes one without the mark. Marks of an older try come too late.
func (w Mark) update() update {
	return update{
		set: "SET layout = :try, version = if_not_exists(version, :zero), reserved_until = if_not_exists(reserved_until, :floor)",
		onlyIf: "attribute_not_exists(pool_group) OR version >= :zero AND reserved_until < :from " +
			"AND (attribute_not_exists(layout) OR layout < :try)",
		values: attributes{":try": num(w.Try), ":zero": num(0), ":floor": millis(w.Floor), ":from": millis(w.From)},
	}
}

func num[T int | int64](n T) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(n), 10)}
}

func millis(t time.Time) types.AttributeValue { return num(t.UnixMilli()) }

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func boolean(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

func stringMap(m map[string]string) types.AttributeValue {
	av := attributes{}
	for k, v := range m {
		av[k] = str(v)
	}
	return &types.AttributeValueMemberM{Value: av}
}

// layouts is a list of one entry of the pool's history.
func layouts(e snowflake.Era) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: []types.AttributeValue{
		&types.AttributeValueMemberM{Value: attributes{"from": millis(e.From), "node_bits": num(e.NodeBits)}},
	}}
}
