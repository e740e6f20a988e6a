package history_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// Porcupine judges the histories of clients that use one store at the same time. It must be
// possible to order the calls, each taking effect at some time between its beginning and its
// end, so that every answer is the one that Write.Apply returns. A call without an answer may
// have taken effect at any time after it began, or never, so it stays open until the end of
// the history.

var linearSeed = flag.Uint64("linear", 0, "seed of the histories; 0 draws one")

// call is one call to a store: a write or, if write is nil, a read.
type call struct {
	write protocol.Write
	node  int
}

// answer is the answer to a call.
type answer struct {
	unknown bool
	applied bool
	lease   string
}

// register is a porcupine model of one node ID's item. Node IDs are independent of each other.
var register = porcupine.Model{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		byNode := map[int][]porcupine.Operation{}
		for _, op := range ops {
			n := op.Input.(call).node
			byNode[n] = append(byNode[n], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byNode {
			parts = append(parts, part)
		}
		return parts
	},
	Init:  func() any { return (*protocol.Lease)(nil) },
	Equal: func(a, b any) bool { return show(a.(*protocol.Lease)) == show(b.(*protocol.Lease)) },
	Step: func(state, in, out any) (bool, any) {
		old, c, a := state.(*protocol.Lease), in.(call), out.(answer)
		if c.write == nil {
			return a.unknown || a.lease == show(old), old
		}
		now, applied := c.write.Apply(old)
		after := old
		if applied {
			after = &now
		}
		return a.unknown || a.applied == applied && a.lease == show(after), after
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
	DescribeState:     func(s any) string { return show(s.(*protocol.Lease)) },
}

func show(l *protocol.Lease) string {
	if l == nil {
		return "none"
	}
	return fmt.Sprintf("%q v%d r%d nb%d ru%d ex%d retired=%v", l.Holder, l.Version, l.Renewal, unixMS(l.NotBefore), unixMS(l.ReservedUntil), unixMS(l.ExpiresAt), l.Retired)
}

func unixMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// recording is a history that is being recorded.
type recording struct {
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
	open  int
}

func (r *recording) add(client int, c call, began time.Duration, a answer) {
	end := int64(time.Since(r.began))
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.unknown {
		end = math.MaxInt64
		r.open++
	}
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: c, Call: int64(began), Output: a, Return: end})
}

// client makes calls that are based on the item as the client last saw it. Most of them
// succeed unless another client was faster.
func (r *recording) client(ctx context.Context, number, calls, nodes int, rnd *rand.Rand, s lease.Store) {
	seen := make([]*protocol.Lease, nodes)
	for i := range calls {
		n := rnd.IntN(nodes)
		c := call{node: n, write: guess(rnd, protocol.Key{Pool: "p", NodeID: n}, seen[n], fmt.Sprintf("%d.%d", number, i))}
		one, cancel := ctx, context.CancelFunc(func() {})
		if rnd.IntN(25) == 0 { // give up soon: the call may be done or not, now or later
			one, cancel = context.WithTimeout(ctx, time.Duration(rnd.IntN(3000))*time.Microsecond)
		}
		began := time.Since(r.began)
		var a answer
		if c.write == nil {
			l, err := s.Get(one, "p", n)
			a = answer{unknown: err != nil, lease: show(l)}
			if err == nil {
				seen[n] = l
			}
		} else {
			res, err := s.Write(one, c.write)
			a = answer{unknown: err != nil, applied: res.Applied, lease: show(res.Lease)}
			if err == nil {
				seen[n] = res.Lease
			}
		}
		cancel()
		r.add(number, c, began, a)
	}
}

// guess draws a call. Times are close together, so that some conditions are met and others
// are not.
func guess(r *rand.Rand, k protocol.Key, l *protocol.Lease, session string) protocol.Write {
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if l == nil {
		if r.IntN(3) == 0 {
			return nil
		}
		return protocol.Seed{Key: k, Floor: base}
	}
	if l.Retired && r.IntN(2) == 0 {
		return protocol.Retire{Key: k, Resize: l.Resize + 1}
	}
	at := l.ReservedUntil.Add(time.Duration(r.IntN(3)-1) * time.Second)
	if l.Holder == "" || r.IntN(4) == 0 {
		return protocol.Claim{Key: k, Session: session, Task: "t", At: at, ClaimGuard: time.Second, TTL: 15 * time.Second, ExpiresAt: at.Add(15 * time.Second), ReservedUntil: at.Add(16 * time.Second)}
	}
	switch r.IntN(10) {
	case 0:
		return nil
	case 1:
		return protocol.Release{Key: k, Session: l.Holder, Version: l.Version, Renewal: l.Renewal, ReservedUntil: l.NotBefore.Add(time.Second)}
	case 2:
		return protocol.Reap{Key: k, Holder: l.Holder, Version: l.Version, Renewal: l.Renewal}
	case 3:
		return protocol.ForceRelease{Key: k, Version: l.Version}
	case 4:
		return protocol.Abandon{Key: k, Session: l.Holder}
	case 5:
		return protocol.Retire{Key: k, Retired: r.IntN(3) == 0, Resize: l.Resize + 1}
	case 6:
		return protocol.Raise{Key: k, To: l.ReservedUntil.Add(time.Second)}
	case 7:
		return protocol.Seed{Key: k, Floor: base}
	}
	return protocol.Renew{Key: k, Session: l.Holder, Version: l.Version, Renewal: l.Renewal + 1, ExpiresAt: at.Add(15 * time.Second), ReservedUntil: l.ReservedUntil.Add(time.Second), Confirmed: l.ReservedUntil}
}

// record has several clients use a store, and judges the history.
func record(t *testing.T, s lease.Store) (porcupine.CheckResult, *recording) {
	seed := *linearSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat the calls with: -linear %d", seed)
	r := &recording{began: time.Now()}
	var all sync.WaitGroup
	for c := range 12 {
		all.Go(func() { r.client(t.Context(), c, 150, 6, rand.New(rand.NewPCG(seed, uint64(c))), s) })
	}
	all.Wait()
	result, info := porcupine.CheckOperationsVerbose(register, r.ops, time.Minute)
	if result != porcupine.Ok && testing.Verbose() {
		file := filepath.Join(t.ArtifactDir(), "history.html")
		if err := porcupine.VisualizePath(register, info, file); err == nil {
			t.Log("IDs drawn in", file)
		}
	}
	return result, r
}

func linearizable(t *testing.T, s lease.Store) {
	result, r := record(t, s)
	if result != porcupine.Ok {
		t.Errorf("a history of %d calls is %s", len(r.ops), result)
	}
	applied := 0
	for _, op := range r.ops {
		if op.Output.(answer).applied {
			applied++
		}
	}
	t.Logf("%d calls, %d of them without an answer, %d writes applied: %s", len(r.ops), r.open, applied, result)
	if r.open == 0 || applied < 200 {
		t.Error("an idle history")
	}
}

func TestEmbeddedIsLinearizable(t *testing.T) {
	client := dynamotest.Embedded(t)
	linearizable(t, lease.NewDynamoDB(client, dynamotest.CreateTable(t, client)))
}

func TestDynamoDBLocalIsLinearizable(t *testing.T) {
	client := dynamotest.Local(t)
	linearizable(t, lease.NewDynamoDB(client, dynamotest.CreateTable(t, client)))
}

// The judge notices if a store grants a node ID twice, even if that is rare. It also notices
// if a store reports a write that it did not make, or denies a write that it made.
func TestLyingStoresAreNotLinearizable(t *testing.T) {
	for name, lie := range map[string]func(ctx context.Context, s lease.Store, w protocol.Write) (protocol.Result, bool){
		"grants twice": func(ctx context.Context, s lease.Store, w protocol.Write) (protocol.Result, bool) {
			c, isClaim := w.(protocol.Claim)
			l, err := s.Get(ctx, "p", w.Item().NodeID)
			if !isClaim || err != nil || l == nil || l.Holder == "" {
				return protocol.Result{}, false
			}
			granted := *l
			granted.Holder, granted.Version, granted.Renewal = c.Session, l.Version+1, 0
			return protocol.Result{Applied: true, Lease: &granted}, true
		},
		"does nothing": func(ctx context.Context, s lease.Store, w protocol.Write) (protocol.Result, bool) {
			l, err := s.Get(ctx, "p", w.Item().NodeID)
			if _, isRenewal := w.(protocol.Renew); !isRenewal || err != nil {
				return protocol.Result{}, false
			}
			now, ok := w.Apply(l)
			return protocol.Result{Applied: true, Lease: &now}, ok
		},
		"refuses what it did": func(ctx context.Context, s lease.Store, w protocol.Write) (protocol.Result, bool) {
			if _, isRelease := w.(protocol.Release); !isRelease {
				return protocol.Result{}, false
			}
			res, err := s.Write(ctx, w)
			lied := err == nil && res.Applied
			res.Applied = false
			return res, lied
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &liar{Store: leasetest.NewMemory("", 0), lie: lie}
			if result, r := record(t, s); result != porcupine.Illegal || s.lies == 0 {
				t.Errorf("a history of %d calls with %d lies is %s", len(r.ops), s.lies, result)
			}
		})
	}
}

// liar lies a few times.
type liar struct {
	lease.Store
	lie  func(ctx context.Context, s lease.Store, w protocol.Write) (protocol.Result, bool)
	mu   sync.Mutex
	lies int
}

func (l *liar) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lies < 3 && ctx.Err() == nil {
		if res, lied := l.lie(ctx, l.Store, w); lied {
			l.lies++
			return res, nil
		}
	}
	return l.Store.Write(ctx, w)
}
