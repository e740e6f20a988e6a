package ui

import "time"

// history records how full the pool was, with one point per turn. The slices have the same
// length; nil marks a gap, in which nothing was read.
type history struct {
	At      []int64    `json:"at"` // ms of the Unix epoch
	Used    []*float64 `json:"used"`
	Claimed []*int     `json:"claimed"`
	Ended   []*int     `json:"ended"`
}

const (
	// finePoints is the number of turns of two seconds in an hour. Points that are older
	// than fineFor, or beyond this number, are reduced to one point per minute.
	finePoints = 1800
	fineFor    = time.Hour
	keptFor    = 24 * time.Hour
	// mostPoints is the number of points above which the history is reduced. After a
	// reduction there are at most finePoints points, plus a point and a gap for each minute
	// of keptFor.
	mostPoints = 5000
)

// point is the newest point of a history.
type point struct {
	At      int64   `json:"at"`
	Used    float64 `json:"used"`
	Claimed int     `json:"claimed"`
	Ended   int     `json:"ended"`
}

// used returns how much of the capacity is held, in percent. It returns 100 if there is no
// capacity, as [leasepool.Stats] does.
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

// gap records that the pool was not read for some time before at.
func (h *history) gap(at time.Time) {
	if len(h.At) > 0 {
		h.push(at.Add(-time.Millisecond), nil, nil, nil)
	}
}

// push adds a point, or a gap. If the clock was set back, the points that are now in the
// future go, since the chart and the projection need times in order. The page does the same
// (pool.js).
func (h *history) push(at time.Time, used *float64, claimed, ended *int) {
	n := len(h.At)
	for n > 0 && h.At[n-1] > at.UnixMilli() {
		n--
	}
	h.At, h.Used, h.Claimed, h.Ended = h.At[:n], h.Used[:n], h.Claimed[:n], h.Ended[:n]
	h.At = append(h.At, at.UnixMilli())
	h.Used = append(h.Used, used)
	h.Claimed = append(h.Claimed, claimed)
	h.Ended = append(h.Ended, ended)
	if len(h.At) > mostPoints {
		h.thin()
	}
}

// thin drops points older than keptFor, and reduces each minute before the newest points to
// one point, with the highest use in that minute and the sum of its changes of holders. The
// page does the same (pool.js).
func (h *history) thin() {
	last := h.At[len(h.At)-1]
	from, fine := last-keptFor.Milliseconds(), max(last-fineFor.Milliseconds(), h.At[max(len(h.At)-finePoints, 0)])
	var short history
	minute, gapIn := int64(-1), int64(-1)
	for i, at := range h.At {
		k, this := len(short.At)-1, at/time.Minute.Milliseconds()
		switch {
		case at < from:
		case at < fine && h.Used[i] == nil && (k < 0 || short.Used[k] == nil || gapIn == this):
		case at < fine && h.Used[i] != nil && minute == this && short.Used[k] != nil:
			used, claimed, ended := max(*short.Used[k], *h.Used[i]), *short.Claimed[k]+*h.Claimed[i], *short.Ended[k]+*h.Ended[i]
			short.At[k], short.Used[k], short.Claimed[k], short.Ended[k] = at, &used, &claimed, &ended
		default:
			if minute = this; h.Used[i] == nil {
				gapIn = this
			}
			short.At, short.Used = append(short.At, at), append(short.Used, h.Used[i])
			short.Claimed, short.Ended = append(short.Claimed, h.Claimed[i]), append(short.Ended, h.Ended[i])
		}
	}
	*h = short
}

// last returns the newest point, or nil if there is no point or the newest one is a gap.
func (h *history) last() *point {
	i := len(h.At) - 1
	if i < 0 || h.Used[i] == nil {
		return nil
	}
	return &point{h.At[i], *h.Used[i], *h.Claimed[i], *h.Ended[i]}
}

// fitFor is how far the projection looks back, and leastFit is how many points it needs.
const (
	fitFor   = 10 * time.Minute
	leastFit = 10
)

// slope returns how fast the used share grows, in percent per millisecond, or 0 if too few
// points are known. It is at most the slope of the newest quarter of fitFor, because a
// fleet that has just started and is now steady no longer grows.
func (h *history) slope() float64 { return min(h.slopeOver(fitFor), h.slopeOver(fitFor/4)) }

// slopeOver returns the slope, by least squares, of the newest points without a gap.
func (h *history) slopeOver(d time.Duration) float64 {
	var n, x, y, xx, xy float64
	for i := len(h.At) - 1; i >= 0 && h.Used[i] != nil && h.At[len(h.At)-1]-h.At[i] <= d.Milliseconds(); i-- {
		at, used := float64(h.At[i]-h.At[len(h.At)-1]), *h.Used[i]
		n, x, y, xx, xy = n+1, x+at, y+used, xx+at*at, xy+at*used
	}
	if spread := n*xx - x*x; n >= leastFit && spread > 0 {
		return (n*xy - x*y) / spread
	}
	return 0
}

// highest returns the highest use in the time over which the projection looks back.
func (h *history) highest() (most float64) {
	for i := len(h.At) - 1; i >= 0 && h.Used[i] != nil && h.At[len(h.At)-1]-h.At[i] <= fitFor.Milliseconds(); i-- {
		most = max(most, *h.Used[i])
	}
	return most
}

// fullIn returns how long it takes until the pool is full at the present rate, or 0 if the
// pool will not be full within a day.
func (h *history) fullIn() time.Duration {
	last, slope := h.last(), h.slope()
	if last == nil || slope <= 0 || last.Used >= 100 || last.Used < h.highest()-1 {
		return 0 // if the pool was fuller lately, its use fluctuates and does not grow
	}
	if d := time.Duration((100 - last.Used) / slope * float64(time.Millisecond)); d < 24*time.Hour && d > 0 {
		return max(d, time.Millisecond)
	}
	return 0
}
