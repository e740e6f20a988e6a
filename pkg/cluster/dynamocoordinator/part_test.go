package dynamocoordinator

import (
	"runtime"
	"strings"
	"testing"
)

// The number of members that a part may list is bounded, so that reading the part costs
// no more than reading the members' leases.
func TestListed(t *testing.T) {
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]" }
	for name, test := range map[string]struct {
		content string
		want    int // -1 means an error
	}{
		"none": {"[]", 0}, "one": {`[{"name":"a","session_id":"s"}]`, 1}, "as many as are read": {list(maxListed), maxListed}, "one more": {list(maxListed + 1), -1},
		"as many as fit": {list(maxPart/3 - 1), -1}, "no list": {"{}", -1}, "null": {"null", -1}, "nothing": {"", -1}, "cut in half": {"[{},", -1}, "no end": {"[{}", -1}, "texts": {`["a"]`, -1},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := listed([]byte(test.content))
		runtime.ReadMemStats(&after)
		if test.want < 0 != (err != nil) || err == nil && len(got) != test.want {
			t.Errorf("%s: %d members, %v, want %d", name, len(got), err, test.want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
			t.Errorf("%s: took %d MB of memory, want at most 8", name, took>>20)
		}
	}
}
