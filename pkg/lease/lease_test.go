package lease_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// A lease has the same JSON, whether it comes from an agent or from leasepool. The
// compiler compares the types' fields, but not their tags.
func TestLeaseHasTheFieldsOfTheItem(t *testing.T) {
	ours, stored := reflect.TypeFor[lease.Lease](), reflect.TypeFor[leasepool.Lease]()
	for i := range stored.NumField() {
		got, want := ours.Field(i), stored.Field(i)
		if got.Name != want.Name || got.Tag != want.Tag || got.Type != want.Type {
			t.Errorf("field %d: got %s %v `%s`, want %s %v `%s`", i, got.Name, got.Type, got.Tag, want.Name, want.Type, want.Tag)
		}
	}
}

// The methods of a Lease return the same values as those of the item.
func TestLeaseAnswersAsTheItem(t *testing.T) {
	now := time.Now()
	states := map[lease.State]bool{}
	for _, l := range []protocol.Lease{
		{},
		{Retired: true},
		{ReservedUntil: now.Add(time.Second), Previous: &protocol.Previous{Session: "a", Version: 1, Ended: protocol.EndFreed}},
		{Holder: "b", Version: 2, TTL: time.Minute, TakenFrom: "a", ExpiresAt: now.Add(time.Second), ReservedUntil: now.Add(time.Minute)},
		{Holder: "b", Version: 2, TTL: time.Minute, ExpiresAt: now.Add(-time.Second), ReservedUntil: now.Add(time.Minute)},
	} {
		got := lease.Lease(l)
		if got.State(now) != lease.State(l.State(now)) || got.Fenced() != l.Fenced() || !got.IDsUntil().Equal(l.IDsUntil()) || !reflect.DeepEqual(got.Predecessor(), l.Predecessor()) {
			t.Errorf("lease %+v: got %s, %t, %v, %+v; want %s, %t, %v, %+v", l,
				got.State(now), got.Fenced(), got.IDsUntil(), got.Predecessor(), l.State(now), l.Fenced(), l.IDsUntil(), l.Predecessor())
		}
		states[got.State(now)] = true
	}
	for _, s := range []lease.State{lease.Free, lease.Held, lease.Expired, lease.Cooling, lease.Retired} {
		if !states[s] {
			t.Errorf("no lease was %s", s)
		}
	}
}
