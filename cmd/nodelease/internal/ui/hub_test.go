package ui

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func TestAPageSeesWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := started(t, 12)
		store.claim(t, 3, "api/3", 15*time.Second)
		p := s.open(-1)
		defer s.close(p)

		all := next[allMessage](t, p, "all")
		n := all.NodeIDs[3]
		if !all.Whole || len(all.NodeIDs) != 12 || n.State != lease.Held || n.Task != "api/3" || n.Version != 1 || n.Since == 0 || n.Metadata["zone"] != "a" {
			t.Errorf("got %+v, %+v, want all 12 node IDs and the holder of 3", all, n)
		}
		if all.Total.of(lease.Held) != 1 || all.Total.of(lease.Free) != 11 || all.Used < 8 || all.Used > 9 || len(all.News) != 0 {
			t.Errorf("got %+v, want 1 held, 11 free and no events", all)
		}

		first := store.claim(t, 7, "api/7", 15*time.Second)
		turn := next[turnMessage](t, p, "turn")
		if len(turn.NodeIDs) != 1 || turn.NodeIDs[0].ID != 7 || turn.Point.Claimed != 1 || len(turn.News) != 1 || turn.News[0].Kind != "claimed" {
			t.Errorf("got %+v, want one claim, of node ID 7", turn)
		}

		// Only the times of a renewal are sent.
		now := time.Now()
		claimed, err := store.Get(t.Context(), "orders", 7)
		if err != nil || claimed == nil {
			t.Fatal(claimed, err)
		}
		res, err := store.Write(t.Context(), protocol.Renew{
			Key: protocol.Key{Pool: "orders", NodeID: 7}, Session: first, Version: 1, Renewal: 1, ExpiresAt: now.Add(time.Minute), ReservedUntil: now.Add(time.Minute), Confirmed: claimed.ReservedUntil,
		})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		turn = next[turnMessage](t, p, "turn")
		if len(turn.NodeIDs) != 0 || len(turn.Beats) != 1 || turn.Beats[0] != (beat{7, now.Add(time.Minute).UnixMilli(), now.Add(time.Minute).UnixMilli(), 1, now.Add(time.Minute - 3*time.Second).UnixMilli()}) {
			t.Errorf("got %+v, want only the renewal of 7", turn)
		}

		// A holder's metadata may change with a renewal.
		res, err = store.Write(t.Context(), protocol.Renew{
			Key: protocol.Key{Pool: "orders", NodeID: 7}, Session: first, Version: 1, Renewal: 2, ExpiresAt: now.Add(2 * time.Minute), ReservedUntil: now.Add(2 * time.Minute), Confirmed: now.Add(time.Minute),
			Metadata: map[string]string{"zone": "b"},
		})
		if err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		if turn = next[turnMessage](t, p, "turn"); len(turn.NodeIDs) != 1 || turn.NodeIDs[0].Metadata["zone"] != "b" {
			t.Errorf("got %+v, want the metadata of one node ID", turn)
		}

		// Node 3 no longer renews, so it is shown as late, and later as expired.
		for len(turn.Late) == 0 {
			turn = next[turnMessage](t, p, "turn")
		}
		if left := turn.Late[0].Expires - time.Now().UnixMilli(); turn.Late[0].ID != 3 || left < 4000 || left > 6000 {
			t.Errorf("late with %d ms left: got %+v, want node ID 3 with 4 to 6 s", left, turn.Late[0])
		}
		for len(turn.News) == 0 {
			turn = next[turnMessage](t, p, "turn")
		}
		if turn.News[0].Kind != "expired" || turn.News[0].NodeID != 3 || turn.NodeIDs[0].State != lease.Expired || turn.Point.Ended != 0 {
			t.Errorf("got %+v, want the expiry of node ID 3", turn)
		}

		// Another task claims node 3.
		time.Sleep(2 * time.Second) // virtual
		synctest.Wait()
		for len(p.out) > 0 {
			<-p.out
		}
		store.claim(t, 3, "api/new", 15*time.Second)
		turn = next[turnMessage](t, p, "turn")
		if turn.Point.Claimed != 1 || turn.Point.Ended != 1 || turn.NodeIDs[0].Version != 2 {
			t.Errorf("got %+v, want one claim and one end", turn)
		}
	})
}

func TestThePoolIsReadOnceForAllPagesAndNotForNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := started(t, 12)
		time.Sleep(time.Hour) // virtual
		if got := store.read(); len(got) != 0 {
			t.Fatalf("without a viewer, groups %v were read", got)
		}
		var pages []*page
		for range 5 {
			pages = append(pages, s.open(-1))
		}
		for _, p := range pages {
			next[allMessage](t, p, "all")
		}
		store.read()
		for range 3 {
			for _, p := range pages {
				next[turnMessage](t, p, "turn")
			}
		}
		if got := store.read(); len(got) != 3 {
			t.Errorf("three turns for five pages read groups %v", got)
		}
		for _, p := range pages {
			s.close(p)
		}
		time.Sleep(time.Minute) // virtual
		store.read()
		time.Sleep(time.Hour) // virtual
		if got := store.read(); len(got) != 0 {
			t.Errorf("after all viewers left, groups %v were read", got)
		}
	})
}

func TestALargePoolIsShownByGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := started(t, protocol.MaxPoolSize)
		store.claim(t, 40_000, "far/1", time.Hour)
		p := s.open(156) // the group of node 40,000
		defer s.close(p)

		all := next[allMessage](t, p, "all")
		if all.Whole || len(all.Groups) != 256 || len(all.NodeIDs) != protocol.GroupSize || all.NodeIDs[64].Task != "far/1" {
			t.Fatalf("got %d groups, %d node IDs, %+v, want 256 groups and those of one", len(all.Groups), len(all.NodeIDs), all.NodeIDs[64])
		}
		store.read()

		// Only three groups are read again: the open group and the group with a holder, in
		// which something can happen, and one of the other groups in turn.
		next[turnMessage](t, p, "turn")
		if got := store.read(); len(got) != 3 {
			t.Errorf("groups %v were read, want three", got)
		}

		// For a change in another group, the page receives only the counts.
		store.claim(t, 5, "near/1", time.Hour)
		turn := next[turnMessage](t, p, "turn")
		if len(turn.NodeIDs) != 0 || len(turn.Groups) != 1 || turn.Groups[0].of(lease.Held) != 1 || turn.Total.of(lease.Held) != 2 {
			t.Errorf("got %+v, want a change of one group", turn)
		}

		// With all groups open, all are read in turn, and never too many at once.
		if res, err := store.WritePool(t.Context(), protocol.OpenGroups{Pool: "orders", From: 1, To: 256}); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		for i := range 65_536 / 256 {
			store.claim(t, i*256+9, "everywhere", time.Hour)
		}
		for turn.Total.of(lease.Held) < 258 {
			store.read()
			turn = next[turnMessage](t, p, "turn")
			if got := store.read(); len(got) > readsPerTurn+1 {
				t.Fatalf("%d groups were read in one turn", len(got))
			}
		}
	})
}

// A large pool is shown even if its first read takes longer than a turn may take, as from
// another continent.
func TestALargePoolThatIsReadSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := started(t, protocol.MaxPoolSize)
		store.slow = readLimit * 3 / (protocol.MaxPoolSize / protocol.GroupSize / readers) // three turns
		p := s.open(7)
		defer s.close(p)
		for range 3 {
			if m := next[troubleMessage](t, p, "trouble"); m.Verdict.Kind != "reading" {
				t.Errorf("got %+v, want that the pool is being read", m.Verdict)
			}
		}
		if all := next[allMessage](t, p, "all"); len(all.Groups) != 256 || all.Total.of(lease.Free) != protocol.MaxPoolSize || len(all.NodeIDs) != protocol.GroupSize {
			t.Errorf("got %d groups, counts %v", len(all.Groups), all.Total)
		}
	})
}

func TestAPoolThatGrowsIsShownByGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := started(t, 1024)
		p := s.open(-1)
		defer s.close(p)
		if all := next[allMessage](t, p, "all"); !all.Whole || len(all.NodeIDs) != 1024 {
			t.Fatalf("got %+v, want all 1,024 node IDs", all)
		}
		next[turnMessage](t, p, "turn")
		if _, err := leasepool.Open(store, "orders").Resize(t.Context(), leasepool.Spec{Size: 2048}); err != nil {
			t.Fatal(err)
		}
		if all := next[allMessage](t, p, "all"); all.Whole || len(all.Groups) != 8 || len(all.NodeIDs) != 0 || all.Size != 2048 {
			t.Errorf("got %d groups, %d node IDs, want 8 and none", len(all.Groups), len(all.NodeIDs))
		}
		next[turnMessage](t, p, "turn")
	})
}

// A pool that was deleted and seeded again with fewer node IDs is shown as it is now.
func TestAPoolThatIsSeededAgainSmaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := started(t, 64)
		store.claim(t, 50, "gone", time.Hour)
		p := s.open(-1)
		defer s.close(p)
		if all := next[allMessage](t, p, "all"); len(all.NodeIDs) != 64 {
			t.Fatalf("got %d node IDs, want 64", len(all.NodeIDs))
		}
		next[turnMessage](t, p, "turn")
		store.replace(leasetest.NewMemory("orders", 8))
		if all := next[allMessage](t, p, "all"); len(all.NodeIDs) != 8 || all.Total.of(lease.Free) != 8 || all.Total.of(lease.Held) != 0 {
			t.Errorf("got %d node IDs, counts %v, want 8 free", len(all.NodeIDs), all.Total)
		}
		next[turnMessage](t, p, "turn")
	})
}

func TestNewsOfManyIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := started(t, 256)
		p := s.open(-1)
		defer s.close(p)
		next[allMessage](t, p, "all")
		for id := range 200 {
			store.claim(t, id, "fleet", time.Hour)
		}
		turn := next[turnMessage](t, p, "turn")
		if len(turn.News) != 1 || turn.News[0].Text != "200 node IDs at once" || turn.Point.Claimed != 200 {
			t.Errorf("got %+v, want one event of 200 node IDs", turn.News)
		}
	})
}

func TestTroubleIsToldAndPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := started(t, 12)
		store.SetOutage(errors.New("table on fire"))
		p := s.open(-1)
		defer s.close(p)
		if m := next[troubleMessage](t, p, "trouble"); !strings.Contains(m.Verdict.Text, "table on fire") || m.Verdict.Level != levelBad {
			t.Errorf("got %+v, want the store's error as a problem", m)
		}
		store.SetOutage(nil)
		next[allMessage](t, p, "all")
		store.claim(t, 3, "api/3", 10*time.Second)
		next[turnMessage](t, p, "turn")

		// During an outage the page keeps the result of the last read, so no holder is
		// shown as expired.
		store.SetOutage(errors.New("table on fire"))
		for range 20 {
			turn := next[turnMessage](t, p, "turn")
			if turn.Verdict.Kind != "unreadable" || turn.Total.of(lease.Held) != 1 || turn.Point != nil {
				t.Fatalf("got %+v, want unreadable, with the last counts", turn)
			}
		}
		store.SetOutage(nil)
		if turn := next[turnMessage](t, p, "turn"); turn.Verdict.Kind == "unreadable" || turn.Total.of(lease.Expired) != 1 {
			t.Errorf("got %+v, want it readable, with one expired", turn)
		}
	})
}

func TestASlowPageIsSentAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := started(t, 12)
		p := s.open(-1)
		time.Sleep(time.Minute) // virtual
		for range backlog {
			if _, ok := <-p.out; !ok {
				t.Fatal("messages were lost")
			}
		}
		if _, ok := <-p.out; ok {
			t.Error("the stream did not end")
		}
		if s.looked() {
			t.Error("the page still counts as open")
		}
	})
}

// Only node IDs that should have items are shown as missing: not the reserved ones, nor those
// that exist only after a widening.
func TestMissing(t *testing.T) {
	m := model{pool: protocol.PoolItem{Size: 2048, ExcludeBelow: 8, ExistBelow: 300, Eras: snowflake.Eras{{NodeBits: 9}}}}
	for i, want := range []counts{
		{0, 0, 0, 0, 8, 0, 248},
		{0, 0, 0, 0, 0, 0, 44},
		{},
	} {
		m.read(i, protocol.Group{}, time.Now(), newChange())
		if got := m.groups[i].counts; got != want {
			t.Errorf("group %d: got %v of %v, want %v", i, got, states, want)
		}
	}
}

func TestEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := started(t, 12)
		store.claim(t, 1, "held", time.Hour)
		store.claim(t, 2, "expires", 5*time.Second)
		released := store.claim(t, 3, "releases", 5*time.Second)
		if res, err := store.Write(t.Context(), protocol.Release{Key: protocol.Key{Pool: "orders", NodeID: 3}, Session: released, Version: 1, ReservedUntil: time.Now().Add(time.Hour)}); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
		if _, err := leasepool.Open(store, "orders").Resize(t.Context(), leasepool.Spec{Size: 10}); err != nil {
			t.Fatal(err)
		}
		store.bad[4] = "no version"
		time.Sleep(10 * time.Second) // virtual
		p := s.open(-1)
		defer s.close(p)
		all := next[allMessage](t, p, "all")
		want := []lease.State{lease.Free, lease.Held, lease.Expired, lease.Cooling, corrupt, lease.Free, lease.Free, lease.Free, lease.Free, lease.Free, lease.Retired, lease.Retired}
		for i, n := range all.NodeIDs {
			if n.State != want[i] {
				t.Errorf("node ID %d: got %s, want %s", i, n.State, want[i])
			}
		}
		if n := all.NodeIDs[4]; n.Note != "no version" {
			t.Errorf("got %+v, want Note no version", n)
		}
		stats, err := leasepool.Open(store, "orders").Stats(t.Context())
		if err != nil || stats.Utilization != all.Used || stats.Held != all.Total.of(lease.Held) || stats.Free != all.Total.of(lease.Free) {
			t.Errorf("the page says %+v, the pool %+v (%v)", all.status, stats, err)
		}
	})
}
