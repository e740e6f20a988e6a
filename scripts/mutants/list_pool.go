package main

const (
	resize = "pkg/lease/leasepool/resize.go"
	reap   = "pkg/lease/leasepool/reap.go"
	seed   = "pkg/lease/leasepool/seed.go"
	floor  = "pkg/lease/leasepool/floor.go"
)

// The mutants of what is done to a pool: by whoever seeds and resizes it, by the
// reaper, by an operator.
var poolMutants = []mutant{
	{"seed resets an item", dynamo, `set:    "SET version = :zero, reserved_until = :floor",
		onlyIf: "attribute_not_exists(pool_group)",`, `set:    "SET version = :zero, reserved_until = :floor",
		onlyIf: "attribute_not_exists(holder)",`, stores},
	{"seed at 0", dynamo, `":floor": millis(w.Floor)},`, `":floor": num(0)},`, stores},
	{"reap is not pinned to the renewal", dynamo, `onlyIf: "holder = :holder AND version = :version AND renewal = :renewal",`, `onlyIf: "holder = :holder AND version = :version AND :renewal = :renewal",`, stores},
	{"reap is not pinned to the version", dynamo, `onlyIf: "holder = :holder AND version = :version AND renewal = :renewal",`, `onlyIf: "holder = :holder AND :version = :version AND renewal = :renewal",`, stores},
	{"reap is not pinned to the holder", dynamo, `onlyIf: "holder = :holder AND version = :version AND renewal = :renewal",`, `onlyIf: ":holder = :holder AND version = :version AND renewal = :renewal",`, stores},
	{"reap forgets reserved_until", dynamo, `set:    "REMOVE holder, expires_at",
		onlyIf: "holder = :holder`, `set:    "REMOVE holder, expires_at, reserved_until",
		onlyIf: "holder = :holder`, stores},
	{"force release is not pinned", dynamo, `onlyIf: "attribute_exists(holder) AND version = :version",`, `onlyIf: "attribute_exists(holder) AND :version = :version",`, stores},
	{"retire makes an item", dynamo, `u := update{set: "REMOVE retired", onlyIf: "attribute_exists(version)"}`, `u := update{set: "REMOVE retired", onlyIf: "attribute_not_exists(holder) OR attribute_exists(holder)"}`, stores},
	{"raise lowers", dynamo, `onlyIf: "attribute_exists(version) AND reserved_until < :to",`, `onlyIf: "attribute_exists(version) AND :to = :to",`, stores},
	{"seed takes a floor that has passed", floor, `return protocol.Latest(t, now), nil`, `return t, nil`, poolOwn},
	{"seed gives up where it was overtaken", seed, `		if applied {
			return nil
		}
		if g, err`, `		if applied || true {
			return nil
		}
		if g, err`, poolOwn},
	{"the pool's item is written first", seed, `	if err == nil {
		err = p.settle(ctx, &c, c.Pool.Groups(), s.Floor)
	}
	if err != nil || !fresh {
		return c, err
	}
`, `	if err == nil && !fresh {
		err = p.settle(ctx, &c, c.Pool.Groups(), s.Floor)
	}
	if err != nil || !fresh {
		return c, err
	}
	defer func() { err = errors.Join(err, p.settle(ctx, &c, c.Pool.Groups(), s.Floor)) }()
`, poolOwn},
	{"a pool is made again over itself", dynamo, `onlyIf: "attribute_not_exists(pool_group)",
		values: attributes{":format"`, `onlyIf: "attribute_not_exists(holder)",
		values: attributes{":format"`, stores},
	{"resize is not pinned to the size", dynamo, `onlyIf: "item_format = :format AND pool_size = :from",`, `onlyIf: "item_format = :format AND :from = :from",`, stores},
	{"resize of an unknown format", dynamo, `onlyIf: "item_format = :format AND pool_size = :from",`, `onlyIf: ":format = :format AND pool_size = :from",`, stores},
	{"open groups are not pinned", dynamo, `onlyIf: "item_format = :format AND open_groups = :from",`, `onlyIf: "item_format = :format AND :from = :from",`, stores},
	{"resize does not look again", resize, `if now.Size == c.Pool.Size {`, `if now.Size > 0 {`, poolOwn},
	{"retire touches the holder", dynamo, `u.set, u.values = "SET retired = :true",`, `u.set, u.values = "SET retired = :true REMOVE holder, expires_at",`, stores},
	{"raise keeps the holder", dynamo, `set:    "SET reserved_until = :to REMOVE holder, expires_at",`, `set:    "SET reserved_until = :to",`, stores},
	{"raise makes an item", dynamo, `onlyIf: "attribute_exists(version) AND reserved_until < :to",`, `onlyIf: "attribute_not_exists(version) OR reserved_until < :to",`, stores},
	{"reap is pinned to nothing", dynamo, `onlyIf: "holder = :holder AND version = :version AND renewal = :renewal",`, `onlyIf: "attribute_exists(holder) AND :holder = :holder AND :version = :version AND :renewal = :renewal",`, stores},
	{"reap before the expiry", reap, `if l.ExpiresAt.Add(reapAfter).Before(now) {`, `if true {`, poolOwn},
	{"reap without grace", reap, `if l.ExpiresAt.Add(reapAfter).Before(now) {`, `if l.ExpiresAt.Before(now) {`, poolOwn},
	{"reap without brake", reap, `len(r.Due) > brake(r.Held); r.Braked`, `false; r.Braked`, poolOwn},
	{"the brake does not wait", reap, `_ = protocol.Pause(ctx, d.longest)`, `_ = protocol.Pause(ctx, 0)`, poolOwn},
	{"force release forgets reserved_until", dynamo, `set:    "REMOVE holder, expires_at",
		onlyIf: "attribute_exists(holder)`, `set:    "REMOVE holder, expires_at, reserved_until",
		onlyIf: "attribute_exists(holder)`, stores},
}
