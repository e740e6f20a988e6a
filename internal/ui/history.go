package ui

import "time"

// history is how the pool was, a point a turn. The slices go together; nil
// stands where nobody looked.
type history struct {
	At      []int64    `json:"at"` // ms of the Unix epoch
	Used    []*float64 `json:"used"`
	Claimed []*int     `json:"claimed"`
	Ended   []*int     `json:"ended"`
}

// keptPoints is an hour of turns of two seconds.
const keptPoints = 1800

// point is the newest of a history.
type point struct {
	At      int64   `json:"at"`
	Used    float64 `json:"used"`
	Claimed int     `json:"claimed"`
	Ended   int     `json:"ended"`
}

// used is how much of the capacity is held, in percent; 100 where there is none,
// as in [leasepool.Stats].
func used(c counts) float64 {
	const held, free, cooling, expired = 0, 1, 2, 3
	capacity := c[held] + c[free] + c[cooling] + c[expired]
	if capacity == 0 {
		return 100
	}
	return 100 * float64(c[held]) / float64(capacity)
}

func (h *history) add(at time.Time, total counts, c churn) {
	share := used(total)
	h.push(at, &share, &c.claimed, &c.ended)
}

// gap marks that nobody looked before at.
func (h *history) gap(at time.Time) {
	if len(h.At) > 0 {
		h.push(at.Add(-time.Millisecond), nil, nil, nil)
	}
}

func (h *history) push(at time.Time, used *float64, claimed, ended *int) {
	cut := max(0, len(h.At)+1-keptPoints)
	h.At = append(h.At[cut:], at.UnixMilli())
	h.Used = append(h.Used[cut:], used)
	h.Claimed = append(h.Claimed[cut:], claimed)
	h.Ended = append(h.Ended[cut:], ended)
}

// last is the newest point; nil when there is none.
func (h *history) last() *point {
	i := len(h.At) - 1
	if i < 0 || h.Used[i] == nil {
		return nil
	}
	return &point{h.At[i], *h.Used[i], *h.Claimed[i], *h.Ended[i]}
}
