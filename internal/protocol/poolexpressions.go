package protocol

import (
	"maps"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// The expressions of the writes of a pool's own item; expressions.go has those of node IDs.

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
		u.values[":layout"] = encoded(*w.Layout)
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
		values: attributes{":layout": encoded(w.Layout), ":nodes": num(w.Layout.nodes())},
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
		values: attributes{":revision": num(w.Revision), ":layout": encoded(w.Layout), ":nodes": num(w.Layout.nodes())},
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
