package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// grownModel returns a pool of 100 node IDs with one holder whose lease has grown to a
// quarter of an hour. left is the time left in that lease, held is how many node IDs were
// held at the last measurement, and measured is the age of that measurement.
func grownModel(now time.Time, left time.Duration, held int, measured time.Duration) *model {
	m := &model{pool: protocol.PoolItem{Pool: "orders", Size: 100, OpenGroups: 1}}
	if measured > 0 {
		m.pool.Measured = &protocol.Measured{Held: held, At: now.Add(-measured), Valid: 10 * time.Minute}
	}
	l := protocol.Lease{Pool: "orders", Holder: "s", Version: 1, TTL: 15 * time.Minute, ExpiresAt: now.Add(left)}
	l.ReservedUntil = l.ExpiresAt.Add(3 * time.Hour)
	m.read(0, protocol.Group{Leases: []protocol.Lease{l}}, now, newChange())
	return m
}

// While leases grow, a holder that has not renewed when three tenths of its lease are left
// is late, because even after an outage a healthy holder renews when two thirds of its
// lease have passed. If leases may no longer grow, the holder waits until only the length
// of a short lease is left, and is not late before then.
func TestGrownLeasesThatWaitAreNotLate(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		left     time.Duration
		held     int
		measured time.Duration
		late     bool
	}{
		"room, renewed in time":          {7 * time.Minute, 10, time.Minute, false},
		"room, first after an outage":    {5*time.Minute + time.Second, 10, time.Minute, false},
		"room, overdue":                  {4 * time.Minute, 10, time.Minute, true},
		"full, waits":                    {5 * time.Minute, 80, time.Minute, false},
		"full, waits to the end":         {12 * time.Second, 80, time.Minute, false},
		"full, overdue":                  {5 * time.Second, 80, time.Minute, true},
		"not measured for long, waits":   {5 * time.Minute, 10, time.Hour, false},
		"not measured for long, overdue": {5 * time.Second, 10, time.Hour, true},
		"never measured, overdue":        {4 * time.Minute, 0, 0, true},
	} {
		m := grownModel(now, c.left, c.held, c.measured)
		next, _ := m.late()
		if found := m.find("state=late"); len(next) == 1 != c.late || len(found) != len(next) {
			t.Errorf("%s: %d late, %d found, want late %v", name, len(next), len(found), c.late)
		}
	}
}

// A lease with a long configured TTL is renewed as usual, however full the pool is.
func TestLongLeasesThatHaveNotGrownAreLate(t *testing.T) {
	now := time.Now()
	m := grownModel(now, time.Minute, 80, time.Minute)
	l := protocol.Lease{Pool: "orders", Holder: "s", Version: 1, TTL: 15 * time.Minute, ExpiresAt: now.Add(5 * time.Minute), ReservedUntil: now.Add(5*time.Minute + time.Second)}
	m.read(0, protocol.Group{Leases: []protocol.Lease{l}}, now, newChange())
	if next, _ := m.late(); len(next) != 1 {
		t.Errorf("%d late, want 1", len(next))
	}
}

// The page shows the effect of an outage, as stats does.
func TestPageSaysWhatAnOutageWouldDo(t *testing.T) {
	now := time.Now()
	s := pooled(nil)
	if got := s.status().Outage; got != "" {
		t.Errorf("without holders: got %q", got)
	}
	s.model = *grownModel(now, 10*time.Minute, 10, time.Minute)
	if got := s.status().Outage; !strings.HasPrefix(got, "If DynamoDB went away now: 1 holder makes IDs for at least 1 h, 1 for at least 5 min, the first stops in 3 h 9 min.") {
		t.Errorf("got %q", got)
	}
}
