package protocol_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// storyStep sends one write.
type storyStep struct {
	name  string
	write func(context.Context, *protocol.DynamoDB) error
}

func when(ms int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

// leaseStep writes to a node ID. The item in the answer must be readable.
func leaseStep(name string, w protocol.Write) storyStep {
	return storyStep{name, func(ctx context.Context, s *protocol.DynamoDB) error { _, err := s.Write(ctx, w); return err }}
}

func poolStep(name string, w protocol.PoolWrite) storyStep {
	return storyStep{name, func(ctx context.Context, s *protocol.DynamoDB) error {
		if _, err := s.WritePool(ctx, w); err != nil {
			return err
		}
		_, err := s.PoolItem(ctx, w.PoolName())
		return err
	}}
}

func memoryStep(name string, w protocol.MemoryWrite) storyStep {
	return storyStep{name, func(ctx context.Context, s *protocol.DynamoDB) error {
		if _, err := s.WriteReaperMemory(ctx, w); err != nil {
			return err
		}
		_, err := s.ReaperMemory(ctx, w.PoolName())
		return err
	}}
}

func noteStep(name string, w protocol.NoteWrite) storyStep {
	return storyStep{name, func(ctx context.Context, s *protocol.DynamoDB) error {
		if _, _, err := s.WriteNote(ctx, w); err != nil {
			return err
		}
		_, err := s.Note(ctx, w.PoolName())
		return err
	}}
}

// story returns the life of a pool in which every write of the format occurs. Most of the
// writes also occur when their condition is not met. Names of steps are never reused,
// because recordings are compared by these names.
func story() []storyStep {
	const ttl, guard = 15 * time.Second, time.Second
	n := func(id int) protocol.Key { return protocol.Key{Pool: "orders", NodeID: id} }
	seed := func(id int) protocol.Write { return protocol.Seed{Key: n(id), Floor: when(-1)} }
	claim := func(id int, session string, ms int, try int64) protocol.Claim {
		return protocol.Claim{
			Key: n(id), Session: session, Task: "task " + session, At: when(ms), ClaimGuard: guard, TTL: ttl, ExpiresAt: when(ms).Add(ttl),
			ReservedUntil: when(ms).Add(ttl + guard), WidenTry: try, Metadata: map[string]string{"zone": "a"},
		}
	}
	renew := func(id int, session string, version, renewal int64, confirmed, ms int, try int64, asked ...int) protocol.Renew {
		w := protocol.Renew{
			Key: n(id), Session: session, Version: version, Renewal: renewal, Confirmed: when(confirmed).Add(ttl + guard),
			ExpiresAt: when(ms).Add(ttl), ReservedUntil: when(ms).Add(ttl + guard), WidenTry: try,
		}
		for _, a := range asked {
			w.Asked = append(w.Asked, when(a).Add(ttl+guard))
		}
		return w
	}
	renewSaying := renew(0, "a", 1, 4, 10000, 15000, 0)
	renewSaying.Metadata = map[string]string{"zone": "b", "ready": "yes"}
	release := func(id int, session string, version, renewal int64, ms int) protocol.Write {
		return protocol.Release{Key: n(id), Session: session, Version: version, Renewal: renewal, ReservedUntil: when(ms)}
	}
	layout, other := protocol.LayoutOf(snowflake.Default()), protocol.LayoutOf(snowflake.Sonyflake())
	look := &protocol.ReaperLook{Ended: when(40000), Wait: ttl, Count: 1, Held: 3, Braked: true, Candidates: "AAEC"}

	steps := []storyStep{
		poolStep("create the pool", protocol.CreatePool{Pool: "orders", Size: 300, OpenGroups: 1, ExcludeBelow: 1, At: when(0), Floor: when(-1)}),
		poolStep("create it again", protocol.CreatePool{Pool: "orders", Size: 700, OpenGroups: 2, At: when(1)}),
		{"record it in the index", func(ctx context.Context, s *protocol.DynamoDB) error { return s.RecordPool(ctx, "orders") }},
		leaseStep("seed 0", seed(0)),
		leaseStep("seed 1", seed(1)),
		leaseStep("seed 0 again", seed(0)),
		leaseStep("claim 0", claim(0, "a", 0, 0)),
		leaseStep("claim 0 while it is held", claim(0, "b", 100, 0)),
		leaseStep("renew 0", renew(0, "a", 1, 1, 0, 5000, 0)),
		leaseStep("a late renewal of 0", renew(0, "a", 1, 1, 0, 4000, 0)),
		leaseStep("renew 0 after a lost answer", renew(0, "a", 1, 3, 4000, 10000, 0, 5000)),
		leaseStep("a copy renews 0", renew(0, "a", 1, 5, 0, 11000, 0)),
		leaseStep("renew 0 with metadata", renewSaying),
		leaseStep("another session releases 0", release(0, "b", 1, 9, 15100)),
		leaseStep("release 0", release(0, "a", 1, 4, 15100)),
		leaseStep("claim 0 after its release", claim(0, "b", 16500, 0)),
		leaseStep("claim 0 a moment after its expiry", claim(0, "c", 31501, 0)),
		leaseStep("claim 0 a guard after its expiry", claim(0, "c", 32501, 0)),
		leaseStep("abandon 0", protocol.Abandon{Key: n(0), Session: "c"}),
		leaseStep("claim 0 once more", claim(0, "d", 50000, 0)),
		leaseStep("reap 0 by an old look", protocol.Reap{Key: n(0), Holder: "d", Version: 3, Renewal: 0}),
		leaseStep("reap 0", protocol.Reap{Key: n(0), Holder: "d", Version: 4, Renewal: 0}),
		leaseStep("claim 1", claim(1, "e", 50000, 0)),
		leaseStep("force-release another lease of 1", protocol.ForceRelease{Key: n(1), Version: 2, Holder: "e"}),
		leaseStep("force-release 1", protocol.ForceRelease{Key: n(1), Version: 1, Holder: "e"}),
		leaseStep("claim 1 again", claim(1, "f", 70000, 0)),
		leaseStep("free 1 of a copy", protocol.FreeCopy{Key: n(1), Session: "f", Version: 2, Renewal: 0, ReservedUntil: when(90000)}),
		leaseStep("raise 1", protocol.Raise{Key: n(1), To: when(95000)}),
		leaseStep("raise 1 to less", protocol.Raise{Key: n(1), To: when(94000)}),
		leaseStep("claim 1 before what is reserved", claim(1, "g", 90000, 0)),
		poolStep("open a group", protocol.OpenGroups{Pool: "orders", From: 1, To: 2}),
		poolStep("open it again", protocol.OpenGroups{Pool: "orders", From: 1, To: 2}),
		poolStep("resize the pool", protocol.ResizePool{Pool: "orders", Revision: 2, To: 200, At: when(100000)}),
		poolStep("a late resize", protocol.ResizePool{Pool: "orders", Revision: 2, To: 300, At: when(100000)}),
		leaseStep("retire 1", protocol.Retire{Key: n(1), Retired: true, Resize: 3}),
		leaseStep("claim 1 while it is retired", claim(1, "g", 110000, 0)),
		leaseStep("take 1 back by an older resize", protocol.Retire{Key: n(1), Resize: 2}),
		leaseStep("take 1 back", protocol.Retire{Key: n(1), Resize: 4}),
		leaseStep("claim 1 at last", claim(1, "g", 110000, 0)),
		poolStep("raise the floor", protocol.RaiseFloor{Pool: "orders", To: when(120000)}),
		poolStep("raise the floor to less", protocol.RaiseFloor{Pool: "orders", To: when(119000)}),
		poolStep("bind a layout", protocol.BindLayout{Pool: "orders", Layout: layout}),
		poolStep("bind another layout", protocol.BindLayout{Pool: "orders", Layout: other}),
		poolStep("suspend the layout", protocol.SuspendLayout{Pool: "orders", Revision: 5}),
		poolStep("replace the layout", protocol.ReplaceLayout{Pool: "orders", Revision: 6, Layout: other}),
		poolStep("finalize the layout by an older view", protocol.FinalizeLayout{Pool: "orders", Revision: 6}),
		poolStep("finalize the layout", protocol.FinalizeLayout{Pool: "orders", Revision: 7}),
		poolStep("suspend the final layout", protocol.SuspendLayout{Pool: "orders", Revision: 8}),
		memoryStep("remember a look", protocol.Remember{Pool: "orders", New: "r1", Look: look}),
		memoryStep("remember it over another", protocol.Remember{Pool: "orders", Seen: "r0", New: "r2", Look: look}),
		memoryStep("take the look", protocol.Remember{Pool: "orders", Seen: "r1", New: "r2"}),
		memoryStep("forget", protocol.Forget{Pool: "orders", New: "r3"}),
		{"watermarks", func(ctx context.Context, s *protocol.DynamoDB) error {
			marks := map[int]protocol.Watermark{0: {Version: 4, Until: when(66000).UnixMilli()}, 1: {Version: 3, Until: when(126000).UnixMilli()}}
			if err := s.WriteWatermarks(ctx, "orders", 0, marks); err != nil {
				return err
			}
			return readMarks(ctx, s, marks[1])
		}},
		{"the pool's watermark", func(ctx context.Context, s *protocol.DynamoDB) error {
			return s.WritePoolWatermark(ctx, "orders", protocol.PoolWatermark{Revision: 7, Floor: when(120000).UnixMilli()})
		}},
	}
	w := func(id int) protocol.Key { return protocol.Key{Pool: "narrow", NodeID: id} }
	held := claim(0, "a", 0, 0)
	held.Key = w(0)
	unaware := renew(0, "a", 1, 1, 0, 5000, 0)
	unaware.Key = w(0)
	aware := unaware
	aware.WidenTry = 1
	onDemand := claim(0, "a", 0, 0)
	onDemand.Key, onDemand.OnDemand = protocol.Key{Pool: "many", NodeID: 0}, true
	return append(steps,
		poolStep("create a narrow pool", protocol.CreatePool{Pool: "narrow", Size: 1000, OpenGroups: 2, At: when(0), NodeBits: 9, ExistBelow: 256}),
		leaseStep("seed 0 of it", protocol.Seed{Key: w(0), Floor: when(-1)}),
		leaseStep("seed 1 of it with a try", protocol.Seed{Key: w(1), Floor: when(-1), WidenTry: 1}),
		leaseStep("claim 0 of it", held),
		poolStep("begin to widen", protocol.BeginWiden{Pool: "narrow", Try: 1, Seen: protocol.WidenDone, From: when(60000), Bits: 10, ExistBelow: 256}),
		poolStep("begin to widen beside that", protocol.BeginWiden{Pool: "narrow", Try: 1, Seen: protocol.WidenDone, From: when(70000), Bits: 10, ExistBelow: 256}),
		leaseStep("mark 0", protocol.Mark{Key: w(0), Try: 1, From: when(60000), Floor: when(-1)}),
		leaseStep("mark 2, which is missing", protocol.Mark{Key: w(2), Try: 1, From: when(60000), Floor: when(-1)}),
		leaseStep("mark 0 again", protocol.Mark{Key: w(0), Try: 1, From: when(60000), Floor: when(-1)}),
		leaseStep("renew 0 without knowing the try", unaware),
		leaseStep("renew 0 with the try", aware),
		poolStep("void the try", protocol.VoidWiden{Pool: "narrow", Try: 1}),
		poolStep("commit it too late", protocol.CommitWiden{Pool: "narrow", Try: 1, From: when(60000), Bits: 10}),
		poolStep("begin a second try", protocol.BeginWiden{Pool: "narrow", Try: 2, Seen: protocol.WidenVoid, From: when(80000), Bits: 10, ExistBelow: 256}),
		poolStep("commit the second try", protocol.CommitWiden{Pool: "narrow", Try: 2, From: when(80000), Bits: 10}),
		poolStep("add node IDs by an older view", protocol.AddNodeIDs{Pool: "narrow", From: 256, To: 512, Try: 1}),
		poolStep("add node IDs", protocol.AddNodeIDs{Pool: "narrow", From: 256, To: 512, Try: 2}),
		poolStep("create a pool for many", protocol.CreatePool{Pool: "many", Size: 4096, OpenGroups: 6, At: when(0), Expect: 1000}),
		poolStep("expect more", protocol.ExpectHolders{Pool: "many", Revision: 1, Expect: 2000, OpenGroups: 12}),
		poolStep("expect more by an older view", protocol.ExpectHolders{Pool: "many", Revision: 1, Expect: 1500, OpenGroups: 9}),
		noteStep("leave 17 while nobody waits", protocol.Leave{Pool: "many", NodeID: 17, At: when(0)}),
		noteStep("wait", protocol.Await{Pool: "many", Until: when(60000)}),
		noteStep("wait by an older view", protocol.Await{Pool: "many", Until: when(61000)}),
		noteStep("leave 17 for those who wait", protocol.Leave{Pool: "many", NodeID: 17, At: when(1000)}),
		noteStep("wait on", protocol.Await{Pool: "many", Seen: when(60000), Until: when(95000)}),
		noteStep("leave 18 when nobody waits any more", protocol.Leave{Pool: "many", NodeID: 18, At: when(95000)}),
		leaseStep("seed 0 of many", protocol.Seed{Key: onDemand.Key, Floor: when(-1)}),
		leaseStep("claim 0 of many on demand", onDemand),
	)
}

// readMarks reads the watermarks back.
func readMarks(ctx context.Context, s *protocol.DynamoDB, want protocol.Watermark) error {
	all, err := s.ReadWatermarks(ctx, "orders")
	if err == nil && all.Nodes[1] != want {
		err = fmt.Errorf("read %+v of node ID 1, want %+v", all.Nodes[1], want)
	}
	return err
}
