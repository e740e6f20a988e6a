package rie_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// deliver sends an event of CloudFormation and returns its only answer. It checks that the
// function fails if and only if it answers FAILED, because its alarm depends on that.
func (w *world) deliver(t *testing.T, kind cfn.RequestType, request, physical string, props, old map[string]any) cfn.Response {
	t.Helper()
	event, err := json.Marshal(map[string]any{
		"RequestType": kind, "RequestId": request, "ResponseURL": w.cloud.URL, "PhysicalResourceId": physical, "LogicalResourceId": "Seed",
		"StackId": "arn:aws:cloudformation:eu-west-1:123456789012:stack/orders/0", "ResourceType": "Custom::NodeleasePool",
		"ResourceProperties": props, "OldResourceProperties": old,
	})
	if err != nil {
		t.Fatal(err)
	}
	before := len(w.cloud.Answers())
	_, failed := w.Invoke(t.Context(), event)
	answers := w.cloud.Answers()
	var a cfn.Response
	if len(answers) != before+1 || json.Unmarshal(answers[before], &a) != nil || a.RequestID != request || a.LogicalResourceID != "Seed" {
		t.Fatalf("%s %s: answers %s, want one more\n%s", kind, request, answers[before:], w.log)
	}
	if (failed != nil) != (a.Status == cfn.StatusFailed) {
		t.Errorf("%s %s: %v with the answer %+v, want a failure with only FAILED", kind, request, failed, a)
	}
	return a
}

func (w *world) place(pool string) string { return "nodelease/" + w.table + "/" + pool }

// size returns the size of a pool, or 0 if there is no such pool.
func (w *world) size(t *testing.T, pool string) int {
	t.Helper()
	p, err := w.store.PoolItem(t.Context(), pool)
	if err != nil && !errors.Is(err, lease.ErrPoolNotSeeded) {
		t.Fatalf("got %v, want lease.ErrPoolNotSeeded", err)
	}
	return p.Size
}

// inEveryOrder calls fn with every order of 0 … n-1.
func inEveryOrder(n int, fn func(order []int)) {
	var rest func(order []int, used int)
	rest = func(order []int, used int) {
		if len(order) == n {
			fn(order)
			return
		}
		for i := range n {
			if used&(1<<i) == 0 {
				rest(append(order[:len(order):len(order)], i), used|1<<i)
			}
		}
	}
	rest(nil, 0)
}

// poolsJSON returns the JSON list of n pools, p0 and so on.
func poolsJSON(t *testing.T, n int) string {
	t.Helper()
	type spec struct {
		Pool string `json:"pool"`
		Size int    `json:"size"`
	}
	all := make([]spec, n)
	for i := range all {
		all[i] = spec{fmt.Sprintf("p%d", i), 4}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var everyOrder = flag.Int("every", 6, "try every Nth order of events, from a random one on; 1 tries all")

// CloudFormation's events may arrive in any order, and late and repeated. Each event gets one
// answer, failures and repeated events change nothing, nothing is ever deleted, and the next
// deployment corrects the size of the pool.
func TestBootstrapInEveryOrder(t *testing.T) {
	w := run(t, "bootstrap", func(env []string) []string {
		return append(env, "NODELEASE_POOLS="+poolsJSON(t, 721)) // declares the pools of all orders, so that none looks like a renamed pool
	})
	// All 720 orders would take minutes, so each run tries another share of them.
	every := *everyOrder
	if testing.Short() {
		every *= 10
	}
	round, share := 0, rand.IntN(every)
	t.Logf("every %dth order, from %d on", every, share)
	inEveryOrder(6, func(order []int) {
		if round++; t.Failed() || round%every != share {
			return
		}
		pool := fmt.Sprintf("p%d", round)
		props := func(size, name string) map[string]any {
			return map[string]any{"Table": w.table, "Pool": name, "Size": size, "ExcludeBelow": "0"}
		}
		handled := map[int]bool{}
		want, ever := 0, 0
		for _, i := range order {
			event := i
			if i == 5 {
				event = 0 // Lambda delivers the first event again
			}
			var a cfn.Response
			status, id := cfn.StatusSuccess, w.place(pool)
			request := fmt.Sprintf("%s-%d", pool, event)
			switch event {
			case 0:
				a = w.deliver(t, cfn.RequestCreate, request, "", props("4", pool), nil)
			case 1:
				a = w.deliver(t, cfn.RequestUpdate, request, id, props("2", pool), props("4", pool))
			case 2: // a new name
				a, status = w.deliver(t, cfn.RequestUpdate, request, id, props("4", pool+"-new"), props("4", pool)), cfn.StatusFailed
			case 3: // impossible
				a, status = w.deliver(t, cfn.RequestUpdate, request, id, props("0", pool), props("4", pool)), cfn.StatusFailed
			case 4: // the deletion of the stack, by a rollback, or of another resource
				a = w.deliver(t, cfn.RequestDelete, request, id, props("4", pool), nil)
			}
			if size := map[int]int{0: 4, 1: 2}[event]; size > 0 && !handled[event] {
				want, ever = size, max(ever, size)
			}
			handled[event] = true
			if a.Status != status || a.PhysicalResourceID != id {
				t.Errorf("order %v, event %d: %+v, want %s for %s", order, i, a, status, id)
			}
			if got := w.size(t, pool); got != want || w.size(t, pool+"-new") != 0 {
				t.Errorf("order %v, after event %d: size %d, and %d of the new name, want %d and none", order, i, got, w.size(t, pool+"-new"), want)
			}
		}
		if a := w.deliver(t, cfn.RequestUpdate, pool+"-next", w.place(pool), props("3", pool), props("2", pool)); a.Status != cfn.StatusSuccess {
			t.Errorf("order %v: the next deployment: %+v", order, a)
		}
		s, err := leasepool.Open(w.store, pool).Stats(t.Context())
		if err != nil || s.Capacity != 3 || s.Retired != max(0, ever-3) {
			t.Errorf("order %v: %+v, %v after the next deployment, want 3 in use and %d retired", order, s, err, max(0, ever-3))
		}
	})
}

// Sequences of events that CloudFormation sends in deployments that go wrong.
func TestBootstrapStories(t *testing.T) {
	w := run(t, "bootstrap", nil)
	n := 0
	step := func(kind cfn.RequestType, physical, pool, size, floor, oldPool string, status cfn.StatusType, id, says string) {
		t.Helper()
		n++
		props := map[string]any{"Table": w.table, "Pool": pool, "Size": size, "ExcludeBelow": "0"}
		if floor != "" {
			props["Floor"] = floor
		}
		a := w.deliver(t, kind, fmt.Sprint("story-", n), physical, props, map[string]any{"Table": w.table, "Pool": oldPool, "Size": "4", "ExcludeBelow": "0"})
		if a.Status != status || a.PhysicalResourceID != id || !strings.Contains(a.Reason, says) {
			t.Errorf("step %d: %+v, want %s for %s and %q", n, a, status, id, says)
		}
	}
	const (
		success, failed = cfn.StatusSuccess, cfn.StatusFailed
		create, update  = cfn.RequestCreate, cfn.RequestUpdate
	)
	a, b := w.place("a"), w.place("b")
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)

	// A first create that fails, its rollback, and the next try.
	step(create, "", "a", "none", "", "", failed, a, "Size")
	step(cfn.RequestDelete, a, "a", "none", "", "", success, a, "")
	step(create, "", "a", "4", "", "", success, a, "")
	// A rename that is refused, and its rollback.
	step(update, a, "b", "4", "", "a", failed, a, "new ID space")
	step(update, a, "a", "4", "", "b", success, a, "")
	// A replacement with a floor, and the clean-up of the old resource.
	step(update, a, "b", "4", soon, "a", success, b, "")
	step(cfn.RequestDelete, a, "a", "4", "", "", success, a, "")
	// The replacement is rolled back after all: an update to the old name, and the clean-up of the new resource.
	step(update, b, "a", "4", "", "b", success, a, "")
	step(cfn.RequestDelete, b, "b", "4", soon, "", success, b, "")
	// A resize that fails in the middle of a deployment, and its rollback.
	step(update, a, "a", "65537", "", "a", failed, a, "65537")
	step(update, a, "a", "4", "", "a", success, a, "")
	if w.size(t, "a") != 4 || w.size(t, "b") != 4 {
		t.Errorf("sizes %d and %d, want 4 of both: nothing is ever deleted", w.size(t, "a"), w.size(t, "b"))
	}
	if l, err := w.store.Get(t.Context(), "b", 0); err != nil || l == nil || time.Until(l.ReservedUntil) < 59*time.Minute {
		t.Errorf("node ID 0 of b begins at %+v, %v, want its floor in an hour", l, err)
	}
}
