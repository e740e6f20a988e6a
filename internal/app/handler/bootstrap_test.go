package handler

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// inUse counts the node IDs of the pool orders that are in use, and those that are retired.
func inUse(t *testing.T, s lease.Store) [2]int {
	t.Helper()
	stats, err := leasepool.Open(s, "orders").Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return [2]int{stats.Capacity, stats.Retired}
}

// A stack is created, made smaller, deleted and created again. Each event arrives twice,
// since Lambda may deliver it twice.
func TestBootstrapCloudFormation(t *testing.T) {
	logged, c := logs(t), newCloudformation(t)
	store := leasetest.NewMemory("", 0)
	b := &Bootstrap{Table: "nodelease", Store: store}
	for _, step := range []struct {
		event string
		want  [2]int
	}{
		{"bootstrap-create", [2]int{1024, 0}}, {"bootstrap-create", [2]int{1024, 0}},
		{"bootstrap-update", [2]int{512, 512}}, {"bootstrap-update", [2]int{512, 512}},
		{"bootstrap-delete", [2]int{512, 512}}, {"bootstrap-delete", [2]int{512, 512}},
		{"bootstrap-create", [2]int{512, 512}}, // late: this event was answered before
		{"bootstrap-create again", [2]int{1024, 0}},
	} {
		name, again := strings.CutSuffix(step.event, " again")
		text := event(t, name, c.URL)
		if again {
			text = json.RawMessage(strings.ReplaceAll(string(text), "6d8ff6fb-0001", "6d8ff6fb-0004"))
		}
		if _, err := b.Handle(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		a := c.answer(t)
		if a.Status != cfn.StatusSuccess || a.PhysicalResourceID != "nodelease/nodelease/orders" || a.LogicalResourceID != "Nodesseedorders" || !strings.HasPrefix(a.RequestID, "6d8ff6fb") {
			t.Errorf("%s: %+v", step.event, a)
		}
		if got := inUse(t, store); got != step.want {
			t.Errorf("after %s: %v node IDs in use and retired, want %v", step.event, got, step.want)
		}
	}
	if !strings.Contains(logged(), `"msg":"bootstrapped","pool":"orders","size":512,"seeded":0,"retired":512`) {
		t.Errorf("logs: %s", logged())
	}
}

// Whatever goes wrong, CloudFormation receives an answer, with an ID that a rollback can
// use.
func TestBootstrapFailures(t *testing.T) {
	broken := func(err error) lease.Store {
		s := leasetest.NewMemory("", 0)
		s.SetOutage(err)
		return s
	}
	panics := meddled{leasetest.NewMemory("", 0), func(context.Context, string, int) error { return nil }}
	panicking := panicStore{panics}
	change := func(key string, value any) func(map[string]any) {
		return func(props map[string]any) {
			if props[key] = value; value == nil {
				delete(props, key)
			}
		}
	}
	for _, c := range []struct {
		name   string
		event  string
		store  lease.Store
		setup  error
		change func(map[string]any)
		says   string
		id     string
	}{
		{name: "no configuration", event: "bootstrap-create", setup: errors.New("NODELEASE_TABLE is empty"), says: "NODELEASE_TABLE"},
		{name: "no table", event: "bootstrap-create", store: broken(lease.ErrTable), says: "table unusable"},
		{name: "an error that is too long", event: "bootstrap-create", setup: errors.New(strings.Repeat("long", 2000)), says: "longlong"},
		{name: "panic", event: "bootstrap-create", store: panicking, says: "panic: boom: see the function's log"},
		{name: "a size as text", event: "bootstrap-create", change: change("Size", "many"), says: `"Size": 1024`},
		{name: "a fractional size", event: "bootstrap-create", change: change("Size", 1.5), says: "1.5"},
		{name: "no size", event: "bootstrap-create", change: change("Size", nil), says: "size 0"},
		{name: "no pool", event: "bootstrap-create", change: change("Pool", nil), says: "pool name", id: "nodelease/nodelease/"},
		{name: "a pool that is a list", event: "bootstrap-create", change: change("Pool", []string{"a"}), says: "Pool", id: "nodelease/nodelease/"},
		{name: "a floor as text", event: "bootstrap-create", change: change("Floor", "yesterday"), says: "yesterday"},
		{name: "a floor in seconds", event: "bootstrap-create", change: change("Floor", "1767225600"), says: "before 2000"},
		{name: "too large", event: "bootstrap-update", change: change("Size", "65537"), says: "65537"},
		{name: "excluded node IDs changed", event: "bootstrap-update", store: leasetest.NewMemory("orders", 1024), change: change("ExcludeBelow", "5"), says: "reserved"},
		{name: "renamed, and failed", event: "bootstrap-update", store: broken(lease.ErrTable), change: change("Pool", "users"), says: "table unusable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			logs(t)
			cf := newCloudformation(t)
			var e map[string]any
			if err := json.Unmarshal(event(t, c.event, cf.URL), &e); err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				c.change(e["ResourceProperties"].(map[string]any))
			}
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if c.store == nil {
				c.store = leasetest.NewMemory("", 0)
			}
			// The function fails too, so that its own alarm fires.
			_, err = (&Bootstrap{Table: "nodelease", Store: c.store, Setup: c.setup}).Handle(t.Context(), text)
			errorHas(t, err, c.says)
			if c.id == "" {
				c.id = "nodelease/nodelease/orders"
			}
			a := cf.answer(t)
			if a.Status != cfn.StatusFailed || a.PhysicalResourceID != c.id || !strings.Contains(a.Reason, c.says) {
				t.Errorf("%+v, want FAILED, id %q and %q", a, c.id, c.says)
			}

			// The rollback deletes the resource that was not created, which needs no table.
			e["RequestType"], e["PhysicalResourceId"] = "Delete", a.PhysicalResourceID
			if text, err = json.Marshal(e); err != nil {
				t.Fatal(err)
			}
			if _, err := (&Bootstrap{Setup: errors.New("no store")}).Handle(t.Context(), text); err != nil {
				t.Fatal(err)
			}
			if a := cf.answer(t); a.Status != cfn.StatusSuccess || a.PhysicalResourceID != c.id {
				t.Errorf("rollback: %+v", a)
			}
		})
	}
}

type panicStore struct{ meddled }

func (panicStore) PoolItem(context.Context, string) (leasepool.Item, error) { panic("boom") }

// An answer that does not reach CloudFormation is an error of the function.
func TestBootstrapAnswerFails(t *testing.T) {
	logs(t)
	b := &Bootstrap{Table: "nodelease", Store: leasetest.NewMemory("", 0)}
	if _, err := b.Handle(t.Context(), event(t, "bootstrap-delete", "http://127.0.0.1:1/")); err == nil {
		t.Error("no error")
	}
}

func TestBootstrapUnknownRequest(t *testing.T) {
	logs(t)
	c := newCloudformation(t)
	text := strings.ReplaceAll(string(event(t, "bootstrap-create", c.URL)), `"Create"`, `"Upsert"`)
	_, err := (&Bootstrap{}).Handle(t.Context(), json.RawMessage(text))
	errorHas(t, err, "Upsert")
	if a := c.answer(t); a.Status != cfn.StatusFailed || !strings.Contains(a.Reason, "Upsert") {
		t.Errorf("%+v", a)
	}
}

func TestBootstrapDirect(t *testing.T) {
	logs(t)
	store := leasetest.NewMemory("", 0)
	b := &Bootstrap{Table: "nodelease", Store: store}
	for _, request := range []string{
		string(event(t, "bootstrap", "")),
		`{"Pool":"orders","Size":"1024","ExcludeBelow":"0","Floor":""}`,
		`{"pool":"orders","size":1024,"floor":null}`,
		`{"Pool":"orders","Size":1024,"Floor":"2026-01-02T15:04:05Z"}`,
		`{"Pool":"orders","Size":1024,"Floor":1767225600000}`,
	} {
		got, err := b.Handle(t.Context(), json.RawMessage(request))
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		if c, ok := got.(leasepool.Changes); !ok || c.Pool.Size != 1024 {
			t.Errorf("%s: %+v", request, got)
		}
	}
	for request, says := range map[string]string{
		`null`: "pool name", `"orders"`: "give {", `{"Pool":"orders","Size":8,"Reserved":1}`: "Reserved", `{"Pool":"orders"}`: "size 0",
	} {
		_, err := b.Handle(t.Context(), json.RawMessage(request))
		errorHas(t, err, says)
	}
	if got := inUse(t, store); got != [2]int{1024, 0} {
		t.Errorf("%v node IDs in use and retired", got)
	}
}

// A new pool is narrow if the event requires it; CloudFormation sends that flag as a
// string. An existing pool does not change.
func TestBootstrapNarrow(t *testing.T) {
	logs(t)
	store := leasetest.NewMemory("", 0)
	b := &Bootstrap{Table: "nodelease", Store: store}
	for _, request := range []string{
		`{"Pool":"orders","Size":700,"Narrow":true}`,
		`{"Pool":"orders","Size":"800","Narrow":"true"}`,
	} {
		got, err := b.Handle(t.Context(), json.RawMessage(request))
		if c, ok := got.(leasepool.Changes); err != nil || !ok || len(c.Pool.Eras) != 1 || c.Pool.ExistBelow != 512 {
			t.Errorf("%s: %+v, %v", request, got, err)
		}
	}
	_, err := b.Handle(t.Context(), json.RawMessage(`{"Pool":"orders","Size":800}`))
	errorHas(t, err, "Narrow")
}

// After the seed, the open groups have room for the expected holders. A larger number takes
// effect with the next deployment.
func TestBootstrapExpect(t *testing.T) {
	logs(t)
	b := &Bootstrap{Table: "nodelease", Store: leasetest.NewMemory("", 0)}
	for request, want := range map[string]int{`{"Pool":"orders","Size":1500,"Expect":400}`: 3, `{"Pool":"mail","Size":"1500","Expect":"1500"}`: 6} {
		got, err := b.Handle(t.Context(), json.RawMessage(request))
		if c, ok := got.(leasepool.Changes); err != nil || !ok || c.Pool.OpenGroups != want {
			t.Errorf("%s: %+v, %v", request, got, err)
		}
	}
	got, err := b.Handle(t.Context(), json.RawMessage(`{"Pool":"orders","Size":1500,"Expect":800}`))
	if c, ok := got.(leasepool.Changes); err != nil || !ok || c.Pool.OpenGroups != 5 || c.Pool.Expect != 800 {
		t.Errorf("got %+v, %v, want 5 groups open", got, err)
	}
	_, err = b.Handle(t.Context(), json.RawMessage(`{"Pool":"orders","Size":1500,"Expect":1501}`))
	errorHas(t, err, "1501 holders expected")
}

func TestBootstrapFloor(t *testing.T) {
	logs(t)
	store := leasetest.NewMemory("", 0)
	floor := time.Now().Add(time.Hour).Truncate(time.Millisecond).UTC()
	request, _ := json.Marshal(map[string]any{"Pool": "orders", "Size": 1, "Floor": floor.Format(time.RFC3339Nano)})
	if _, err := (&Bootstrap{Store: store}).Handle(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if l, _ := store.Get(t.Context(), "orders", 0); !l.ReservedUntil.Equal(floor) {
		t.Errorf("reserved until %v, want %v", l.ReservedUntil, floor)
	}
}

// When the function's time is nearly up, it reports its progress to CloudFormation, even if
// a call hangs and ignores its context. The next run continues.
func TestBootstrapTimeIsUp(t *testing.T) {
	for name, obeys := range map[string]bool{"waits": true, "hangs": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs(t)
				memory := leasetest.NewMemory("", 0)
				free := make(chan struct{})
				store := meddled{memory, func(ctx context.Context, _ string, n int) error {
					if n < 2 {
						return nil
					}
					if obeys {
						<-ctx.Done()
						return ctx.Err()
					}
					<-free
					return errors.New("too late")
				}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				_, err := (&Bootstrap{Store: store}).ensure(ctx, request{Pool: "orders", Size: 1024})
				errorHas(t, err, "time is up")
				if took := time.Since(began); took < 50*time.Second || took > 51*time.Second {
					t.Errorf("answered after %v", took)
				}
				if obeys {
					errorHas(t, err, "512 node IDs seeded", "2 of 4 groups")
				}
				close(free)
				synctest.Wait()
				if _, err := (&Bootstrap{Store: memory}).ensure(t.Context(), request{Pool: "orders", Size: 1024}); err != nil {
					t.Error(err)
				}
				if got := inUse(t, memory); got != [2]int{1024, 0} {
					t.Errorf("%v", got)
				}
			})
		})
	}
}
