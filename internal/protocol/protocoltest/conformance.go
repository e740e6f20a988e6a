// Package protocoltest has the conformance suite that every [protocol.Store]
// passes, and, under a build tag, a store that breaks the protocol on purpose.
package protocoltest

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// t0 is when the histories of the suite begin.
var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

const (
	ttl        = 15 * time.Second
	claimGuard = time.Second
)

// Conformance is the test suite that every [protocol.Store] passes. newStore
// returns a store without pools; it is called once per case.
func Conformance(t *testing.T, newStore func(t *testing.T) protocol.Store) {
	t.Run("writes", func(t *testing.T) {
		s := newStore(t)
		for i, c := range cases() {
			t.Run(c.name, func(t *testing.T) { c.run(t, s, protocol.Key{Pool: "p", NodeID: i}) })
		}
	})
	t.Run("pool", func(t *testing.T) { poolWrites(t, newStore(t)) })
	t.Run("cards", func(t *testing.T) { cards(t, newStore(t)) })
	t.Run("reaper", func(t *testing.T) { reaperMemory(t, newStore(t)) })
	t.Run("note", func(t *testing.T) { notes(t, newStore(t)) })
	t.Run("widening", func(t *testing.T) { widenings(t, newStore(t)) })
	t.Run("reads", func(t *testing.T) { reads(t, newStore(t)) })
	t.Run("parts", func(t *testing.T) { parts(t, newStore(t)) })
	t.Run("random", func(t *testing.T) { randomWrites(t, newStore(t)) })
	t.Run("one of many", func(t *testing.T) { oneOfMany(t, newStore(t)) })
}

// The writes of the cases, all on one node ID.
func seed(k protocol.Key) protocol.Write { return protocol.Seed{Key: k, Floor: at(-1)} }
func claim(k protocol.Key, session string, ms int) protocol.Claim {
	return protocol.Claim{
		Key: k, Session: session, Task: "task " + session, At: at(ms), ClaimGuard: claimGuard, TTL: ttl,
		ExpiresAt: at(ms).Add(ttl), ReservedUntil: at(ms).Add(ttl + claimGuard), Metadata: map[string]string{"zone": "a"},
	}
}

// renew returns a renewal that follows the claim at 0 ms, or the renewal at 5000 ms.
func renew(k protocol.Key, session string, version, renewal int64, ms int) protocol.Renew {
	return protocol.Renew{
		Key: k, Session: session, Version: version, Renewal: renewal,
		Confirmed: at(0).Add(ttl + claimGuard), Asked: []time.Time{at(5000).Add(ttl + claimGuard)},
		ExpiresAt: at(ms).Add(ttl), ReservedUntil: at(ms).Add(ttl + claimGuard),
	}
}
func mark(k protocol.Key, try int64, from int) protocol.Write {
	return protocol.Mark{Key: k, Try: try, From: at(from), Floor: at(-1)}
}
func release(k protocol.Key, session string, version int64, ms int) protocol.Write {
	return protocol.Release{Key: k, Session: session, Version: version, Renewal: 9, ReservedUntil: at(ms)}
}

func freeCopy(k protocol.Key, session string, version, renewal int64) protocol.Write {
	return protocol.FreeCopy{Key: k, Session: session, Version: version, Renewal: renewal, ReservedUntil: at(21000)}
}

// conformanceCase is a history of one node ID and a final write.
type conformanceCase struct {
	name    string
	history func(k protocol.Key) []protocol.Write
	write   func(k protocol.Key) protocol.Write
	applied bool
	check   func(l protocol.Lease) bool // of the item after the last write, or of the item that refused it
}

func cases() []conformanceCase {
	fresh := func(k protocol.Key) []protocol.Write { return []protocol.Write{seed(k)} }
	held := func(k protocol.Key) []protocol.Write { return []protocol.Write{seed(k), claim(k, "a", 0)} }
	renewed := func(k protocol.Key) []protocol.Write {
		return []protocol.Write{seed(k), claim(k, "a", 0), renew(k, "a", 1, 3, 5000)}
	}
	nothing := func(k protocol.Key) []protocol.Write { return nil }
	expired := int((ttl + claimGuard).Milliseconds()) // one millisecond before others may claim

	changed := func(ms int, change func(*protocol.Claim)) func(protocol.Key) protocol.Write {
		return func(k protocol.Key) protocol.Write {
			c := claim(k, "b", ms)
			change(&c)
			return c
		}
	}
	following := func(confirmed int, asked ...int) func(protocol.Key) protocol.Write {
		return func(k protocol.Key) protocol.Write {
			r := renew(k, "a", 1, 4, 6000)
			r.Confirmed, r.Asked = at(confirmed), nil
			for _, ms := range asked {
				r.Asked = append(r.Asked, at(ms))
			}
			return r
		}
	}
	return []conformanceCase{
		{"seed makes a node ID", nothing, seed, true, func(l protocol.Lease) bool {
			return l.Version == 0 && l.Holder == "" && l.ReservedUntil.Equal(at(-1))
		}},
		{"seed resets nothing", held, seed, false, func(l protocol.Lease) bool { return l.Holder == "a" && l.Version == 1 }},
		{"claim takes a free node ID", fresh, func(k protocol.Key) protocol.Write { return claim(k, "a", 0) }, true, func(l protocol.Lease) bool {
			return l.Holder == "a" && l.Task == "task a" && l.Version == 1 && l.Renewal == 0 && l.TTL == ttl && l.Metadata["zone"] == "a" &&
				l.NotBefore.Equal(at(-1)) && l.ReservedUntil.Equal(at(16000)) && l.ExpiresAt.Equal(at(15000))
		}},
		{"claim makes no node ID", nothing, func(k protocol.Key) protocol.Write { return claim(k, "a", 0) }, false, nil},
		{"claim leaves a held node ID", held, func(k protocol.Key) protocol.Write { return claim(k, "b", 100) }, false, func(l protocol.Lease) bool { return l.Holder == "a" }},
		{"claim by the same session says that it landed", held, func(k protocol.Key) protocol.Write { return claim(k, "a", 100) }, false, func(l protocol.Lease) bool { return l.Holder == "a" && l.Version == 1 }},
		{"claim leaves a node ID until σ after its expiry", held, func(k protocol.Key) protocol.Write { return claim(k, "b", expired) }, false, nil},
		{"claim takes an expired node ID", held, func(k protocol.Key) protocol.Write { return claim(k, "b", expired+1) }, true, func(l protocol.Lease) bool {
			return l.Holder == "b" && l.Version == 2 && l.NotBefore.Equal(at(16000))
		}},
		{"claim takes no node ID whose milliseconds are reserved beyond σ", func(k protocol.Key) []protocol.Write {
			return []protocol.Write{seed(k), claim(k, "a", 0), protocol.ForceRelease{Key: k, Version: 1}}
		}, func(k protocol.Key) protocol.Write { return claim(k, "b", 14999) }, false, func(l protocol.Lease) bool { return l.Holder == "" }},
		{"claim takes a node ID whose milliseconds are reserved up to σ", func(k protocol.Key) []protocol.Write {
			return []protocol.Write{seed(k), claim(k, "a", 0), protocol.ForceRelease{Key: k, Version: 1}}
		}, func(k protocol.Key) protocol.Write { return claim(k, "b", 15000) }, true, func(l protocol.Lease) bool { return l.NotBefore.Equal(at(16000)) }},
		{"claim lowers no reserved_until", func(k protocol.Key) []protocol.Write { return []protocol.Write{protocol.Seed{Key: k, Floor: at(500)}} },
			changed(0, func(c *protocol.Claim) { c.ReservedUntil = at(499) }), false, nil},
		{"claim takes no retired node ID", func(k protocol.Key) []protocol.Write {
			return []protocol.Write{seed(k), protocol.Retire{Key: k, Retired: true}}
		}, func(k protocol.Key) protocol.Write { return claim(k, "a", 0) }, false, func(l protocol.Lease) bool { return l.Retired }},
		{"claim takes a node ID that is back in use", func(k protocol.Key) []protocol.Write {
			return []protocol.Write{seed(k), protocol.Retire{Key: k, Retired: true, Resize: 2}, protocol.Retire{Key: k, Resize: 3}}
		}, func(k protocol.Key) protocol.Write { return claim(k, "a", 0) }, true, nil},
		{"renew extends", held, func(k protocol.Key) protocol.Write { return renew(k, "a", 1, 1, 5000) }, true, func(l protocol.Lease) bool {
			return l.Renewal == 1 && l.Version == 1 && l.ExpiresAt.Equal(at(20000)) && l.ReservedUntil.Equal(at(21000)) && l.NotBefore.Equal(at(-1))
		}},
		{"renew says its own length", held, func(k protocol.Key) protocol.Write {
			r := renew(k, "a", 1, 1, 5000)
			r.TTL = time.Minute
			return r
		}, true, func(l protocol.Lease) bool { return l.TTL == time.Minute && l.ExpiresAt.Equal(at(20000)) }},
		{"renew says other metadata", held, func(k protocol.Key) protocol.Write {
			r := renew(k, "a", 1, 1, 5000)
			r.Metadata = map[string]string{"session_id": "s", "zone": "b"}
			return r
		}, true, func(l protocol.Lease) bool {
			return len(l.Metadata) == 2 && l.Metadata["zone"] == "b" && l.Renewal == 1 && l.ReservedUntil.Equal(at(21000))
		}},
		{"release leaves a renewal alone that it does not know", renewed, func(k protocol.Key) protocol.Write {
			return protocol.Release{Key: k, Session: "a", Version: 1, Renewal: 2, ReservedUntil: at(-1)}
		}, false, func(l protocol.Lease) bool {
			return l.Holder == "a" && l.Renewal == 3 && l.ReservedUntil.Equal(at(21000))
		}},
		{"release by the renewal that is there", renewed, func(k protocol.Key) protocol.Write {
			return protocol.Release{Key: k, Session: "a", Version: 1, Renewal: 3, ReservedUntil: at(7)}
		}, true, func(l protocol.Lease) bool { return l.Holder == "" && l.ReservedUntil.Equal(at(7)) }},
		{"renew keeps metadata", held, func(k protocol.Key) protocol.Write { return renew(k, "a", 1, 1, 5000) }, true, func(l protocol.Lease) bool {
			return len(l.Metadata) == 1 && l.Metadata["zone"] == "a"
		}},
		{"a late renewal changes no metadata", renewed, func(k protocol.Key) protocol.Write {
			r := renew(k, "a", 1, 2, 4000)
			r.Metadata = map[string]string{"zone": "b"}
			return r
		}, false, func(l protocol.Lease) bool { return l.Metadata["zone"] == "a" }},
		{"renew again is refused and shown", renewed, func(k protocol.Key) protocol.Write { return renew(k, "a", 1, 3, 5000) }, false, func(l protocol.Lease) bool { return l.Renewal == 3 }},
		{"a late renewal is refused", renewed, func(k protocol.Key) protocol.Write { return renew(k, "a", 1, 2, 4000) }, false, nil},
		{"a renewal that follows a confirmed one", renewed, following(21000), true, func(l protocol.Lease) bool { return l.Renewal == 4 }},
		{"a renewal that follows one without an answer", renewed, following(16000, 20999, 21000), true, func(l protocol.Lease) bool { return l.Renewal == 4 }},
		{"a renewal that follows many without an answer", renewed, following(16000, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21000), true, nil},
		{"a renewal over another one of a copy is refused", renewed, following(16000, 20999, 21001), false, func(l protocol.Lease) bool { return l.Renewal == 3 }},
		{"a renewal over one of a copy is refused where none is unanswered", renewed, following(16000), false, func(l protocol.Lease) bool { return l.Renewal == 3 }},
		{"a renewal of another session is refused", held, func(k protocol.Key) protocol.Write { return renew(k, "b", 1, 1, 5000) }, false, nil},
		{"a renewal of another version is refused", held, func(k protocol.Key) protocol.Write { return renew(k, "a", 2, 1, 5000) }, false, nil},
		{"a renewal of a freed node ID is refused", func(k protocol.Key) []protocol.Write {
			return []protocol.Write{seed(k), claim(k, "a", 0), release(k, "a", 1, 10)}
		}, func(k protocol.Key) protocol.Write { return renew(k, "a", 1, 1, 5000) }, false, nil},
		{"a renewal makes no node ID", nothing, func(k protocol.Key) protocol.Write { return renew(k, "a", 1, 1, 5000) }, false, nil},
		{"release hands back what was not stamped", held, func(k protocol.Key) protocol.Write { return release(k, "a", 1, 700) }, true, func(l protocol.Lease) bool {
			return l.Holder == "" && l.ExpiresAt.IsZero() && l.Version == 1 && l.ReservedUntil.Equal(at(700))
		}},
		{"release by another session is refused", held, func(k protocol.Key) protocol.Write { return release(k, "b", 1, 700) }, false, nil},
		{"release of another version is refused", held, func(k protocol.Key) protocol.Write { return release(k, "a", 2, 700) }, false, nil},
		{"abandon undoes a claim", held, func(k protocol.Key) protocol.Write { return protocol.Abandon{Key: k, Session: "a"} }, true, func(l protocol.Lease) bool {
			return l.Holder == "" && l.Version == 1 && l.ReservedUntil.Equal(at(-1))
		}},
		{"abandon of what a copy has renewed is refused", renewed, func(k protocol.Key) protocol.Write { return protocol.Abandon{Key: k, Session: "a"} }, false, nil},
		{"abandon by another session is refused", held, func(k protocol.Key) protocol.Write { return protocol.Abandon{Key: k, Session: "b"} }, false, nil},
		{"reap frees what was seen", renewed, func(k protocol.Key) protocol.Write { return protocol.Reap{Key: k, Holder: "a", Version: 1, Renewal: 3} }, true, func(l protocol.Lease) bool {
			return l.Holder == "" && l.Version == 1 && l.ReservedUntil.Equal(at(21000)) && l.ExpiresAt.IsZero()
		}},
		{"reap leaves another holder", renewed, func(k protocol.Key) protocol.Write { return protocol.Reap{Key: k, Holder: "b", Version: 1, Renewal: 3} }, false, nil},
		{"reap leaves another version", renewed, func(k protocol.Key) protocol.Write { return protocol.Reap{Key: k, Holder: "a", Version: 2, Renewal: 3} }, false, nil},
		{"reap leaves a holder that came back", renewed, func(k protocol.Key) protocol.Write { return protocol.Reap{Key: k, Holder: "a", Version: 1, Renewal: 2} }, false, nil},
		{"force release frees a held node ID", held, func(k protocol.Key) protocol.Write { return protocol.ForceRelease{Key: k, Version: 1} }, true, func(l protocol.Lease) bool {
			return l.Holder == "" && l.ReservedUntil.Equal(at(16000))
		}},
		{"force release leaves another version", held, func(k protocol.Key) protocol.Write { return protocol.ForceRelease{Key: k, Version: 2} }, false, nil},
		{"force release of a free node ID is refused", fresh, func(k protocol.Key) protocol.Write { return protocol.ForceRelease{Key: k, Version: 0} }, false, nil},
		{"retire keeps the holder", held, func(k protocol.Key) protocol.Write { return protocol.Retire{Key: k, Retired: true} }, true, func(l protocol.Lease) bool {
			return l.Retired && l.Holder == "a" && l.Version == 1
		}},
		{"a retire of a resize before the last is refused", func(k protocol.Key) []protocol.Write {
			return []protocol.Write{seed(k), protocol.Retire{Key: k, Retired: true, Resize: 2}, protocol.Retire{Key: k, Resize: 3}}
		}, func(k protocol.Key) protocol.Write { return protocol.Retire{Key: k, Retired: true, Resize: 2} }, false, func(l protocol.Lease) bool {
			return !l.Retired && l.Resize == 3
		}},
		{"a retire of the last resize is refused when it is repeated", func(k protocol.Key) []protocol.Write {
			return []protocol.Write{seed(k), protocol.Retire{Key: k, Retired: true, Resize: 2}}
		}, func(k protocol.Key) protocol.Write { return protocol.Retire{Key: k, Resize: 2} }, false, func(l protocol.Lease) bool { return l.Retired }},
		{"a release of a session whose copy has renewed is refused", renewed, func(k protocol.Key) protocol.Write {
			return protocol.Release{Key: k, Session: "a", Version: 1, Renewal: 2, ReservedUntil: at(5)}
		}, false, func(l protocol.Lease) bool { return l.Holder == "a" && l.Renewal == 3 }},
		{"freeing a copied lease keeps what is reserved", renewed, func(k protocol.Key) protocol.Write { return freeCopy(k, "a", 1, 3) }, true, func(l protocol.Lease) bool {
			return l.Holder == "" && l.ReservedUntil.Equal(at(21000)) && *l.Previous == protocol.Previous{Session: "a", Version: 1, Ended: protocol.EndFreed}
		}},
		{"freeing a copied lease leaves another version", renewed, func(k protocol.Key) protocol.Write { return freeCopy(k, "a", 2, 3) }, false, nil},
		{"freeing a copied lease leaves another session", renewed, func(k protocol.Key) protocol.Write { return freeCopy(k, "b", 1, 3) }, false, nil},
		{"freeing a copied lease leaves a renewal that it has not seen", renewed, func(k protocol.Key) protocol.Write { return freeCopy(k, "a", 1, 2) }, false, nil},
		{"retire makes no node ID", nothing, func(k protocol.Key) protocol.Write { return protocol.Retire{Key: k, Retired: true} }, false, nil},
		{"un-retire makes no node ID", nothing, func(k protocol.Key) protocol.Write { return protocol.Retire{Key: k} }, false, nil},
		{"raise ends the lease and reserves", held, func(k protocol.Key) protocol.Write { return protocol.Raise{Key: k, To: at(90000)} }, true, func(l protocol.Lease) bool {
			return l.Holder == "" && l.ReservedUntil.Equal(at(90000)) && l.Version == 1
		}},
		{"raise lowers nothing", held, func(k protocol.Key) protocol.Write { return protocol.Raise{Key: k, To: at(15000)} }, false, nil},
		{"a mark leaves all but the try", renewed, func(k protocol.Key) protocol.Write { return mark(k, 2, 21001) }, true, func(l protocol.Lease) bool {
			return l.WidenTry == 2 && l.Holder == "a" && l.Version == 1 && l.Renewal == 3 && l.ReservedUntil.Equal(at(21000)) && l.ExpiresAt.Equal(at(20000))
		}},
		{"a mark makes a node ID that is not there", nothing, func(k protocol.Key) protocol.Write { return mark(k, 1, 500) }, true, func(l protocol.Lease) bool {
			return l.WidenTry == 1 && l.Version == 0 && l.Holder == "" && l.ReservedUntil.Equal(at(-1))
		}},
		{"no late seed makes a node ID without its mark", func(k protocol.Key) []protocol.Write { return []protocol.Write{mark(k, 1, 500)} }, seed, false, nil},
		{"a mark is refused where the new width is reserved already", renewed, func(k protocol.Key) protocol.Write { return mark(k, 2, 21000) }, false, nil},
		{"a late mark of an older try is refused", func(k protocol.Key) []protocol.Write { return []protocol.Write{seed(k), mark(k, 2, 500)} }, func(k protocol.Key) protocol.Write { return mark(k, 1, 500) }, false, nil},
		{"a mark that is there is refused and shown", func(k protocol.Key) []protocol.Write { return []protocol.Write{seed(k), mark(k, 2, 500)} }, func(k protocol.Key) protocol.Write { return mark(k, 2, 500) }, false, func(l protocol.Lease) bool { return l.WidenTry == 2 }},
		{"a claim that does not know the mark is refused", func(k protocol.Key) []protocol.Write { return []protocol.Write{seed(k), mark(k, 1, 500)} }, func(k protocol.Key) protocol.Write { return claim(k, "a", 0) }, false, nil},
		{"a claim that knows the mark is done", func(k protocol.Key) []protocol.Write { return []protocol.Write{seed(k), mark(k, 1, 500)} },
			changed(0, func(c *protocol.Claim) { c.WidenTry = 1 }), true, func(l protocol.Lease) bool { return l.Holder == "b" && l.WidenTry == 1 }},
		{"a claim by an on-demand holder says so", func(k protocol.Key) []protocol.Write { return []protocol.Write{seed(k)} },
			changed(0, func(c *protocol.Claim) { c.OnDemand = true }), true, func(l protocol.Lease) bool { return l.OnDemand }},
		{"the next claim forgets that its predecessor was on demand", func(k protocol.Key) []protocol.Write {
			before := claim(k, "a", 0)
			before.OnDemand = true
			return []protocol.Write{seed(k), before, protocol.Abandon{Key: k, Session: "a"}}
		}, changed(0, func(*protocol.Claim) {}), true, func(l protocol.Lease) bool { return l.Holder == "b" && !l.OnDemand }},
		{"a renewal that does not know the mark is refused", func(k protocol.Key) []protocol.Write {
			return []protocol.Write{seed(k), claim(k, "a", 0), mark(k, 1, 90000)}
		}, func(k protocol.Key) protocol.Write { return renew(k, "a", 1, 1, 5000) }, false, func(l protocol.Lease) bool { return l.WidenTry == 1 }},
		{"a renewal that knows the mark is done", func(k protocol.Key) []protocol.Write {
			return []protocol.Write{seed(k), claim(k, "a", 0), mark(k, 1, 90000)}
		}, func(k protocol.Key) protocol.Write {
			r := renew(k, "a", 1, 1, 5000)
			r.WidenTry = 1
			return r
		}, true, nil},
		{"a seed of a wider node ID has its mark", nothing, func(k protocol.Key) protocol.Write { return protocol.Seed{Key: k, Floor: at(90), WidenTry: 3} }, true, func(l protocol.Lease) bool {
			return l.WidenTry == 3 && l.ReservedUntil.Equal(at(90))
		}},
		{"raise makes no node ID", nothing, func(k protocol.Key) protocol.Write { return protocol.Raise{Key: k, To: at(15000)} }, false, nil},
	}
}

func (c conformanceCase) run(t *testing.T, s protocol.Store, k protocol.Key) {
	for i, w := range c.history(k) {
		if res, err := s.Write(t.Context(), w); err != nil || !res.Applied {
			t.Fatalf("write %d of the history, %+v: %+v, %v", i, w, res, err)
		}
	}
	before, err := s.Get(t.Context(), k.Pool, k.NodeID)
	if err != nil {
		t.Fatal(err)
	}
	w := c.write(k)
	res, err := s.Write(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if res.Applied != c.applied {
		t.Fatalf("applied is %v, want %v: %+v on %+v", res.Applied, c.applied, w, before)
	}
	sameAsApply(t, w, before, res)
	if c.check != nil && !c.check(*res.Lease) {
		t.Errorf("%+v left %+v", w, *res.Lease)
	}
	after, err := s.Get(t.Context(), k.Pool, k.NodeID)
	if err != nil || !reflect.DeepEqual(after, res.Lease) {
		t.Errorf("the answer was %+v, the item is %+v, %v", res.Lease, after, err)
	}
}

// reads checks Get and Group at the border of two groups and of two pools with similar
// names.
func reads(t *testing.T, s protocol.Store) {
	for _, k := range []protocol.Key{{Pool: "p", NodeID: 255}, {Pool: "p", NodeID: 256}, {Pool: "p", NodeID: 300}, {Pool: "p2", NodeID: 257}} {
		if _, err := s.Write(t.Context(), seed(k)); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := s.Get(t.Context(), "p", 257); err != nil || l != nil {
		t.Errorf("a node ID that was never seeded: %+v, %v", l, err)
	}
	g, err := s.Group(t.Context(), "p", 1)
	if err != nil || len(g.Corrupt) > 0 {
		t.Fatal(g.Corrupt, err)
	}
	got := ""
	for _, l := range g.Leases {
		got += fmt.Sprint(l.Pool, "/", l.NodeID, " ")
	}
	if want := "p/256 p/300 "; got != want {
		t.Errorf("group 1 of p is %q, want %q", got, want)
	}
}

// parts checks, if the store can read parts, that the parts of a group together are the
// whole group, even if node IDs are missing, and at the borders of groups.
func parts(t *testing.T, s protocol.Store) {
	cheap, ok := s.(protocol.PartStore)
	if !ok {
		t.Skip("the store reads whole groups")
	}
	for n := range 2 * protocol.GroupSize {
		if n%7 == 3 || n >= 300 && n < 350 {
			continue
		}
		if _, err := s.Write(t.Context(), seed(protocol.Key{Pool: "p", NodeID: n})); err != nil {
			t.Fatal(err)
		}
	}
	for group := range 3 {
		want, err := s.Group(t.Context(), "p", group)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{protocol.SmallPart, protocol.LargePart} {
			var got []protocol.Lease
			for n := range protocol.GroupSize / size {
				part := protocol.Part{N: n, Size: size}
				g, err := cheap.EventualPart(t.Context(), "p", group, part)
				if err != nil || len(g.Corrupt) > 0 {
					t.Fatal(g.Corrupt, err)
				}
				first, end := part.Bounds(group)
				for _, l := range g.Leases {
					if l.NodeID < first || l.NodeID >= end {
						t.Errorf("node ID %d is in part %+v of group %d", l.NodeID, part, group)
					}
				}
				got = append(got, g.Leases...)
			}
			if !reflect.DeepEqual(got, want.Leases) {
				t.Errorf("the parts of size %d of group %d have %d leases, the group %d", size, group, len(got), len(want.Leases))
			}
		}
	}
}

// oneOfMany checks that of many simultaneous claims of one node ID, exactly one succeeds.
func oneOfMany(t *testing.T, s protocol.Store) {
	for round := range 20 {
		k := protocol.Key{Pool: "p", NodeID: round}
		if _, err := s.Write(t.Context(), seed(k)); err != nil {
			t.Fatal(err)
		}
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				res, err := s.Write(t.Context(), claim(k, fmt.Sprint("session ", i), 0))
				if err != nil {
					t.Error(err)
				}
				if res.Applied {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("round %d: %d of 16 claims were applied", round, won.Load())
		}
	}
}
