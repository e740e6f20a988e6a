package discovery

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/entries"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// After an outage, a reader that reads before the holders have renewed reads again soon,
// whatever MaxAge is, and no other reader relies on its findings. If a holder renews some
// time after the outage, the reader notices after at most the same time again, plus half
// a second, since each answer in doubt is reused for twice as long as the one before. A
// watch adds a twentieth of a second to each of its waits.
func TestInstancesAreBackAfterAnOutage(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		resumed := make(chan struct{}, 1)
		a := w.agent(t, func(c *lease.Config) {
			c.OnEvent = func(e lease.Event) {
				if e.Kind == lease.EventResumed {
					resumed <- struct{}{}
				}
			}
		})
		b := w.agent(t, nil)
		slow := func(c *Config) { c.MaxAge = 40 * time.Second }
		d := w.directory(t, slow)
		register(t, d, a, Service{"orders", at(1)})
		register(t, d, b, Service{"orders", at(2)})
		first, second := service(t, d, "orders"), service(t, w.directory(t, slow), "orders")
		wantPorts(t, first, 1, 2)
		w.kill(b) // a lease that has long been in doubt must not hide a new doubt
		fixture.Wait(20 * time.Second)
		for range 20 {
			wantPorts(t, first, 1)
			fixture.Wait(time.Second)
		}

		w.setOutage(errors.New("away"))
		fixture.Wait(time.Minute)
		watched := follow(t, second)
		w.setOutage(nil)
		over := time.Now()
		wantPorts(t, service(t, w.directory(t, slow), "orders")) // no holder has renewed yet
		_, _ = first.Resolve(t.Context())
		<-resumed // at a random time, since a suspended holder retries at random
		late := min(time.Since(over)+againAfter, longestDoubt)
		late = max(late, time.Until(over.Add(restAfter+restAfter/10))) // a watch pauses after a failure
		fixture.Wait(late + 250*time.Millisecond)
		wantPorts(t, first, 1)
		wantPorts(t, second, 1)
		wantPorts(t, service(t, w.directory(t, slow), "orders"), 1)
		if got := watched(); !slices.Equal(got, []int{1}) {
			t.Errorf("the watch delivered %v, want [1]", got)
		}
	})
}

// A reader's findings contain the time at which a lease ends, but the lease is renewed
// afterwards. A lookup that uses the findings reads again at that time, and misses no
// instance.
func TestAnswerOfAnotherReaderRunsOut(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		slow := func(c *Config) { c.MaxAge = 40 * time.Second }
		d := w.directory(t, slow)
		register(t, d, a, Service{"orders", at(1)})
		wantPorts(t, service(t, d, "orders"), 1)
		left, err := w.store.Get(t.Context(), "orders#svc#orders", sharedNode)
		if err != nil {
			t.Fatal(err)
		}
		ends := time.UnixMilli(left.Leases[strconv.Itoa(a.NodeID())].Ends)
		l := service(t, w.directory(t, slow), "orders")
		fixture.Wait(time.Until(ends) - 100*time.Millisecond)
		wantPorts(t, l, 1)
		fixture.Wait(200 * time.Millisecond)
		wantPorts(t, l, 1)
	})
}

// follow watches a lookup, and returns the newest list as ports.
func follow(t *testing.T, l *Lookup) (newest func() []int) {
	t.Helper()
	lists := make(chan []int, 100)
	ctx := t.Context()
	go func() {
		for list := range l.Watch(ctx) {
			lists <- portsOf(list)
		}
	}()
	var last []int
	return func() []int {
		for len(lists) > 0 {
			last = <-lists
		}
		return last
	}
}

// The lease of an instance that has died is read less and less often, down to once in
// five seconds, until the reaper frees it.
func TestDoubtIsCheap(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a, b := w.agent(t, nil), w.agent(t, nil)
		d := w.directory(t, nil)
		register(t, d, a, Service{"orders", at(1)})
		register(t, d, b, Service{"orders", at(2)})
		l := service(t, d, "orders")
		wantPorts(t, l, 1, 2)
		w.kill(a)
		fixture.Wait(time.Minute)
		before, published := w.store.queries, w.store.published
		for range 600 {
			fixture.Wait(100 * time.Millisecond)
			wantPorts(t, l, 2)
		}
		if got := w.store.queries - before; got > 16 {
			t.Errorf("%d queries in a minute, want one in %v at most after the first", got, longestDoubt)
		}
		if got := w.store.published - published; got != 0 {
			t.Errorf("%d answers in doubt were stored for others, want 0", got)
		}
	})
}

// A process can call Leave with a context that has already ended.
func TestLeaveAfterTheContextEnded(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		d := w.directory(t, nil)
		register(t, d, a, Service{"orders", at(1)})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.Leave(ctx, a); err != nil {
			t.Errorf("Leave returned %v, want nil", err)
		}
		if left := w.left(); len(left) != 0 {
			t.Errorf("entries left: %v, want none", left)
		}
		register(t, d, a, Service{"orders", at(1)})
		w.setOutage(errors.New("away"))
		if err := d.Leave(ctx, a); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Leave in an outage returned %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// A reader whose clock is a year ahead costs the other readers only one read: the next
// reader replaces the findings of the reader that is ahead.
func TestReaderWithItsClockAhead(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		w := newWorld(8)
		a := w.agent(t, nil)
		d := w.directory(t, nil)
		register(t, d, a, Service{"orders", at(1)})
		wantPorts(t, service(t, d, "orders"), 1)
		found, err := w.store.Get(t.Context(), "orders#svc#orders", sharedNode)
		if err != nil {
			t.Fatal(err)
		}
		ahead := time.Now().AddDate(1, 0, 0).UnixMilli()
		found.Version, found.ReadAt, found.Leases = found.Version+1, ahead, map[string]finding{strconv.Itoa(a.NodeID()): {Version: 1, Ends: ahead}}
		if _, applied, err := w.store.Write(t.Context(), "orders#svc#orders", found); err != nil || !applied {
			t.Fatal(applied, err)
		}
		published := w.store.published
		looked := 0
		for range 50 {
			reader := w.directory(t, nil)
			wantPorts(t, service(t, reader, "orders"), 1)
			looked += len(reader.groups)
		}
		if got := w.store.published - published; looked != 1 || got != 1 {
			t.Errorf("50 readers read leases %d times and stored findings %d times, want once each", looked, got)
		}
	})
}

// An entry that Register would not write is not used: its address is not returned to a
// caller, who would dial it. The entry is logged.
func TestAddressesAreCheckedWhenRead(t *testing.T) {
	client := dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	s := NewTable(client, table)
	if _, err := leasepool.Open(s.Leases(), "orders").Seed(t.Context(), leasepool.Spec{Size: 2}); err != nil {
		t.Fatal(err)
	}
	a := fixture.Start(t, fixture.Config(s.Leases()))
	held, err := a.Lease()
	if err != nil {
		t.Fatal(err)
	}
	good := Address{Host: "10.0.0.7", Port: 80}
	for name, change := range map[string]func(*record){
		"a forged header":        func(r *record) { r.Address.Host = "evil\r\nX: y@169.254.169.254" },
		"a port below 0":         func(r *record) { r.Address.Port = -7 },
		"a port above 65535":     func(r *record) { r.Address.Port = 65536 },
		"a weight of 2^31-1":     func(r *record) { r.Address.Weight = math.MaxInt32 },
		"a zone with an escape":  func(r *record) { r.Address.Zone = "\x1b[2J" },
		"a label of 390 KB":      func(r *record) { r.Address.Labels = map[string]string{"x": strings.Repeat("y", 390_000)} },
		"a label with a newline": func(r *record) { r.Address.Labels = map[string]string{"x": "a\nb"} },
		"a version below 0":      func(r *record) { r.Version = -1 },
		"a long holder":          func(r *record) { r.Holder = strings.Repeat("h", 65) },
		"no address":             func(r *record) { r.Address = nil },
	} {
		t.Run(name, func(t *testing.T) {
			var logs logged
			d := directory(t, Config{Store: s, Pool: "orders", Logger: logs.logger()})
			register(t, d, a, Service{"orders", good})
			wantPortsInTime(t, service(t, d, "orders"), 80)
			bad := good
			r := record{NodeID: held.NodeID, Holder: held.Holder, Version: held.Version, Revision: 1 << 40, Address: (*entries.Address)(&bad)}
			change(&r)
			putRaw(t, client, table, "orders#svc#orders", r)
			putRaw(t, client, table, "orders#svc#orders", record{NodeID: sharedNode}) // as if no reader had stored findings
			wantPortsInTime(t, service(t, d, "orders"))
			if text := logs.String(); strings.Count(text, "corrupt entry") != 1 || strings.ContainsAny(text, "\x1b\r") || len(text) > 2000 {
				t.Errorf("logged %d bytes: %.300q, want one line about a corrupt entry", len(text), text)
			}
			r = record{NodeID: held.NodeID, Revision: 0}
			putRaw(t, client, table, "orders#svc#orders", r)
			if err := d.Leave(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// wantPortsInTime does what wantPorts does, in real time. If the machine is so busy that
// a read takes longer than its limit, it repeats the lookup after the pause that follows
// a failed read.
func wantPortsInTime(t *testing.T, l *Lookup, want ...int) {
	t.Helper()
	for {
		_, again, err := l.resolve(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) {
			wantPorts(t, l, want...)
			return
		}
		rest := time.NewTimer(max(time.Until(again), restAfter))
		select {
		case <-rest.C:
		case <-t.Context().Done():
			t.Fatal(err)
		}
	}
}

// putRaw stores a record unchanged, whatever is stored in its place.
func putRaw(t *testing.T, client *dynamodb.Client, table, partition string, r record) {
	t.Helper()
	item, err := attributevalue.MarshalMap(r)
	if err != nil {
		t.Fatal(err)
	}
	item["pool_group"] = str(partition)
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
		t.Fatal(err)
	}
}

// logged is the output of a logger.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
