package snowflake

import "time"

// Default is 41 time, 10 node and 12 sequence bits from 2025-01-01: until
// 2094-09-07, 1,024 nodes, 4,096,000 IDs/s each.
func Default() Layout { return millis(date(2025, 1, 1), 41, 10, 12) }

// Wide16 is 41/16/6 from 2025-01-01: until 2094-09-07, 65,536 nodes, 64,000 IDs/s
// each. With a narrowed node (Span.Eras) each makes up to 64 IDs/ms more
// per value of the bits set free.
func Wide16() Layout { return millis(date(2025, 1, 1), 41, 16, 6) }

// JS53 is 41/6/6 from 2025-01-01, 53 bits in all, so that JavaScript's numbers
// hold every ID: until 2094-09-07, 64 nodes, 64,000 IDs/s each.
func JS53() Layout { return millis(date(2025, 1, 1), 41, 6, 6) }

// Twitter is the layout of Twitter's snowflake, for those who have its IDs:
// 41/10/12 from 2010-11-04T01:42:54.657Z, until 2080-07-10.
// (github.com/twitter-archive/snowflake, IdWorker.scala; its 5 data centre and 5
// worker bits are one node field here.)
func Twitter() Layout { return millis(time.UnixMilli(1288834974657), 41, 10, 12) }

// Discord is the layout of Discord's IDs: 10 node bits (5 worker, 5 process) and
// 12 of increment from 2015-01-01. Discord has 42 time bits, in an unsigned
// number; an ID here is never negative, so 41 of them: until 2084-09-06.
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
