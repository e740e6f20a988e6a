package protocol

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Measured is the last count of the pool's node IDs.
type Measured struct {
	Held    int       `json:"held"`
	Cooling int       `json:"cooling"` // not held, or held by a dead process, and still reserved
	At      time.Time `json:"at"`
	// Valid is how long the count is valid, from At on.
	Valid time.Duration `json:"valid_ns,omitempty"`

	odd types.AttributeValue // see asStored
}

// Fresh reports whether the measurement is still valid at now. A measurement that was made
// more than skew in the future is not valid, because some clock must have been wrong.
func (m *Measured) Fresh(now time.Time, skew time.Duration) bool {
	return m != nil && m.Held >= 0 && m.Cooling >= 0 && !m.At.After(now.Add(skew)) && now.Before(m.At.Add(m.Valid))
}

// mostValid bounds the validity of a measurement.
const mostValid = 24 * time.Hour

// stored returns m as stored in the item.
func (m *Measured) stored() measured {
	return measured{Held: m.Held, Cooling: m.Cooling, At: m.At.UnixMilli(), ValidMS: m.Valid.Milliseconds()}
}

// item returns m as stored in the pool's item.
func (m *Measured) item() types.AttributeValue { return encoded(m.stored()) }

// seen returns m as it was read from the pool's item.
func (m *Measured) seen() types.AttributeValue {
	if m.odd != nil {
		return m.odd
	}
	return m.item()
}

// Measure stores a count of the pool's node IDs. Seen is the measurement that the writer
// read before it counted: of several concurrent writers, only one succeeds. A new count
// is not a change of the pool, so the revision stays the same.
type Measure struct {
	Pool     string
	Seen     *Measured // nil: there was none
	Measured Measured
}

// PoolName implements [PoolWrite].
func (w Measure) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w Measure) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil || (old.Measured == nil) != (w.Seen == nil) || w.Seen != nil && w.Seen.stored() != old.Measured.stored() {
		return PoolItem{}, false
	}
	p, m := *old, w.Measured
	m.At, m.Valid = Trunc(m.At), m.Valid.Truncate(time.Millisecond)
	p.Measured = &m
	return p, true
}

// No change of the pool depends on a count. So this write is conditional on the previous
// count, not on the revision, and does not increment the revision.
func (w Measure) update() update {
	u := update{
		set:    "SET measured = :measured",
		onlyIf: "attribute_not_exists(measured)",
		values: attributes{":format": num(ItemFormat), ":measured": w.Measured.item()},
	}
	if w.Seen != nil {
		u.onlyIf = "measured = :seen"
		u.values[":seen"] = w.Seen.seen()
	}
	u.onlyIf = "item_format = :format AND " + u.onlyIf
	return u
}
