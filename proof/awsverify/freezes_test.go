package main

import (
	"strings"
	"testing"
	"time"
)

// The check fails only if no clock shows the pause: a single clock that shows it is
// enough.
func TestShown(t *testing.T) {
	const pause = 30 * time.Second
	for name, c := range map[string]struct {
		boot, mono, wall time.Duration
		ok               bool
	}{
		"all of them":         {pause, pause, pause, true},
		"only the wall clock": {0, 0, pause, true},
		"only the boot clock": {pause, 0, -time.Hour, true},
		"a little less":       {0, 0, pause - 70*time.Millisecond, true},
		"none":                {time.Millisecond, 0, time.Millisecond, false},
		"each a part":         {20 * time.Second, 0, 20 * time.Second, false},
	} {
		before, after := clocks{got: time.Second}, clocks{sent: time.Second + pause}
		before.End.Boot, before.End.Monotonic, before.End.Wall = 7, 8, 9
		after.Begin.Boot, after.Begin.Monotonic, after.Begin.Wall = 7+int64(c.boot), 8+int64(c.mono), 9+int64(c.wall)
		text, err := shown(before, after)
		if (err == nil) != c.ok || !strings.Contains(text, "at least 30s") {
			t.Errorf("%s: got %q, %v; want an error: %v", name, text, err, !c.ok)
		}
	}
}
