package protocol

import (
	"testing"
	"time"
)

// A card is rewritten at each change and each verdict. If only the count is new, the card is
// rewritten no sooner than halfway through the time for which its count is valid.
func TestCardBehind(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	of := func(revision int64, after time.Duration) PoolItem {
		return PoolItem{Revision: revision, Measured: &Measured{At: at.Add(after), Valid: 10 * time.Minute}}
	}
	card, bare := of(3, 0), PoolItem{Revision: 3}
	vouched := of(3, 0)
	vouched.Verdict = &Verdict{At: at}
	for _, c := range []struct {
		item PoolItem
		card *PoolItem
		want bool
	}{
		{of(3, 0), nil, true},
		{of(3, 0), &card, false},
		{of(2, time.Hour), &card, false},
		{of(4, 0), &card, true},
		{vouched, &card, true},
		{of(3, 5*time.Minute-time.Millisecond), &card, false},
		{of(3, 5*time.Minute), &card, true},
		{of(3, 0), &bare, true},
	} {
		if got := Behind(c.item, c.card); got != c.want {
			t.Errorf("%+v is behind %+v: %v, want %v", c.card, c.item, got, c.want)
		}
	}
}
