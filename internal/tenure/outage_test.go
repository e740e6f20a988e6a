package tenure

import (
	"testing"
	"time"
)

func TestOutage(t *testing.T) {
	const s = time.Second
	type ask struct {
		sent, now time.Duration
		answered  bool
	}
	for name, c := range map[string]struct {
		asks []ask
		at   time.Duration
		want time.Duration
	}{
		"nothing asked yet":       {nil, 9 * s, 0},
		"always answered":         {[]ask{{1 * s, 2 * s, true}}, 3 * s, 0},
		"in the outage":           {[]ask{{0, 1, true}, {1 * s, 2 * s, false}, {50 * s, 55 * s, false}}, 60 * s, 59 * s},
		"just after it":           {[]ask{{0, 1, true}, {1 * s, 2 * s, false}, {50 * s, 51 * s, true}}, 52 * s, 51 * s},
		"a while after it":        {[]ask{{0, 1, true}, {1 * s, 2 * s, false}, {50 * s, 51 * s, true}}, 57 * s, 0},
		"a lost packet":           {[]ask{{0, 1, true}, {1 * s, 2 * s, false}, {2 * s, 3 * s, true}}, 3 * s, 0},
		"begun in the outage":     {[]ask{{1 * s, 6 * s, false}}, 7 * s, everyLease},
		"begun in it, just after": {[]ask{{1 * s, 6 * s, false}, {6 * s, 7 * s, true}}, 8 * s, everyLease + s},
		"a second one does not prolong the first": {[]ask{{0, 1, true}, {1 * s, 2 * s, false}, {50 * s, 51 * s, true}, {52 * s, 53 * s, false}, {55 * s, 56 * s, true}},
			57 * s, 0},
		"a second one in the first's time": {[]ask{{0, 1, true}, {1 * s, 2 * s, false}, {50 * s, 51 * s, true}, {52 * s, 53 * s, false}}, 54 * s, 53 * s},
	} {
		var o Outage
		for _, a := range c.asks {
			o.Asked(a.sent, a.now, a.answered)
		}
		if got := o.Patience(c.at); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
