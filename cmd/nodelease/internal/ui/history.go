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

// mostFit is how many points the projection looks back: ten minutes of turns of
// two seconds. leastFit is how many it needs.
const mostFit, leastFit = 300, 10

// slope is how fast the used share grows, in percent per millisecond, by least
// squares over the newest points without a gap; 0 where too few are known.
func (h *history) slope() float64 {
	var n, x, y, xx, xy float64
	for i := len(h.At) - 1; i >= 0 && n < mostFit && h.Used[i] != nil; i-- {
		at, used := float64(h.At[i]-h.At[len(h.At)-1]), *h.Used[i]
		n, x, y, xx, xy = n+1, x+at, y+used, xx+at*at, xy+at*used
	}
	if d := n*xx - x*x; n >= leastFit && d > 0 {
		return (n*xy - x*y) / d
	}
	return 0
}

// fullIn is how long it takes until the pool is full at the present rate; 0 where
// it does not fill within a day.
func (h *history) fullIn() time.Duration {
	last, slope := h.last(), h.slope()
	if last == nil || slope <= 0 || last.Used >= 100 {
		return 0
	}
	if d := time.Duration((100 - last.Used) / slope * float64(time.Millisecond)); d < 24*time.Hour && d > 0 {
		return max(d, time.Millisecond)
	}
	return 0
}
