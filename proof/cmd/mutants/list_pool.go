package main

const (
	resize = "pkg/lease/leasepool/resize.go"
	seed   = "pkg/lease/leasepool/seed.go"
	floor  = "pkg/lease/leasepool/floor.go"
)

// The mutants of changes to a pool: by seeds and resizes, by the
// reaper, by an operator.
var poolMutants = []mutant{
	{"seed resets an item", dynamo, `set:    "SET version = :zero, reserved_until = :floor",
		onlyIf: "attribute_not_exists(pool_group)",`, `set:    "SET version = :zero, reserved_until = :floor",
		onlyIf: "attribute_not_exists(holder)",`, stores},
	{"seed at 0", dynamo, `":floor": millis(w.Floor)},`, `":floor": num(0)},`, stores},
	{"reap is not pinned to the renewal", dynamo, `onlyIf: "holder = :holder AND version = :version AND renewal = :renewal",`, `onlyIf: "holder = :holder AND version = :version AND :renewal = :renewal",`, stores},
	{"reap is not pinned to the version", dynamo, `onlyIf: "holder = :holder AND version = :version AND renewal = :renewal",`, `onlyIf: "holder = :holder AND :version = :version AND renewal = :renewal",`, stores},
	{"reap is not pinned to the holder", dynamo, `onlyIf: "holder = :holder AND version = :version AND renewal = :renewal",`, `onlyIf: ":holder = :holder AND version = :version AND renewal = :renewal",`, stores},
	{"reap forgets reserved_until", dynamo, `set:    "SET previous = :previous REMOVE holder, expires_at, taken_from",
		onlyIf: "holder = :holder`, `set:    "SET previous = :previous REMOVE holder, expires_at, taken_from, reserved_until",
		onlyIf: "holder = :holder`, stores},
	{"force release is not pinned", dynamo, `onlyIf: "attribute_exists(holder) AND version = :version",`, `onlyIf: "attribute_exists(holder) AND :version = :version",`, stores},
	{"retire makes an item", dynamo, `onlyIf: "attribute_exists(version) AND (attribute_not_exists(resize)`, `onlyIf: "(attribute_not_exists(resize)`, stores},
	{"raise lowers", dynamo, `AND reserved_until >= :zero AND reserved_until < :to",`, `AND reserved_until >= :zero AND :to = :to",`, stores},
	{"seed takes a floor that has passed", floor, `return protocol.Latest(t, now), nil`, `return t, nil`, poolOwn},
	{"seed gives up where it was overtaken", seed, `		if applied {
			return nil
		}
		if g, err`, `		if applied || true {
			return nil
		}
		if g, err`, poolOwn},
	{"the pool's item is written first", seed, `		left, err = p.found(ctx, &c, s.Floor)
	} else if`, `		defer func() { _, late := p.found(ctx, &c, s.Floor); err = errors.Join(err, late) }()
	} else if`, poolOwn},
	{"a pool is made again over itself", poolDynamo, `onlyIf: "attribute_not_exists(pool_group)",
		values: attributes{
			":format"`, `onlyIf: "attribute_not_exists(holder)",
		values: attributes{
			":format"`, stores},
	{"resize is not pinned to the revision", poolDynamo, `set:    "SET pool_size = :to, resized_at = :at",
		onlyIf: "revision = :revision",`, `set:    "SET pool_size = :to, resized_at = :at",
		onlyIf: ":revision = :revision",`, stores},
	{"a change of a pool of an unknown format", poolDynamo, `u.onlyIf = "item_format = :format AND revision >= `, `u.onlyIf = ":format = :format AND revision >= `, stores},
	{"open groups are not pinned", poolDynamo, `onlyIf: "open_groups = :from",`, `onlyIf: ":from = :from",`, stores},
	{"retire touches the holder", dynamo, `"SET retired = :true, resize = :resize", boolean`, `"SET retired = :true, resize = :resize REMOVE holder, expires_at", boolean`, stores},
	{"raise keeps the holder", dynamo, `set:    "SET reserved_until = :to REMOVE holder, expires_at",`, `set:    "SET reserved_until = :to",`, stores},
	{"raise makes an item", dynamo, `onlyIf: "version BETWEEN :zero AND :most AND reserved_until >= :zero AND reserved_until < :to",
		values: attributes{":to"`, `onlyIf: "attribute_not_exists(version) AND :most = :most OR reserved_until >= :zero AND reserved_until < :to",
		values: attributes{":to"`, stores},
	{"reap is pinned to nothing", dynamo, `onlyIf: "holder = :holder AND version = :version AND renewal = :renewal",`, `onlyIf: "attribute_exists(holder) AND :holder = :holder AND :version = :version AND :renewal = :renewal",`, stores},
	{"force release forgets reserved_until", dynamo, `set:    "SET previous = :previous REMOVE holder, expires_at, taken_from",
		onlyIf: "attribute_exists(holder)`, `set:    "SET previous = :previous REMOVE holder, expires_at, taken_from, reserved_until",
		onlyIf: "attribute_exists(holder)`, stores},
	{"a seed that was cut off leaves node IDs before the floor", seed, `			return s.begin(ctx, c, item, l)
		})
	})
	return left, err`, `			return nil
		})
	})
	return left, err`, poolOwn},
	{"a resize leaves node IDs that it created before a raise", seed, `if l.NodeID < c.Pool.Size {`, `if l.NodeID < c.Pool.Size || item.Size > 0 {`, poolOwn},
	{"a resize does not mind requests for node IDs that it created", resize, `return node >= min(from, s.Size) && node < max(from, s.Size)`, `return node >= s.Size && node < from`, poolOwn},
	{"a new floor misses what an earlier run creates", "pkg/lease/leasepool/floor.go", `case c.existed == nil || c.existed[l.NodeID]:`, `case c.existed == nil || c.existed[l.NodeID] || item.Size > 0:`, poolOwn},
	{"a run that was cut off leaves what others create below its floor", floor, `	item := c.Pool
	quiet := Open(`, `	item := c.Pool
	item.Size = 0
	quiet := Open(`, poolOwn},
	{"a new floor is silent about a claim before it", "pkg/lease/leasepool/floor.go", `case l.Version > 0 && l.NotBefore.Before(item.Floor):`, `case l.Version < 0:`, poolOwn},
	{"a resize forgets what existed before its floor", resize, `if c.existed = existed; err == nil`, `if c.existed = nil; existed != nil && err == nil`, poolOwn},
	{"a resize does not notice a raise", resize, `(created == nil || !created.Equal(c.Pool.Floor))`, `created == nil`, poolOwn},
	{"seeds of other sizes leave retired node IDs", seed, `if err == nil && left {`, `if err == nil && left && false {`, poolOwn},
	{"a seed retires node IDs of a pool that does not exist yet", seed, `	if err == nil && fresh {
		left, err = p.found(ctx, &c, s.Floor)
	} else if err == nil {`, `	if err == nil && fresh {
		left, err = p.found(ctx, &c, s.Floor)
	}
	if err == nil {`, poolOwn},
	{"a resize ignores the size from which it was asked for", resize, `if s.From != 0 && s.From != from {`, `if s.From < 0 {`, poolOwn},
	{"a resize forgets the requests of an earlier one", seed, `moved != nil && moved(l.NodeID) && l.Resize < item.Revision {`, `moved != nil && false {`, poolOwn},
	{"a raise leaves node IDs to be created", "pkg/lease/leasepool/raise.go", `		return s.seedGroup(ctx, &c, item, n, g, to, func(l protocol.Lease) error { return s.raise(ctx, &c, l, to) })
`, `		for _, l := range g.Leases {
			if err := s.raise(ctx, &c, l, to); err != nil {
				return err
			}
		}
		_ = item
		return ctx.Err()
`, poolOwn},
	{"a raise leaves a holder that renews meanwhile", "pkg/lease/leasepool/raise.go", `if err != nil || res.Applied || res.Lease == nil {`, `if res.Lease != nil || res.Lease == nil {`, poolOwn},
	{"an older run retires what a resize has added", seed, `case now.Size != c.Pool.Size:`, `case now.Size != c.Pool.Size && false:`, poolOwn},
	{"a resize that is refused is silent", seed, `case refused > 0:`, `case refused < 0:`, poolOwn},
	{"a run that a newer change refuses gives up", seed, `case refused > 0 && now.Revision > c.Pool.Revision:`, `case refused < 0:`, poolOwn},
	{"a raise leaves the revision below that of a resize", "pkg/lease/leasepool/raise.go", `if err == nil && resized > item.Revision {`, `if err == nil && resized < item.Revision {`, poolOwn},
	{"a sweep that cannot succeed advises another run", "pkg/lease/leasepool/sweep.go", `if errors.Is(cause, errClaimed) ||`, `if cause == nil ||`, poolOwn},
	{"a layout that stays is an error to who wants it", "pkg/lease/leasepool/layout.go", `if w.Layout == protocol.LayoutOf(l) {`, `if w.Layout == (protocol.IDLayout{}) {`, poolOwn},
}
