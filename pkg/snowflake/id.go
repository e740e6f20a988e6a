package snowflake

import (
	"log/slog"
	"time"
)

// ID is a 64-bit number that is generated once and grows with time. It is never
// negative; 0 means "no ID" and is never generated. Time, Node and Sequence
// decode an ID with the default layout, which the package comment shows; for
// other layouts use Layout.Decompose.
type ID int64

// defaultLayout is the layout with which ID's methods decode. It never changes.
var defaultLayout = Default()

// Time returns the beginning of the millisecond of id, in UTC.
func (id ID) Time() time.Time { return defaultLayout.Decompose(id).Time }

// Node returns the node ID that generated id, 0 to 1023.
func (id ID) Node() int { return defaultLayout.Decompose(id).Node }

// Sequence returns the number of id among the IDs of its node and millisecond,
// 0 to 4095.
func (id ID) Sequence() int { return defaultLayout.Decompose(id).Sequence }

// IsZero reports whether id is "no ID". encoding/json omits a field with such an
// ID if the field is tagged omitzero.
func (id ID) IsZero() bool { return id == 0 }

// String returns the decimal digits of id.
func (id ID) String() string { return string(id.AppendDecimal(nil)) }

// LogValue logs id as a string of digits, because many readers of JSON logs
// round large numbers.
func (id ID) LogValue() slog.Value { return slog.StringValue(id.String()) }
