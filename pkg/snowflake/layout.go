package snowflake

import (
	"errors"
	"fmt"
	"time"
)

// Layout describes the meaning of an ID's bits. It is a value: there is no
// global setting, and one program may use several layouts. From the highest bit
// down, an ID is
//
//	time | node | sequence      or, with NodeLast,      time | sequence | node
//
// with zeros above. If a span makes the node ID narrower (Span.Eras), the freed
// bits extend the sequence at its upper end, above the node ID.
type Layout struct {
	Epoch        time.Time     // time zero of the time field; a whole millisecond
	Tick         time.Duration // one step of the time field: 1 ms or 10 ms
	TimeBits     uint8
	NodeBits     uint8
	SequenceBits uint8
	NodeLast     bool // the node ID is below the sequence, as in sonyflake
}

// maxYears limits the length of the time field, so that every time of a layout
// fits an int64 of nanoseconds since the layout's epoch.
const maxYears = 290

// Validate returns an error with all problems of l, or nil.
func (l Layout) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if l.Tick != time.Millisecond && l.Tick != 10*time.Millisecond {
		bad("a tick of %v; use 1ms or 10ms", l.Tick)
	}
	if y := l.Epoch.Year(); y < 1970 || y > 2200 || l.Epoch.Nanosecond()%int(time.Millisecond) != 0 {
		bad("an epoch of %v; use a whole millisecond from 1970 to 2200", l.Epoch)
	}
	if l.TimeBits == 0 || l.SequenceBits == 0 {
		bad("%d time bits and %d sequence bits; use at least one of each", l.TimeBits, l.SequenceBits)
	}
	if l.NodeBits > 16 {
		bad("%d node bits; use at most 16", l.NodeBits)
	}
	if sum := int(l.TimeBits) + int(l.NodeBits) + int(l.SequenceBits); sum > 63 {
		bad("%d + %d + %d bits are %d; use 63", l.TimeBits, l.NodeBits, l.SequenceBits, sum)
	} else if l.TimeBits > 43 || l.ms(1<<l.TimeBits) > maxYears*365*24*3600*1000 {
		bad("%d time bits of %v are more than %d years; use fewer", l.TimeBits, l.Tick, maxYears)
	}
	if errs != nil {
		return fmt.Errorf("snowflake: layout: %w", errors.Join(errs...))
	}
	return nil
}

// Expires returns the first time that IDs of layout l cannot represent. From
// then on, calls fail with ErrTimeOverflow.
func (l Layout) Expires() time.Time { return l.at(1 << l.TimeBits) }

// Nodes returns the number of node IDs: 0 … Nodes-1.
func (l Layout) Nodes() int { return 1 << l.NodeBits }

// JavaScriptSafe reports whether every ID is at most 2^53-1, the largest integer
// that a JavaScript number distinguishes from its neighbours.
func (l Layout) JavaScriptSafe() bool {
	return int(l.TimeBits)+int(l.NodeBits)+int(l.SequenceBits) <= 53
}

// String describes the layout: its widths, its start and end dates, its number
// of nodes and the IDs per second of each.
func (l Layout) String() string {
	order := fmt.Sprintf("%d time, %d node, %d sequence", l.TimeBits, l.NodeBits, l.SequenceBits)
	if l.NodeLast {
		order = fmt.Sprintf("%d time, %d sequence, %d node", l.TimeBits, l.SequenceBits, l.NodeBits)
	}
	perSecond := int(time.Second/max(l.Tick, 1)) << l.SequenceBits // that one node can generate
	return fmt.Sprintf("%s bits of %v from %s until %s; %d nodes, %d IDs/s each",
		order, l.Tick, l.Epoch.UTC().Format(time.DateOnly), l.Expires().Format(time.DateOnly), l.Nodes(), perSecond)
}

// Parts is a decoded ID.
type Parts struct {
	Time     time.Time // when its tick began, in UTC
	Node     int       // the node field; if the node ID was narrower, this includes the upper end of the sequence
	Sequence int
}

// Compose returns the ID of node with the given sequence number in the tick of
// t. It is for tests, migrations and queries. Do not use it to make new IDs:
// only a generator can tell which IDs are unused.
func (l Layout) Compose(t time.Time, node, sequence int) (ID, error) {
	if err := l.Validate(); err != nil {
		return 0, err
	}
	var errs []error
	if t.Before(l.Epoch) || !t.Before(l.Expires()) {
		errs = append(errs, fmt.Errorf("snowflake: %v is not from %v to %v", t, l.Epoch, l.Expires()))
	}
	if node < 0 || node >= l.Nodes() {
		errs = append(errs, fmt.Errorf("snowflake: node %d does not fit %d bits", node, l.NodeBits))
	}
	if sequence < 0 || sequence >= 1<<l.SequenceBits {
		errs = append(errs, fmt.Errorf("snowflake: sequence %d does not fit %d bits", sequence, l.SequenceBits))
	}
	if errs != nil {
		return 0, errors.Join(errs...)
	}
	return l.compose(l.tickOf(t.UnixMilli()), uint64(node), uint64(sequence)), nil
}

func (l Layout) compose(tick, node, sequence uint64) ID {
	if l.NodeLast {
		return ID((tick<<l.SequenceBits|sequence)<<l.NodeBits | node)
	}
	return ID((tick<<l.NodeBits|node)<<l.SequenceBits | sequence)
}

// Decompose decodes id. The result is meaningless if id has a different layout.
func (l Layout) Decompose(id ID) Parts {
	low := uint64(id) & (1<<(l.NodeBits+l.SequenceBits) - 1)
	p := Parts{Time: l.at(uint64(id) >> (l.NodeBits + l.SequenceBits))}
	if l.NodeLast {
		p.Sequence, p.Node = int(low>>l.NodeBits), int(low&(1<<l.NodeBits-1))
	} else {
		p.Node, p.Sequence = int(low>>l.SequenceBits), int(low&(1<<l.SequenceBits-1))
	}
	return p
}

// First and Last return the smallest and the largest ID of any node in the
// tick of t: WHERE id BETWEEN First(from) AND Last(to). A time before the epoch is
// treated as the epoch, and a time past the end as the end.
func (l Layout) First(t time.Time) ID { return l.compose(l.clamp(t), 0, 0) }

// Last is described with First.
func (l Layout) Last(t time.Time) ID {
	return l.compose(l.clamp(t), 1<<l.NodeBits-1, 1<<l.SequenceBits-1)
}

func (l Layout) clamp(t time.Time) uint64 { return min(l.tickOf(t.UnixMilli()), 1<<l.TimeBits-1) }

// tickOf returns the tick of a Unix millisecond, or 0 before the epoch.
func (l Layout) tickOf(ms int64) uint64 {
	epoch := l.Epoch.UnixMilli()
	if ms <= epoch { // the difference may not fit an int64
		return 0
	}
	return (uint64(ms) - uint64(epoch)) / uint64(max(l.Tick.Milliseconds(), 1))
}

// ms returns the milliseconds of n ticks.
func (l Layout) ms(n uint64) int64 { return int64(n) * l.Tick.Milliseconds() }

// at returns the time at which a tick begins, in UTC.
func (l Layout) at(tick uint64) time.Time {
	return time.UnixMilli(l.Epoch.UnixMilli() + l.ms(tick)).UTC()
}

// endOf returns the last millisecond of a tick.
func (l Layout) endOf(tick uint64) time.Time { return l.at(tick + 1).Add(-time.Millisecond) }

func (l Layout) equal(o Layout) bool {
	same := l.Epoch.Equal(o.Epoch)
	l.Epoch = o.Epoch // compare only the other fields directly: a time.Time also has a location
	return same && l == o
}

// Package leasepool lists the layouts below with the names by which pools and the CLI know
// them. TestEveryLayoutHasAName fails if one is missing there.

// Default returns the layout with 41 time, 10 node and 12 sequence bits from
// 2025-01-01: until 2094-09-07, 1,024 nodes, 4,096,000 IDs/s each.
func Default() Layout { return millis(date(2025, 1, 1), 41, 10, 12) }

// Wide16 is 41/16/6 from 2025-01-01: until 2094-09-07, 65,536 nodes, 64,000
// IDs/s each. If the node ID is narrower (Span.Eras), every freed bit doubles
// the rate of each node.
func Wide16() Layout { return millis(date(2025, 1, 1), 41, 16, 6) }

// JS53 is 41/6/6 from 2025-01-01, 53 bits in all, so that a JavaScript number
// can represent every ID exactly: until 2094-09-07, 64 nodes, 64,000 IDs/s each.
func JS53() Layout { return millis(date(2025, 1, 1), 41, 6, 6) }

// Twitter is the layout of Twitter's snowflake, for existing IDs: 41/10/12 from
// 2010-11-04T01:42:54.657Z, until 2080-07-10.
// (github.com/twitter-archive/snowflake, IdWorker.scala; its 5 data centre and 5
// worker bits are one node field here.)
func Twitter() Layout { return millis(time.UnixMilli(1288834974657), 41, 10, 12) }

// Discord is the layout of Discord's IDs: 10 node bits (5 worker, 5 process) and
// 12 of increment from 2015-01-01. Discord has 42 time bits, in an unsigned
// number; an ID here is never negative, so this layout has 41: until 2084-09-06.
// (discord.com/developers/docs/reference, "Snowflakes".)
func Discord() Layout { return millis(date(2015, 1, 1), 41, 10, 12) }

// Sonyflake is the layout of sony/sonyflake v1 with its default start time: 39
// time bits of 10 ms, 8 of sequence and 16 of node below it from 2014-09-01, until
// 2188-11-16; 65,536 nodes, 25,600 IDs/s each.
// (github.com/sony/sonyflake, sonyflake.go.)
func Sonyflake() Layout {
	return Layout{Epoch: date(2014, 9, 1), Tick: 10 * time.Millisecond, TimeBits: 39, NodeBits: 16, SequenceBits: 8, NodeLast: true}
}

func millis(epoch time.Time, timeBits, nodeBits, sequenceBits uint8) Layout {
	return Layout{Epoch: epoch.UTC(), Tick: time.Millisecond, TimeBits: timeBits, NodeBits: nodeBits, SequenceBits: sequenceBits}
}

func date(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}
