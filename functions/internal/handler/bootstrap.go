package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// Bootstrap seeds and resizes pools, as a custom resource of CloudFormation and
// by direct invocation.
type Bootstrap struct {
	Table string
	Store lease.Store
	// Setup is why there is no Store. CloudFormation is told, since a function that
	// ends before it answers holds a deployment until it times out.
	Setup error
}

// Handle takes an event of CloudFormation (which has a RequestType) or a request
// by itself, {"Pool": "orders", "Size": 1024, "ReservedLow": 0, "Floor": "…"}.
func (b *Bootstrap) Handle(ctx context.Context, event json.RawMessage) (any, error) {
	var e cfn.Event
	if err := json.Unmarshal(event, &e); err == nil && e.RequestType != "" {
		return cfn.LambdaWrap(b.resource)(ctx, e)
	}
	r, err := decodeRequest(event, true)
	if err != nil {
		return nil, err
	}
	return b.ensure(ctx, r)
}

// resource answers CloudFormation: create and update make the pool what it should
// be, delete keeps it. The physical ID is the pool's place: with another pool or
// table the resource is another one, and deleting the old one keeps that.
func (b *Bootstrap) resource(ctx context.Context, e cfn.Event) (id string, data map[string]any, err error) {
	if e.RequestType == cfn.RequestDelete { // also the rollback of a failed create
		logger(ctx).Info("kept", "id", e.PhysicalResourceID)
		return e.PhysicalResourceID, nil, nil
	}
	name, _ := e.ResourceProperties["Pool"].(string)
	id = fmt.Sprintf("nodelease/%s/%.64s", b.Table, name)
	if e.RequestType == cfn.RequestUpdate {
		defer func() {
			if err != nil { // what failed replaces nothing
				id = e.PhysicalResourceID
			}
		}()
	} else if e.RequestType != cfn.RequestCreate {
		return id, nil, fmt.Errorf("RequestType is %q: Create, Update and Delete are known", e.RequestType)
	}
	text, err := json.Marshal(e.ResourceProperties)
	if err != nil {
		return id, nil, err
	}
	r, err := decodeRequest(text, false)
	if err != nil {
		return id, nil, err
	}
	c, err := b.ensure(ctx, r)
	if err != nil {
		return id, nil, shorten(err)
	}
	return id, map[string]any{"Pool": r.Pool, "Size": c.Pool.Size, "Seeded": c.Seeded, "Retired": c.Retired, "Restored": c.Restored}, nil
}

// shorten keeps an answer within CloudFormation's 4 KB.
func shorten(err error) error {
	text := err.Error()
	return errors.New(text[:min(len(text), 1000)])
}

// ensure makes the pool what r says, whatever there is. It answers in time, also
// when a call hangs or panics.
func (b *Bootstrap) ensure(ctx context.Context, r request) (leasepool.Changes, error) {
	if b.Setup != nil {
		return leasepool.Changes{}, b.Setup
	}
	ctx, cancel := budget(ctx)
	defer cancel()
	type outcome struct {
		c   leasepool.Changes
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
		o.c, o.err = b.change(ctx, r)
	}()
	var o outcome
	select {
	case o = <-done:
	case <-ctx.Done():
		select { // what ends with its context tells how far it came
		case o = <-done:
		case <-time.After(time.Second):
			o.err = context.Cause(ctx)
		}
	}
	log := logger(ctx).With("pool", r.Pool, "size", r.Size, "seeded", o.c.Seeded, "retired", o.c.Retired, "restored", o.c.Restored,
		"finishing", o.c.Finishing, "corrupt", o.c.Corrupt)
	if o.err != nil {
		log.Error("bootstrap failed", "error", o.err.Error())
		return o.c, fmt.Errorf("pool %q: %d numbers seeded, %d retired, %d restored, then: %w", r.Pool, o.c.Seeded, o.c.Retired, o.c.Restored, o.err)
	}
	log.Info("bootstrapped")
	return o.c, nil
}

// change resizes the pool if there is one, else seeds it.
func (b *Bootstrap) change(ctx context.Context, r request) (leasepool.Changes, error) {
	pool := leasepool.Open(b.Store, r.Pool)
	last := time.Now()
	pool.Progress = func(done, total int) {
		if time.Since(last) > 5*time.Second {
			last = time.Now()
			logger(ctx).Info("progress", "pool", r.Pool, "groups_done", done, "groups", total)
		}
	}
	spec := leasepool.Spec{Size: int(r.Size), ReservedLow: int(r.ReservedLow), Floor: time.Time(r.Floor), Narrow: bool(r.Narrow)}
	c, err := pool.Resize(ctx, spec)
	if errors.Is(err, lease.ErrPoolNotSeeded) {
		return pool.Seed(ctx, spec)
	}
	return c, err
}

// request is a direct invocation, or the properties of the custom resource.
type request struct {
	Pool              string
	Size, ReservedLow whole
	Floor             moment
	Narrow            flag
}

// decodeRequest is strict with people, who mistype names, and lenient with
// CloudFormation, which adds properties of its own.
func decodeRequest(text []byte, strict bool) (r request, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("request %.200s: give {\"Pool\": \"orders\", \"Size\": 1024, \"ReservedLow\": 0, \"Floor\": \"2026-01-02T15:04:05Z\"}: %w", text, err)
	}
	return r, nil
}

// whole is a whole number, which CloudFormation sends as a string.
type whole int

// UnmarshalJSON implements [json.Unmarshaler].
func (w *whole) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(unquote(b), (*int)(w))
}

// flag is true or false, which CloudFormation sends as a string.
type flag bool

// UnmarshalJSON implements [json.Unmarshaler].
func (f *flag) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(unquote(b), (*bool)(f))
}

// moment is RFC 3339, or milliseconds of the Unix epoch, as a number or a string.
// An empty string is none.
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
