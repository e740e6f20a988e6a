package snowflake_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

var layouts = map[string]snowflake.Layout{
	"default":   snowflake.Default(),
	"wide16":    snowflake.Wide16(),
	"js53":      snowflake.JS53(),
	"twitter":   snowflake.Twitter(),
	"discord":   snowflake.Discord(),
	"sonyflake": snowflake.Sonyflake(),
}

// Real IDs of others, and what their makers' documentation says is in them.
func TestIDsOfOthers(t *testing.T) {
	for _, c := range []struct {
		layout string
		id     ID
		time   string
		node   int
		seq    int
	}{
		// en.wikipedia.org/wiki/Snowflake_ID: a tweet of June 2022 by worker 378.
		{"twitter", 1541815603606036480, "2022-06-28T16:07:40.105Z", 378, 0},
		// discord.com/developers/docs/reference: worker 1, process 0, increment 7.
		{"discord", 175928847299117063, "2016-04-30T11:18:25.796Z", 1 << 5, 7},
		// sonyflake v1.2.0's own test values: elapsed<<24 | sequence<<16 | machine.
		{"sonyflake", 1000<<24 | 3<<16 | 258, "2014-09-01T00:00:10Z", 258, 3},
		{"default", 1<<22 | 2<<12 | 3, "2025-01-01T00:00:00.001Z", 2, 3},
	} {
		l := layouts[c.layout]
		p := l.Decompose(c.id)
		if got := p.Time.Format(time.RFC3339Nano); got != c.time || p.Node != c.node || p.Sequence != c.seq {
			t.Errorf("%s %d: %s %d %d; want %s %d %d", c.layout, c.id, got, p.Node, p.Sequence, c.time, c.node, c.seq)
		}
		if id, err := l.Compose(p.Time, p.Node, p.Sequence); id != c.id || err != nil {
			t.Errorf("%s: composed again %d, %v; want %d", c.layout, id, err, c.id)
		}
	}
}

// The docs of the layouts say these.
func TestLayoutsSayHowFarTheyGo(t *testing.T) {
	for name, want := range map[string]string{
		"default":   "41 time, 10 node, 12 sequence bits of 1ms from 2025-01-01 until 2094-09-07; 1024 nodes, 4096000 IDs/s each",
		"wide16":    "41 time, 16 node, 6 sequence bits of 1ms from 2025-01-01 until 2094-09-07; 65536 nodes, 64000 IDs/s each",
		"js53":      "41 time, 6 node, 6 sequence bits of 1ms from 2025-01-01 until 2094-09-07; 64 nodes, 64000 IDs/s each",
		"twitter":   "41 time, 10 node, 12 sequence bits of 1ms from 2010-11-04 until 2080-07-10; 1024 nodes, 4096000 IDs/s each",
		"discord":   "41 time, 10 node, 12 sequence bits of 1ms from 2015-01-01 until 2084-09-06; 1024 nodes, 4096000 IDs/s each",
		"sonyflake": "39 time, 8 sequence, 16 node bits of 10ms from 2014-09-01 until 2188-11-16; 65536 nodes, 25600 IDs/s each",
	} {
		l := layouts[name]
		if err := l.Validate(); err != nil || l.String() != want {
			t.Errorf("%s: %v, %v; want %s", name, l, err, want)
		}
		if l.JavaScriptSafe() != (name == "js53") {
			t.Errorf("%s: safe in JavaScript: %v", name, l.JavaScriptSafe())
		}
	}
}

func TestLayoutRefuses(t *testing.T) {
	for want, change := range map[string]func(l *snowflake.Layout){
		"use 1ms or 10ms":            func(l *snowflake.Layout) { l.Tick = time.Second },
		"whole millisecond":          func(l *snowflake.Layout) { l.Epoch = l.Epoch.Add(time.Microsecond) },
		"an epoch of 0001-01-01":     func(l *snowflake.Layout) { l.Epoch = time.Time{} },
		"0 time bits":                func(l *snowflake.Layout) { l.TimeBits = 0 },
		"0 sequence bits":            func(l *snowflake.Layout) { l.SequenceBits = 0 },
		"41 + 10 + 13 bits are 64":   func(l *snowflake.Layout) { l.SequenceBits = 13 },
		"255 + 10 + 12 bits are 277": func(l *snowflake.Layout) { l.TimeBits = 255 },
		"17 node bits":               func(l *snowflake.Layout) { l.NodeBits = 17 },
		"more than 290 years":        func(l *snowflake.Layout) { l.TimeBits, l.NodeBits = 44, 7 },
		"40 time bits of 10ms are":   func(l *snowflake.Layout) { l.TimeBits, l.Tick = 40, 10*time.Millisecond },
	} {
		l := snowflake.Default()
		change(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
		if _, err := snowflake.New(snowflake.Fixed(1), snowflake.WithLayout(l)); err == nil {
			t.Errorf("%s: New took it", want)
		}
	}
	if err := (snowflake.Layout{}).Validate(); err == nil || strings.Count(err.Error(), "\n") < 2 {
		t.Errorf("not all problems at once: %v", err)
	}
}

func TestComposeAndDecompose(t *testing.T) {
	for name, l := range layouts {
		rng := rand.New(rand.NewPCG(1, 2))
		span := l.Expires().Sub(l.Epoch) / l.Tick
		for range 1000 {
			at := l.Epoch.Add(time.Duration(rng.Int64N(int64(span))) * l.Tick)
			node, seq := rng.IntN(l.Nodes()), rng.IntN(1<<l.SequenceBits)
			id, err := l.Compose(at.Add(l.Tick-1), node, seq)
			if p := l.Decompose(id); err != nil || id < 0 || !p.Time.Equal(at) || p.Node != node || p.Sequence != seq {
				t.Fatalf("%s %v %d %d: %+v, %v", name, at, node, seq, p, err)
			}
			if id < l.First(at) || id > l.Last(at) || l.First(at) != l.Last(at.Add(-l.Tick))+1 && at.After(l.Epoch) {
				t.Fatalf("%s %v: %d is not in %d to %d", name, at, id, l.First(at), l.Last(at))
			}
		}
		if l.First(l.Epoch.Add(-time.Hour)) != 0 || l.Last(l.Expires().Add(time.Hour)) != l.Last(l.Expires().Add(-1)) {
			t.Errorf("%s: a range over the ends", name)
		}
		for _, f := range []func() (ID, error){
			func() (ID, error) { return l.Compose(l.Epoch.Add(-1), 0, 0) },
			func() (ID, error) { return l.Compose(l.Expires(), 0, 0) },
			func() (ID, error) { return l.Compose(l.Epoch, -1, 0) },
			func() (ID, error) { return l.Compose(l.Epoch, l.Nodes(), 0) },
			func() (ID, error) { return l.Compose(l.Epoch, 0, 1<<l.SequenceBits) },
		} {
			if id, err := f(); err == nil || id != 0 {
				t.Errorf("%s: %d, %v", name, id, err)
			}
		}
	}
}

func ExampleLayout_First() {
	l := snowflake.Default()
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	fmt.Printf("SELECT … WHERE id BETWEEN %d AND %d", l.First(noon), l.Last(noon.Add(time.Hour)))
	// Output: SELECT … WHERE id BETWEEN 132815152742400000 AND 132830252240994303
}
