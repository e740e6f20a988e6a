package protocol

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// update has the expressions and values of an UpdateItem request.
type update struct {
	set    string
	remove string // the part of a pool change that follows its SET
	onlyIf string
	values attributes
}

// The expressions of all writes. In DynamoDB, the right-hand side of an assignment has the
// values from before the write, and a comparison with a missing attribute is false. Every
// condition names the attributes that must exist and their ranges. So a write to a corrupt
// item is refused instead of repairing the item. A condition cannot require that a number
// is whole: decodeLease checks that on the resulting item before the lease is used.

// A node ID is seeded only if it has no item at all. Seeding it again would lose the
// record of its stamped milliseconds.
func (w Seed) update() update {
	u := update{
		set:    "SET version = :zero, reserved_until = :floor",
		onlyIf: "attribute_not_exists(pool_group)",
		values: attributes{":zero": num(0), ":floor": millis(w.Floor)},
	}
	if w.WidenTry > 0 {
		u.set += ", widen_try = :try"
		u.values[":try"] = num(w.WidenTry)
	}
	return u
}

// The new span begins where the stored span ended, in the same atomic write, so spans of
// one node ID never overlap, regardless of clocks (S1 of docs/guarantees.md). The guards
// on expires_at and reserved_until are only needed so that at most one process at a time
// believes that it holds the node ID (S2).
func (w Claim) update() update {
	u := update{
		set: "SET holder = :session, task = :task, version = version + :one, renewal = :zero, lease_ms = :ttl, " +
			"expires_at = :expires_at, not_before = reserved_until, reserved_until = :reserved_until, " +
			"taken_from = if_not_exists(holder, :nobody)",
		onlyIf: "version BETWEEN :zero AND :most AND attribute_not_exists(retired) " +
			"AND (attribute_not_exists(holder) OR expires_at < :expired_before) " +
			"AND reserved_until BETWEEN :zero AND :reserved_by",
		values: attributes{
			":session": str(w.Session), ":task": str(w.Task), ":one": num(1), ":zero": num(0), ":ttl": num(w.TTL.Milliseconds()),
			":expires_at": millis(w.ExpiresAt), ":reserved_until": millis(w.ReservedUntil),
			":nobody": str(""), ":most": num(int64(mostEver - 1)), ":expired_before": millis(w.expiredBefore()), ":reserved_by": millis(w.reservedBy()),
		},
	}
	u.onlyIf += u.knows(w.WidenTry)
	var gone []string // attributes that the previous holder may have left
	if w.OnDemand {
		u.set += ", on_demand = :on_demand"
		u.values[":on_demand"] = boolean(true)
	} else {
		gone = append(gone, "on_demand")
	}
	if len(w.Metadata) > 0 {
		u.set += ", metadata = :metadata"
		u.values[":metadata"] = stringMap(w.Metadata)
	} else {
		gone = append(gone, "metadata")
	}
	if len(gone) > 0 {
		u.set += " REMOVE " + strings.Join(gone, ", ")
	}
	return u
}

// knows returns the condition that the item has no mark of a later try than one. Marks
// have numbers from 1 on, so whoever knows no try needs an item without a mark.
func (u update) knows(try int64) string {
	if try == 0 {
		return " AND attribute_not_exists(widen_try)"
	}
	u.values[":first"], u.values[":known"] = num(1), num(try)
	return " AND (attribute_not_exists(widen_try) OR widen_try BETWEEN :first AND :known)"
}

// Only the session and version that hold the node ID renew it. Renewals are applied in
// the order in which they were sent, or not at all, because a late renewal must not lower
// the reservation of a newer one. While the node ID is held, only renewals change
// reserved_until, so a value that the sender never requested comes from a copy of the
// process, and a renewal must not overwrite it.
func (w Renew) update() update {
	u := update{
		set:    "SET expires_at = :expires_at, reserved_until = :reserved_until, renewal = :renewal",
		onlyIf: "holder = :session AND version = :version AND renewal < :renewal",
		values: attributes{
			":session": str(w.Session), ":version": num(w.Version), ":renewal": num(w.Renewal),
			":expires_at": millis(w.ExpiresAt), ":reserved_until": millis(w.ReservedUntil), ":confirmed": millis(w.Confirmed),
		},
	}
	own := "reserved_until = :confirmed"
	for i, until := range w.Asked {
		name := ":asked" + strconv.Itoa(i)
		own += " OR reserved_until = " + name
		u.values[name] = millis(until)
	}
	u.onlyIf += " AND (" + own + ")" + u.knows(w.WidenTry)
	if w.TTL > 0 {
		u.set += ", lease_ms = :ttl"
		u.values[":ttl"] = num(w.TTL.Milliseconds())
	}
	if w.Metadata != nil { // in the same write, not in a second one
		u.set += ", metadata = :metadata"
		u.values[":metadata"] = stringMap(w.Metadata)
	}
	return u
}

// A release frees milliseconds that were reserved but not stamped. So only the holder may
// send it, and only after the fence. It is refused if the item has a later renewal than
// the sender's own: a copy of the process sent that renewal, and may be stamping those
// milliseconds.
func (w Release) update() update {
	return update{
		set:    "SET reserved_until = :reserved_until, previous = :previous REMOVE holder, expires_at, taken_from",
		onlyIf: "holder = :session AND version = :version AND renewal <= :renewal",
		values: attributes{
			":session": str(w.Session), ":version": num(w.Version), ":renewal": num(w.Renewal), ":reserved_until": millis(w.ReservedUntil),
			":previous": previous(w.Session, w.Version, EndReleased),
		},
	}
}

// Two copies of one process hold this lease, and neither may keep it. reserved_until does
// not go back, because no third process may stamp milliseconds that one of the copies can
// still stamp. The item must have the renewal that the sender has seen, so the new
// reserved_until covers everything that the other copy has reserved.
func (w FreeCopy) update() update {
	return update{
		set:    "SET reserved_until = :reserved_until, previous = :previous REMOVE holder, expires_at, taken_from",
		onlyIf: "holder = :session AND version = :version AND renewal = :renewal",
		values: attributes{
			":session": str(w.Session), ":version": num(w.Version), ":renewal": num(w.Renewal), ":reserved_until": millis(w.ReservedUntil),
			":previous": previous(w.Session, w.Version, EndFreed),
		},
	}
}

// A session that does not know whether its claim succeeded has stamped and renewed
// nothing. So if the item has a renewal, it was sent by a copy of the process that was
// made while the outcome of the claim was unknown. That copy may stamp what it reserved,
// so the write is refused.
func (w Abandon) update() update {
	return update{
		set:    "SET reserved_until = not_before REMOVE holder, expires_at",
		onlyIf: "holder = :session AND renewal = :zero",
		values: attributes{":session": str(w.Session), ":zero": num(0)},
	}
}

// Reaping is conditional on the values that were seen, so a holder that has renewed since
// is left alone. version and reserved_until do not change.
func (w Reap) update() update {
	return update{
		set:    "SET previous = :previous REMOVE holder, expires_at, taken_from",
		onlyIf: "holder = :holder AND version = :version AND renewal = :renewal",
		values: attributes{
			":holder": str(w.Holder), ":version": num(w.Version), ":renewal": num(w.Renewal),
			":previous": previous(w.Holder, w.Version, EndExpired),
		},
	}
}

// An operator frees only the lease that the operator has seen, never a later one.
func (w ForceRelease) update() update {
	return update{
		set:    "SET previous = :previous REMOVE holder, expires_at, taken_from",
		onlyIf: "attribute_exists(holder) AND version = :version",
		values: attributes{":version": num(w.Version), ":previous": previous(w.Holder, w.Version, EndFreed)},
	}
}

// Retiring must not create an item, since the new item would be that of a node ID seeded
// at time 0. The write carries the revision of the resize that caused it, and is refused
// if the item has that revision or a later one. So a late write cannot undo a later
// resize.
func (w Retire) update() update {
	u := update{
		set:    "SET resize = :resize REMOVE retired",
		onlyIf: "attribute_exists(version) AND (attribute_not_exists(resize) OR resize < :resize)",
		values: attributes{":resize": num(w.Resize)},
	}
	if w.Retired {
		u.set, u.values[":true"] = "SET retired = :true, resize = :resize", boolean(true)
	}
	return u
}

// A raise never lowers reserved_until.
func (w Raise) update() update {
	return update{
		set:    "SET reserved_until = :to REMOVE holder, expires_at",
		onlyIf: "version BETWEEN :zero AND :most AND reserved_until >= :zero AND reserved_until < :to",
		values: attributes{":to": millis(w.To), ":zero": num(0), ":most": num(int64(mostEver))},
	}
}

// revised completes a change of an existing pool. It adds a condition on the item format,
// so that only releases that support this format change the item, and it increments the
// revision.
func revised(u update) update {
	u.set += ", revision = revision + :one" + u.remove
	u.onlyIf = "item_format = :format AND revision >= :one AND " + u.onlyIf
	u.values[":format"], u.values[":one"] = num(ItemFormat), num(1)
	return u
}

// A pool is created once. If the write arrives late, it finds the item and changes
// nothing, whatever the present state of the pool.
func (w CreatePool) update() update {
	u := update{
		set: "SET item_format = :format, pool_size = :size, open_groups = :open_groups, exclude_below = :exclude_below, created_at = :at, " +
			"revision = :one, floor = :floor",
		onlyIf: "attribute_not_exists(pool_group)",
		values: attributes{
			":format": num(ItemFormat), ":size": num(w.Size), ":open_groups": num(w.OpenGroups), ":exclude_below": num(w.ExcludeBelow),
			":at": millis(w.At), ":one": num(1), ":floor": millis(Latest(w.Floor, time.UnixMilli(0))),
		},
	}
	if w.Layout != nil {
		u.set += ", layout = :layout"
		u.values[":layout"] = layoutMap(*w.Layout)
	}
	if w.Expect > 0 {
		u.set += ", expect = :expect"
		u.values[":expect"] = num(w.Expect)
	}
	if w.NodeBits > 0 {
		u.set += ", eras = :eras, widen_try = :zero, widen_from = :zero, widen_bits = :bits, widen_state = :done, exist_below = :exist_below"
		maps.Copy(u.values, attributes{
			":eras": eraList(snowflake.Era{From: time.UnixMilli(0), NodeBits: w.NodeBits}), ":zero": num(0), ":bits": num(w.NodeBits),
			":done": str(string(WidenDone)), ":exist_below": num(w.ExistBelow),
		})
	}
	return u
}

// Any agent may open a group. The write is conditional on the number of open groups that
// the agent last read, and not on the revision, because the open groups only decide where
// agents search first.
func (w OpenGroups) update() update {
	return revised(update{
		set:    "SET open_groups = :to",
		onlyIf: "open_groups = :from",
		values: attributes{":from": num(w.From), ":to": num(w.To)},
	})
}

// An operator sends this write, and it is conditional on the revision: otherwise a late
// write could close groups that were opened since then and have leases.
func (w ExpectHolders) update() update {
	return revised(update{
		set:    "SET expect = :expect, open_groups = :to",
		onlyIf: "revision = :revision",
		values: attributes{":revision": num(w.Revision), ":expect": num(w.Expect), ":to": num(w.OpenGroups)},
	})
}

// A resize is conditional on the revision, not on the size: a size may recur (8, 4, 8),
// and a late resize must not undo later changes. An agent that binds a layout increments
// the revision too, so a resize cannot miss a layout that has too few node IDs for the new
// size.
func (w ResizePool) update() update {
	return revised(update{
		set:    "SET pool_size = :to, resized_at = :at",
		onlyIf: "revision = :revision",
		values: attributes{":revision": num(w.Revision), ":to": num(w.To), ":at": millis(w.At)},
	})
}

// The floor only grows, so a late or repeated write does not change the effect of a later
// one. It needs no other condition.
func (w RaiseFloor) update() update {
	return revised(update{
		set:    "SET floor = :to",
		onlyIf: "floor < :to",
		values: attributes{":to": millis(w.To)},
	})
}

// The first agent that is about to stamp chooses the layout of the pool, and all other
// agents use it. The layout must have room for every node ID of the pool. While an
// operator replaces a layout, no agent can bind one.
func (w BindLayout) update() update {
	return revised(update{
		set:    "SET layout = :layout",
		onlyIf: "attribute_not_exists(layout) AND attribute_not_exists(layout_before) AND pool_size <= :nodes",
		values: attributes{":layout": layoutMap(w.Layout), ":nodes": num(w.Layout.nodes())},
	})
}

// Between SuspendLayout and ReplaceLayout, both sent by an operator, the pool has no
// layout, so no agent begins to stamp. In the meantime, leasepool.Pool.SetLayout searches
// for claims. Both writes are conditional on the revision.
func (w SuspendLayout) update() update {
	return revised(update{
		set:    "SET layout_before = layout",
		remove: " REMOVE layout",
		onlyIf: "revision = :revision AND attribute_exists(layout) AND attribute_not_exists(layout_final)",
		values: attributes{":revision": num(w.Revision)},
	})
}

// A layout that is marked as final stays: SuspendLayout, the only write that removes a
// layout, requires that the layout is not marked. While an operator replaces a layout,
// there is none to mark. The mark increments the revision, because older releases ignore
// the mark. If an operator with an older release searched for claims before the mark,
// SuspendLayout is refused because of its revision; if after the mark, the search finds
// the claim.
func (w FinalizeLayout) update() update {
	return revised(update{
		set:    "SET layout_final = :true",
		onlyIf: "revision = :revision AND attribute_exists(layout) AND attribute_not_exists(layout_final)",
		values: attributes{":revision": num(w.Revision), ":true": boolean(true)},
	})
}

func (w ReplaceLayout) update() update {
	return revised(update{
		set:    "SET layout = :layout",
		remove: " REMOVE layout_before",
		onlyIf: "revision = :revision AND attribute_exists(layout_before) AND pool_size <= :nodes",
		values: attributes{":revision": num(w.Revision), ":layout": layoutMap(w.Layout), ":nodes": num(w.Layout.nodes())},
	})
}

// The writes that change a width: widening.go explains how they work together.

// Once a new try has begun, the previous try can no longer be committed. E, the beginning
// of the new width, is later than every reservation on the node IDs below exist_below,
// so the write is conditional on exist_below. While the try is open, no node IDs are
// added.
func (w BeginWiden) update() update {
	return revised(update{
		set:    "SET widen_try = :try, widen_from = :from, widen_bits = :bits, widen_state = :open",
		onlyIf: "widen_try = :before AND widen_state = :seen AND exist_below = :exist_below",
		values: attributes{
			":exist_below": num(w.ExistBelow),
			":try":         num(w.Try), ":before": num(w.Try - 1), ":seen": str(string(w.Seen)),
			":from": millis(w.From), ":bits": num(w.Bits), ":open": str(string(WidenOpen)),
		},
	})
}

// A try is either voided or committed, never both: both writes require that it is still
// open.
func (w VoidWiden) update() update {
	return revised(update{
		set:    "SET widen_state = :void",
		onlyIf: "widen_try = :try AND widen_state = :open",
		values: attributes{":try": num(w.Try), ":open": str(string(WidenOpen)), ":void": str(string(WidenVoid))},
	})
}

// A width takes effect only by a commit. The conditions on widen_from and widen_bits
// ensure that this is the width of the try whose marks the sender has seen.
func (w CommitWiden) update() update {
	return revised(update{
		set: "SET eras = list_append(eras, :era), widen_state = :done",
		onlyIf: "widen_try = :try AND widen_state = :open " +
			"AND widen_from = :from AND widen_bits = :bits",
		values: attributes{
			":try": num(w.Try), ":open": str(string(WidenOpen)), ":done": str(string(WidenDone)),
			":from": millis(w.From), ":bits": num(w.Bits), ":era": eraList(snowflake.Era{From: w.From, NodeBits: w.Bits}),
		},
	})
}

// No node IDs are added while a try is open, because its widener has already decided which
// node IDs to mark.
func (w AddNodeIDs) update() update {
	return revised(update{
		set:    "SET exist_below = :to",
		onlyIf: "exist_below = :from AND widen_try = :try AND widen_state <> :open",
		values: attributes{":from": num(w.From), ":to": num(w.To), ":try": num(w.Try), ":open": str(string(WidenOpen))},
	})
}

// A mark is refused if any millisecond from w.From on is already reserved. After the mark,
// only agents that have seen this try may reserve such milliseconds. If the item is
// missing, the mark creates it, so that a late seed does not create it without the mark.
// Marks of an older try are refused.
func (w Mark) update() update {
	u := update{
		set:    "SET widen_try = :try, version = if_not_exists(version, :zero), reserved_until = if_not_exists(reserved_until, :floor)",
		onlyIf: "attribute_not_exists(pool_group) OR version BETWEEN :zero AND :most AND reserved_until >= :zero AND reserved_until < :from",
		values: attributes{":most": num(int64(mostEver)), ":try": num(w.Try), ":zero": num(0), ":floor": millis(w.Floor), ":from": millis(w.From)},
	}
	u.onlyIf += u.knows(w.Try - 1)
	return u
}
