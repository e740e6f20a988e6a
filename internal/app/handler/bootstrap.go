package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Bootstrap seeds and resizes pools, as a custom resource of CloudFormation and
// by direct invocation.
type Bootstrap struct {
	Table string
	Store lease.Store
	// Pools are all pools that the stack declares, if known.
	Pools []Spec
	// Setup is the error because of which there is no Store. The function reports it to
	// CloudFormation: if the function ended without an answer, the deployment would wait
	// until its time-out.
	Setup error

	mu       sync.Mutex
	answered map[string]answer // by CloudFormation's RequestId
}

// Handle executes an event of CloudFormation (which has a RequestType) or a direct request,
// {"Pool": "orders", "Size": 1024, "ExcludeBelow": 0, "Floor": "…"}.
func (b *Bootstrap) Handle(ctx context.Context, event json.RawMessage) (any, error) {
	var e cfn.Event
	if err := json.Unmarshal(event, &e); err == nil && e.RequestType != "" {
		return nil, b.answerFor(ctx, e)
	}
	r, err := decodeRequest(event, true)
	if err != nil {
		return nil, err
	}
	return b.ensure(ctx, r)
}

// resource executes an event of CloudFormation: create and update bring the pool to its
// declared state, and delete keeps the pool. The physical ID names the pool and its table,
// so a different pool or table is a different resource. When CloudFormation deletes the old
// resource, the old pool is kept.
func (b *Bootstrap) resource(ctx context.Context, e cfn.Event) (id string, data map[string]any, err error) {
	if e.RequestType == cfn.RequestDelete { // includes the rollback of a failed create
		logger(ctx).Info("kept", "id", e.PhysicalResourceID)
		return e.PhysicalResourceID, nil, nil
	}
	name, _ := e.ResourceProperties["Pool"].(string)
	id = fmt.Sprintf("nodelease/%s/%.64s", protocol.TableName(b.Table), name)
	if e.RequestType == cfn.RequestUpdate {
		defer func() {
			if err != nil { // a failed resource does not replace anything
				id = e.PhysicalResourceID
			}
		}()
	} else if e.RequestType != cfn.RequestCreate {
		return id, nil, fmt.Errorf("RequestType is %q, want Create, Update or Delete", e.RequestType)
	}
	text, err := json.Marshal(e.ResourceProperties)
	if err != nil {
		return id, nil, err
	}
	r, err := decodeRequest(text, false)
	if err != nil {
		return id, nil, err
	}
	if b.Setup != nil {
		return id, nil, b.Setup
	}
	if table := e.ResourceProperties["Table"]; table != nil && table != b.Table && table != protocol.TableName(b.Table) {
		return id, nil, fmt.Errorf("the resource belongs to table %q, but this function manages table %q: deploy both from one stack", table, b.Table)
	}
	if e.RequestType == cfn.RequestUpdate && e.PhysicalResourceID != id {
		if err := b.mayMove(ctx, e, r); err != nil {
			return id, nil, err
		}
	} else if err := b.mayAdd(ctx, r); err != nil {
		return id, nil, err
	}
	c, err := b.ensure(ctx, r)
	if err != nil {
		return id, nil, err
	}
	return id, map[string]any{"Pool": r.Pool, "Size": c.Pool.Size, "Seeded": c.Seeded, "Retired": c.Retired, "Restored": c.Restored}, nil
}

// mayMove refuses to seed a pool that replaces a different one. A pool in a different
// table, or with a different name, has an ID space of its own: if seeded at the present
// moment, the new pool would assign milliseconds that processes of the old pool still have
// reserved. A pool that already exists, such as one to which a rollback returns, is
// accepted: it keeps its reservations.
func (b *Bootstrap) mayMove(ctx context.Context, e cfn.Event, r request) error {
	// Invariant (S1): neither an old Floor counts, nor the earlier one in another form.
	var before moment
	if text, err := json.Marshal(e.OldResourceProperties["Floor"]); err != nil || before.UnmarshalJSON(text) != nil {
		before = moment{}
	}
	if r.recent() && !time.Time(r.Floor).Equal(time.Time(before)) {
		return nil
	}
	if missing, err := b.missing(ctx, r.Pool); err != nil || !missing {
		return err
	}
	return fmt.Errorf("this update moves %s to table %q, pool %q, which is a new ID space: processes of the old one can make IDs until their reservations end, "+
		"and a pool seeded now could make equal ones. Keep the table's and the pool's name; or stop the old fleet and set Floor to a time after its last ID; "+
		"or set Floor to a time after all reservations of the old pool (nodelease list shows them). A Floor of more than %d days ago is no answer", e.PhysicalResourceID, b.Table, r.Pool, oldFloor/(24*time.Hour))
}

// missing reports whether the pool does not exist in the table.
func (b *Bootstrap) missing(ctx context.Context, pool string) (bool, error) {
	read := func(ctx context.Context) (leasepool.Item, error) { return b.Store.PoolItem(ctx, pool) }
	_, err := inTime(ctx, func(ctx context.Context) (leasepool.Item, error) {
		return riding(ctx, func(ctx context.Context) (leasepool.Item, error) { return protocol.Retry(ctx, read) })
	})
	if errors.Is(err, lease.ErrPoolNotSeeded) {
		return true, nil
	}
	return false, err
}

// oldFloor is the age from which a Floor no longer satisfies mayMove or mayAdd. It leaves time
// for a deployment that goes from stage to stage.
const oldFloor = 30 * 24 * time.Hour

// recent reports whether the request has a Floor that can satisfy mayMove or mayAdd.
func (r request) recent() bool { return time.Time(r.Floor).After(time.Now().Add(-oldFloor)) }

// mayAdd refuses to seed a new pool without a new Floor if the table has a pool that the
// stack no longer declares, because the new pool may be a renamed one: CloudFormation sends
// the Create of a new resource first, and the Delete of the old resource only later. See
// mayMove for the consequences.
func (b *Bootstrap) mayAdd(ctx context.Context, r request) error {
	// Invariant (S1): an old Floor does not count. The pool may have had it under its old name already,
	// and a Create, unlike an Update, does not show that.
	if len(b.Pools) == 0 || r.recent() {
		return nil
	}
	if missing, err := b.missing(ctx, r.Pool); err != nil || !missing {
		return err
	}
	names, err := inTime(ctx, func(ctx context.Context) ([]string, error) {
		return riding(ctx, func(ctx context.Context) ([]string, error) { return leasepool.Names(ctx, b.Store) })
	})
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return name == r.Pool || slices.ContainsFunc(b.Pools, func(s Spec) bool { return s.Pool == name })
	})
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("pool %q is new, and table %q has the pools %q, which this stack does not declare. If it takes the place of one of them, it is a new ID space: "+
		"processes of the old one can make IDs until their reservations end, and a pool seeded now could make equal ones. "+
		"Keep the pool's name; or stop the old fleet and set Floor to a time after its last ID. If it has nothing to do with them, set Floor to the present time. "+
		"A Floor of more than %d days ago does not count, since the pool may have had it under its old name", r.Pool, b.Table, names, oldFloor/(24*time.Hour))
}

// ensure brings the pool to the state that r declares, whether or not the pool exists.
func (b *Bootstrap) ensure(ctx context.Context, r request) (leasepool.Changes, error) {
	if b.Setup != nil {
		return leasepool.Changes{}, b.Setup
	}
	c, err := inTime(ctx, func(ctx context.Context) (leasepool.Changes, error) { return b.change(ctx, r) })
	log := logger(ctx).With("pool", r.Pool, "size", r.Size, "seeded", c.Seeded, "retired", c.Retired, "restored", c.Restored,
		"finishing", c.Finishing, "corrupt", c.Corrupt)
	if err != nil {
		log.Error("bootstrap failed", "error", err.Error())
		return c, fmt.Errorf("pool %q: %d node IDs seeded, %d retired, %d restored, then: %w", r.Pool, c.Seeded, c.Retired, c.Restored, err)
	}
	log.Info("bootstrapped")
	return c, nil
}

// inTime runs fn, and returns early enough to answer even if a call hangs or panics.
func inTime[T any](ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	ctx, cancel := budget(ctx)
	defer cancel()
	type outcome struct {
		v   T
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil {
				logger(ctx).Error("panic", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				o.err = fmt.Errorf("panic: %v: see the function's log", p)
			}
			done <- o
		}()
		o.v, o.err = fn(ctx)
	}()
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		select { // operations that end with their context report their progress
		case o = <-done:
		case <-time.After(time.Second):
			o.err = context.Cause(ctx)
		}
	}
	return o.v, o.err
}

// change resizes the pool if it exists, and seeds it otherwise.
func (b *Bootstrap) change(ctx context.Context, r request) (leasepool.Changes, error) {
	pool := leasepool.Open(b.Store, r.Pool)
	last := time.Now()
	pool.Progress = func(done, total int) {
		if time.Since(last) > 5*time.Second {
			last = time.Now()
			logger(ctx).Info("progress", "pool", r.Pool, "groups_done", done, "groups", total)
		}
	}
	spec := leasepool.Spec{Size: int(r.Size), ExcludeBelow: int(r.ExcludeBelow), Floor: time.Time(r.Floor), Layout: r.Layout.Layout, Narrow: bool(r.Narrow), Expect: int(r.Expect)}
	c, err := riding(ctx, func(ctx context.Context) (leasepool.Changes, error) {
		c, err := pool.Resize(ctx, spec)
		if errors.Is(err, lease.ErrPoolNotSeeded) {
			return pool.Seed(ctx, spec)
		}
		return c, err
	})
	if err == nil {
		// Invariant (S1): the table's index has every pool of the stack. mayAdd finds a renamed one there,
		// and a task without permission to write the index may have seeded it.
		if failed := pool.Record(ctx); failed != nil {
			logger(ctx).Warn("the pool was not added to the table's index, so that renaming it may not be noticed; the next update tries again", "pool", r.Pool, "error", failed.Error())
		}
		// A fleet may start before the reaper's first run.
		if _, failed := pool.Tend(ctx); failed != nil {
			logger(ctx).Warn("the table was not vouched for; the reaper's next run tries again", "pool", r.Pool, "error", failed.Error())
		}
	}
	return c, err
}

// propagation is how long a role's new policy may take to come into force everywhere.
// CloudFormation calls this function right after it has changed the policy.
const propagation = time.Minute

// riding repeats fn while its requests are denied, for as long as it may take until a new
// policy is in force.
func riding[T any](ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	end := time.Now().Add(propagation)
	for n := 0; ; n++ {
		v, err := fn(ctx)
		if !errors.Is(err, lease.ErrAccess) {
			return v, err
		}
		if time.Now().After(end) {
			return v, fmt.Errorf("denied for %v, longer than a new policy needs to take effect: %w", propagation, err)
		}
		logger(ctx).Warn("denied: a new policy may not be in force yet, trying again", "error", err.Error())
		if ended := protocol.Pause(ctx, protocol.LongestBackoff(n+2)); ended != nil {
			return v, errors.Join(err, ended)
		}
	}
}

// request is a direct invocation, or the properties of the custom resource.
type request struct {
	Pool               string
	Size, ExcludeBelow whole
	Expect             whole
	Floor              moment
	Layout             layout
	Narrow             flag
}

// decodeRequest decodes a request. If strict is set, it refuses unknown fields, which
// people may have mistyped. It is not set for CloudFormation, which adds properties of its
// own.
func decodeRequest(text []byte, strict bool) (r request, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("request %.200s: give {\"Pool\": \"orders\", \"Size\": 1024, \"ExcludeBelow\": 0, \"Floor\": \"2026-01-02T15:04:05Z\"}: %w", text, err)
	}
	return r, nil
}

// whole is a whole number, which CloudFormation sends as a string.
type whole int

// UnmarshalJSON implements [json.Unmarshaler].
func (w *whole) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(unquote(b), (*int)(w))
}

// layout is a layout that is unmarshaled from a string in the format of
// [leasepool.ParseLayout]. An empty string means no layout.
type layout struct{ snowflake.Layout }

// UnmarshalJSON implements [json.Unmarshaler].
func (l *layout) UnmarshalJSON(b []byte) (err error) {
	var text string
	if err := json.Unmarshal(b, &text); err != nil || text == "" {
		return err
	}
	l.Layout, err = leasepool.ParseLayout(text)
	return err
}

// flag is true or false, which CloudFormation sends as a string.
type flag bool

// UnmarshalJSON implements [json.Unmarshaler].
func (f *flag) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(unquote(b), (*bool)(f))
}

// moment is a time in RFC 3339, or in milliseconds of the Unix epoch, as a number or a
// string. An empty string means no time.
type moment time.Time

// UnmarshalJSON implements [json.Unmarshaler].
func (m *moment) UnmarshalJSON(b []byte) error {
	text := unquote(b)
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	var ms int64
	if err := json.Unmarshal(text, &ms); err == nil {
		*m = moment(time.UnixMilli(ms).UTC())
		return nil
	}
	return json.Unmarshal(b, (*time.Time)(m))
}

func unquote(b []byte) []byte { return []byte(strings.Trim(string(b), `"`)) }
