package protocoltest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// sameAsApply compares a store's answer with the result of the write's Apply.
func sameAsApply(t *testing.T, w protocol.Write, before *protocol.Lease, res protocol.Result) {
	t.Helper()
	want, applied := w.Apply(before)
	if !applied {
		if res.Applied || !reflect.DeepEqual(res.Lease, before) {
			t.Fatalf("%+v on %+v: got %+v, want a refusal that shows the item", w, before, res)
		}
		return
	}
	if !res.Applied || res.Lease == nil || !reflect.DeepEqual(*res.Lease, want) {
		t.Fatalf("%+v on %+v:\ngot  %v %+v\nwant %+v", w, before, res.Applied, res.Lease, want)
	}
}

// randomWrites does thousands of writes with values that are close together, so that
// every comparison is tested from below, from above and at equality.
func randomWrites(t *testing.T, s protocol.Store) {
	seeds := [2]uint64{rand.Uint64(), rand.Uint64()}
	t.Logf("rand.NewPCG(%d, %d)", seeds[0], seeds[1])
	r := rand.New(rand.NewPCG(seeds[0], seeds[1]))
	sessions := []string{"a", "b"}
	model := map[protocol.Key]*protocol.Lease{}
	for range 3000 {
		k := protocol.Key{Pool: "random", NodeID: r.IntN(3)}
		version, renewal, session, ms := int64(r.IntN(3)), int64(r.IntN(3)), sessions[r.IntN(2)], r.IntN(4)-2
		cur := model[k]
		if cur != nil { // usually close to the actual value
			version, renewal = cur.Version+int64(r.IntN(2)*r.IntN(2)), cur.Renewal+int64(r.IntN(3)-1)
			ms += int(cur.ReservedUntil.Sub(t0).Milliseconds())
		}
		var w protocol.Write
		switch r.IntN(14) {
		case 0:
			w = protocol.Seed{Key: k, Floor: at(ms)}
		case 1, 2, 3:
			c := claim(k, session, ms-2+r.IntN(4))
			c.ClaimGuard, c.ExpiresAt, c.ReservedUntil = 2*time.Millisecond, at(ms+r.IntN(3)), at(ms+r.IntN(6))
			c.Metadata, c.WidenTry, c.OnDemand = map[string]string{}, int64(r.IntN(4)), r.IntN(2) == 0
			w = c
		case 4, 5:
			n := renew(k, session, version, renewal, 0)
			n.ExpiresAt, n.ReservedUntil, n.WidenTry = at(ms+1), at(ms+2), int64(r.IntN(4))
			n.Confirmed, n.Asked = at(ms), []time.Time{at(ms + 1 + r.IntN(2))}
			if r.IntN(2) == 0 {
				n.Metadata = map[string]string{"ms": fmt.Sprint(ms)}
			}
			w = n
		case 6:
			n := release(k, session, version, ms).(protocol.Release)
			n.Renewal = renewal
			w = n
		case 7:
			w = protocol.Abandon{Key: k, Session: session}
		case 8:
			w = protocol.Reap{Key: k, Holder: session, Version: version, Renewal: renewal}
		case 9:
			w = protocol.ForceRelease{Key: k, Version: version}
		case 10:
			w = protocol.Retire{Key: k, Retired: r.IntN(4) == 0, Resize: 1 + int64(r.IntN(40))}
		case 13:
			w = freeCopy(k, session, version, renewal)
		case 12:
			w = protocol.Mark{Key: k, Try: int64(1 + r.IntN(3)), From: at(ms + r.IntN(3)), Floor: at(ms)}
		case 11:
			w = protocol.Raise{Key: k, To: at(ms)}
		}
		res, err := s.Write(t.Context(), w)
		if err != nil {
			t.Fatalf("%+v on %+v: %v", w, cur, err)
		}
		sameAsApply(t, w, cur, res)
		if res.Applied {
			model[k] = res.Lease
		}
	}
}
