package leasepool_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// partitioned is a store with the limits of a table's partitions: each partition accepts
// a thousand writes per second, and up to a thousand at once. The groups are spread over
// the partitions.
type partitioned struct {
	protocol.Store
	partitions int
	mu         sync.Mutex
	paid       map[int]time.Time
	throttled  int
}

var errThrottled = errors.New("throttled")

func (p *partitioned) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	time.Sleep(5 * time.Millisecond) // virtual: the round trip
	p.mu.Lock()
	defer p.mu.Unlock()
	n, now := w.Item().NodeID/protocol.GroupSize%p.partitions, time.Now()
	if p.paid[n].Before(now) {
		p.paid[n] = now
	}
	if p.paid[n].Sub(now) > time.Second {
		p.throttled++
		return protocol.Result{}, errThrottled
	}
	p.paid[n] = p.paid[n].Add(time.Millisecond)
	return p.Store.Write(ctx, w)
}

// The largest pool is seeded in little more than a minute, even if all of it is in one
// partition, and almost without throttled requests. (The bootstrap function has ten
// minutes.) After a sweep was cut off, the next one continues where it stopped.
func TestSeedKeepsToThePace(t *testing.T) {
	for _, partitions := range []int{1, 4} {
		fixture.Virtual(t, func(t *testing.T) {
			s := &partitioned{Store: leasetest.NewMemory("", 0), partitions: partitions, paid: map[int]time.Time{}}
			p := leasepool.Open(s, "orders")
			spec := leasepool.Spec{Size: 65536, ExcludeBelow: 8}
			began := time.Now()
			cut, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			first, err := p.Seed(cut, spec)
			if !errors.Is(err, context.DeadlineExceeded) || first.Seeded < 10_000 {
				t.Fatalf("got %v, %v, want context.DeadlineExceeded", first.Seeded, err)
			}
			rest, err := p.Seed(t.Context(), spec)
			took := time.Since(began)
			t.Logf("%d partitions: %d and %d node IDs in %v, %d throttles", partitions, first.Seeded, rest.Seeded, took, s.throttled)
			if err != nil || first.Seeded+rest.Seeded != 65528 {
				t.Fatal(first.Seeded, rest.Seeded, err)
			}
			if took > 90*time.Second || s.throttled > 65528/50 {
				t.Errorf("%v with %d throttles", took, s.throttled)
			}
		})
	}
}

// units is a client that adds up the read units of queries by DynamoDB's rules: the total
// size of a page's items is rounded up to a multiple of 4 KB, and eventually consistent
// reads cost half.
type units struct {
	protocol.Client
	mu    sync.Mutex
	pages int
	total float64
}

func (u *units) Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := u.Client.Query(ctx, in, opts...)
	if err != nil {
		return nil, err
	}
	bytes := 0
	for _, item := range out.Items {
		bytes += dynamotest.ItemBytes(item)
	}
	cost := float64((bytes + 4095) / 4096)
	if !*in.ConsistentRead {
		cost /= 2
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pages, u.total = u.pages+1, u.total+cost
	return out, nil
}

// When the reaper or poolmetric reads a full group, the cost is what docs/cost.md states:
// at most 12.5 read units, which is enough for items of 400 bytes. With an ECS task's ARN
// and some metadata, items have 340 bytes. The reaper's watermarks take one more page.
// Groups that are not used cost nothing.
func TestUnitsOfALook(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 2,304 items over HTTP: run without -short")
	}
	client := dynamotest.Embedded(t)
	u := &units{Client: client}
	s := protocol.NewDynamoDB(u, dynamotest.CreateTable(t, client))
	p := leasepool.Open(s, "orders")
	if _, err := p.Seed(t.Context(), leasepool.Spec{Size: 2048}); err != nil { // one group is open
		t.Fatal(err)
	}
	now := time.Now()
	fixture.Together(protocol.GroupSize, func(n int) {
		_, err := s.Write(t.Context(), protocol.Claim{
			Key: protocol.Key{Pool: "orders", NodeID: n}, Session: "0197a3e2-7d7c-7b5a-9c5d-3f0d0c1b2a39", At: now.Add(time.Minute), ClaimGuard: time.Second,
			Task: "arn:aws:ecs:eu-central-1:123456789012:task/production-cluster/0123456789abcdef0123456789abcdef",
			TTL:  15 * time.Second, ExpiresAt: now.Add(15 * time.Second), ReservedUntil: now.Add(2 * time.Minute),
			Metadata: map[string]string{"zone": "eu-central-1a", "cluster": "production-cluster", "address": "10.11.12.13"},
		})
		if err != nil {
			t.Error(err)
		}
	})
	if _, err := p.Reap(t.Context()); err != nil { // also reads its watermarks
		t.Fatal(err)
	}
	for name, look := range map[string]func() error{
		"stats": func() error { _, err := p.Stats(t.Context()); return err },
		"due":   func() error { _, err := p.Due(t.Context()); return err },
	} {
		u.pages, u.total = 0, 0
		if err := look(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d pages, %v units", name, u.pages, u.total)
		if u.pages != 2 || u.total < 9 || u.total > 12.5 {
			t.Errorf("%s: %d pages, %v units", name, u.pages, u.total)
		}
	}
}
