package protocol

import (
	"strconv"
	"strings"
)

// update has the expressions and values of an UpdateItem request.
type update struct {
	set    string
	remove string // the part of a pool change that follows its SET
	onlyIf string
	values attributes
}

// The expressions of the writes of node IDs; poolexpressions.go has those of the pool's
// item. In DynamoDB, the right-hand side of an assignment has the values from before the
// write, and a comparison with a missing attribute is false. Every condition names the
// attributes that must exist and their ranges. So a write to a corrupt item is refused
// instead of repairing the item. A condition cannot require that a number is whole:
// decodeLease checks that on the resulting item before the lease is used.

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
		u.values[":metadata"] = encoded(w.Metadata)
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
		u.values[":metadata"] = encoded(w.Metadata)
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
			":previous": encoded(previousItem{w.Session, w.Version, EndReleased}),
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
			":previous": encoded(previousItem{w.Session, w.Version, EndFreed}),
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
			":previous": encoded(previousItem{w.Holder, w.Version, EndExpired}),
		},
	}
}

// An operator frees only the lease that the operator has seen, never a later one.
func (w ForceRelease) update() update {
	return update{
		set:    "SET previous = :previous REMOVE holder, expires_at, taken_from",
		onlyIf: "attribute_exists(holder) AND version = :version",
		values: attributes{":version": num(w.Version), ":previous": encoded(previousItem{w.Holder, w.Version, EndFreed})},
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
