package snowflake

import (
	"log/slog"
	"time"
)

// ID is a 64-bit number that is made once and grows with time. It is never
// negative; 0 is "no ID" and is never made. Time, Node and Sequence read it with
// the default layout, drawn at the top of this page; for others use
// Layout.Decompose.
type ID int64

// defaultLayout is Default: nobody can change it.
var defaultLayout = Default()

// Time is when the millisecond of id began, in UTC.
func (id ID) Time() time.Time { return defaultLayout.Decompose(id).Time }

// Node is the node ID that made id, 0 to 1023.
func (id ID) Node() int { return defaultLayout.Decompose(id).Node }

// Sequence numbers the IDs of one node in one millisecond, 0 to 4095.
func (id ID) Sequence() int { return defaultLayout.Decompose(id).Sequence }

// IsZero reports whether id is "no ID". encoding/json leaves such a field out if it
// is tagged omitzero.
func (id ID) IsZero() bool { return id == 0 }

// String is the decimal digits of id.
func (id ID) String() string { return string(id.AppendDecimal(nil)) }

// LogValue logs id as its digits: readers of JSON logs round numbers.
func (id ID) LogValue() slog.Value { return slog.StringValue(id.String()) }
