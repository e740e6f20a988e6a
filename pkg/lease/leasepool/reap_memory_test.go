package leasepool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// faulty is a store that fails a request if fail returns an error for its kind: "pool",
// "group", "write", "recall", "remember" or "forget". If landed is set, a write that
// fails is applied nevertheless.
type faulty struct {
	*leasetest.Memory
	fail   func(call string) error
	landed bool
}

func (s *faulty) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	if err := s.fail("pool"); err != nil {
		return protocol.PoolItem{}, err
	}
	return s.Memory.PoolItem(ctx, pool)
}

func (s *faulty) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	if err := s.fail("group"); err != nil {
		return protocol.Group{}, err
	}
	return s.Memory.Group(ctx, pool, n)
}

func (s *faulty) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	if err := s.fail("write"); err != nil {
		return protocol.Result{}, err
	}
	return s.Memory.Write(ctx, w)
}

func (s *faulty) ReaperMemory(ctx context.Context, pool string) (protocol.ReaperMemory, error) {
	if err := s.fail("recall"); err != nil {
		return protocol.ReaperMemory{}, err
	}
	return s.Memory.ReaperMemory(ctx, pool)
}

func (s *faulty) WriteReaperMemory(ctx context.Context, w protocol.MemoryWrite) (bool, error) {
	call := "remember"
	if _, ok := w.(protocol.Forget); ok {
		call = "forget"
	}
	if err := s.fail(call); err != nil {
		if s.landed {
			_, _ = s.Memory.WriteReaperMemory(ctx, w)
		}
		return false, err
	}
	return s.Memory.WriteReaperMemory(ctx, w)
}

// once returns a fail function that fails the first call of a kind.
func once(kind string) func(string) error {
	var done atomic.Bool
	return func(call string) error {
		if call != kind || done.Swap(true) {
			return nil
		}
		return errors.New("no answer")
	}
}

func never(string) error { return nil }

// crashedPool returns a store with leases of processes that have crashed, and five times
// as many leases of live processes.
func crashedPool(t *testing.T, gone int) *faulty {
	s := &faulty{Memory: leasetest.NewMemory("orders", 256), fail: never}
	for n := range 5 * gone {
		fixture.Hold(t, s, 255-n, time.Now(), 100*time.Hour)
	}
	for n := range gone {
		fixture.Hold(t, s, n, time.Now(), 15*time.Second)
	}
	fixture.Wait(2 * time.Minute)
	return s
}

// A run with an unanswered request is not counted as a scan, even if the request is
// answered when it is retried. The scans before that run become void.
func TestReapErrorsStartOver(t *testing.T) {
	for _, call := range []string{"pool", "group", "recall", "remember", "write"} {
		for _, landed := range []bool{false, true} {
			t.Run(fmt.Sprint(call, " ", landed), func(t *testing.T) {
				fixture.Virtual(t, func(t *testing.T) {
					s := crashedPool(t, 2)
					s.landed = landed
					reap(t, t.Context(), s)
					fixture.Wait(time.Minute)
					s.fail = once(call)
					r, log := reap(t, t.Context(), s)
					if most := map[bool]int{true: 1}[call == "write"]; len(r.Freed) > most || !r.NextLook.IsZero() || !strings.Contains(log, "no answer") {
						t.Errorf("%+v, log %q, want none freed and no next look", r, log)
					}
					if m := remembered(t, s.Memory); m.Look != nil {
						t.Errorf("remembered %+v, want no look", m)
					}
					s.fail = never
					left := 2 - len(r.Freed)
					fixture.Wait(time.Minute)
					if r, _ := reap(t, t.Context(), s); len(r.Freed) != 0 {
						t.Errorf("the first look after the error: freed %v", r.Freed)
					}
					fixture.Wait(time.Minute)
					if r, _ := reap(t, t.Context(), s); len(r.Freed) != left {
						t.Errorf("the second look after the error: freed %v, want %d", r.Freed, left)
					}
				})
			})
		}
	}
}

// After the first write that is not answered, a run frees no more leases.
func TestReapStopsFreeing(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := crashedPool(t, 40)
		reap(t, t.Context(), s)
		fixture.Wait(time.Minute)
		var writes atomic.Int64
		s.fail = func(call string) error {
			if call == "write" {
				if writes.Add(1) == 4 {
					return errors.New("no answer")
				}
				time.Sleep(5 * time.Millisecond) // virtual: the round trip
			}
			return nil
		}
		r, _ := reap(t, t.Context(), s)
		fixture.Wait(time.Minute)
		if len(r.Freed) > 16 || writes.Load() > 16 {
			t.Errorf("freed %v with %d writes, want at most the 16 that were on their way", r.Freed, writes.Load())
		}
	})
}

// A run that got only errors could not record them in the table. The process remembers
// this, and its next run that gets answers is not counted as a scan either.
func TestReapRemembersAnOutage(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := crashedPool(t, 1)
		p := leasepool.Open(s, "orders")
		run := func(limit time.Duration) (leasepool.ReapReport, error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return p.Reap(ctx)
		}
		if r, err := run(time.Minute); err != nil || len(r.Due) != 1 {
			t.Fatal(r, err)
		}
		s.SetOutage(errors.New("away"))
		if r, err := run(time.Minute); err == nil || len(r.Freed) != 0 {
			t.Errorf("in the outage: %+v, %v, want an error", r, err)
		}
		s.SetOutage(nil)
		if r, err := run(time.Minute); err != nil || len(r.Freed) != 0 {
			t.Errorf("after it: %+v, %v, want none freed", r, err)
		}
		fixture.Wait(time.Minute)
		if r, err := run(time.Minute); err != nil || len(r.Freed) != 1 {
			t.Errorf("a minute later: %+v, %v, want one freed", r, err)
		}
	})
}

// Only one of two reapers acts on a scan, and a request that arrives late or twice changes
// nothing.
func TestReapReplays(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := crashedPool(t, 1)
		reap(t, t.Context(), s)
		first := remembered(t, s)
		fixture.Wait(time.Minute)
		other := true
		s.fail = func(call string) error { // another reaper is a moment faster
			if call == "remember" && other {
				other = false
				w := protocol.Remember{Pool: "orders", Seen: first.Revision, New: "other"}
				if applied, err := s.Memory.WriteReaperMemory(t.Context(), w); err != nil || !applied {
					t.Error(applied, err)
				}
			}
			return nil
		}
		if r, _ := reap(t, t.Context(), s); len(r.Freed) != 0 || !r.NextLook.IsZero() {
			t.Errorf("%+v, want nothing freed: another reaper did the scan", r)
		}
		if m := remembered(t, s); m.Revision != "other" {
			t.Errorf("the memory is %+v, want the other reaper's", m)
		}
		for _, w := range []protocol.MemoryWrite{
			protocol.Remember{Pool: "orders", New: first.Revision, Look: first.Look},
			protocol.Remember{Pool: "orders", Seen: first.Revision, New: "late", Look: first.Look},
		} {
			if applied, err := s.WriteReaperMemory(t.Context(), w); err != nil || applied {
				t.Errorf("a replay of %+v: %v, %v, want a refusal", w, applied, err)
			}
		}
	})
}

// tape records the writes of the reaper's memory.
type tape struct {
	*faulty
	writes []protocol.MemoryWrite
}

func (s *tape) WriteReaperMemory(ctx context.Context, w protocol.MemoryWrite) (bool, error) {
	s.writes = append(s.writes, w)
	return s.faulty.WriteReaperMemory(ctx, w)
}

// A void scan does not become valid again if all requests from the time of that scan
// arrive again, in the same order.
func TestReapReplaysOfAReset(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &tape{faulty: crashedPool(t, 1)}
		s.fail = once("group")
		reap(t, t.Context(), s) // resets the memory
		s.fail = never
		if r, _ := reap(t, t.Context(), s); r.NextLook.IsZero() {
			t.Fatalf("%+v, want a first scan", r)
		}
		before := s.writes
		fixture.Wait(time.Minute)
		s.fail = once("group")
		reap(t, t.Context(), s) // resets it again
		s.fail = never
		for _, w := range before {
			if applied, err := s.WriteReaperMemory(t.Context(), w); err != nil || applied {
				t.Errorf("a replay of %+v: %v, %v, want a refusal", w, applied, err)
			}
		}
		if r, _ := reap(t, t.Context(), s); len(r.Freed) != 0 {
			t.Errorf("freed %v by a scan from before the reset", r.Freed)
		}
	})
}

// A stored scan is ignored if its time is from a clock that was far ahead, or if its text
// is not one that a reaper writes.
func TestReapStrangeMemory(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := crashedPool(t, 1)
		reap(t, t.Context(), s)
		age(t, s, -time.Hour)
		if r, _ := reap(t, t.Context(), s); len(r.Freed) != 0 || time.Until(r.NextLook) != 40*time.Second {
			t.Errorf("after a scan in an hour: %+v, want a first scan", r)
		}
		for _, text := range []string{"", "A", "?AAAAA", "A*AAAA", "ggggB", "BAAAA", strings.Repeat("_", 9)} {
			m := remembered(t, s)
			m.Look.Candidates, m.Look.Ended = text, time.Now().Add(-time.Minute)
			if applied, err := s.WriteReaperMemory(t.Context(), protocol.Remember{Pool: "orders", Seen: m.Revision, New: m.Revision + "x", Look: m.Look}); err != nil || !applied {
				t.Fatal(applied, err)
			}
			if r, _ := reap(t, t.Context(), s); len(r.Freed) != 0 || time.Until(r.NextLook) != 40*time.Second {
				t.Errorf("candidates %q: %+v, want a first look", text, r)
			}
		}
	})
}

// A corrupt memory is reset.
func TestReapCorruptMemory(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, client *dynamodb.Client, table string) {
		s := protocol.NewDynamoDB(client, table)
		seeded(t, s, 4, 0, 1)
		fixture.Hold(t, s, 1, time.Now().Add(-2*time.Minute), 15*time.Second)
		for _, wrong := range []map[string]types.AttributeValue{
			{},
			{"revision": &types.AttributeValueMemberN{Value: "1"}},
			{"revision": &types.AttributeValueMemberS{}},
			{"revision": &types.AttributeValueMemberS{Value: "a"}, "looked_at": &types.AttributeValueMemberN{Value: "-1"}},
			{"revision": &types.AttributeValueMemberS{Value: "a"}, "looked_at": &types.AttributeValueMemberN{Value: "1"}, "look_count": &types.AttributeValueMemberN{Value: "3"}},
			{"revision": &types.AttributeValueMemberS{Value: "a"}, "looked_at": &types.AttributeValueMemberS{Value: "now"}},
		} {
			item := map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: "orders#reaper"}, "node_id": &types.AttributeValueMemberN{Value: "0"}}
			for name, v := range wrong {
				item[name] = v
			}
			if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
				t.Fatal(err)
			}
			r, _ := reap(t, t.Context(), s)
			if m := remembered(t, s); len(r.Due) != 1 || len(r.Freed) != 0 || m.Revision == "" || m.Look != nil {
				t.Errorf("after %v: %+v and the memory %+v, want no look", wrong, r, m)
			}
			if r, _ := reap(t, t.Context(), s); r.NextLook.IsZero() {
				t.Errorf("after %v: %+v, want a first look", wrong, r)
			}
		}
	})
}
