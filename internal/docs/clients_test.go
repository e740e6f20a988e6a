package docs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// Every client has every named layout, with the same fields. The conformance suite does
// not notice a missing name, because a client reads its layout from a block.
func TestClientsHaveEveryLayout(t *testing.T) {
	for _, name := range leasepool.LayoutNames() {
		l, err := leasepool.ParseLayout(name)
		if err != nil {
			t.Fatal(err)
		}
		epoch, upper := l.Epoch.UnixMilli(), strings.ToUpper(name)
		rest := fmt.Sprintf("%d, %d, %d, %d", l.Tick.Milliseconds(), l.TimeBits, l.NodeBits, l.SequenceBits)
		last := "" // the default of Python's parameter
		if l.NodeLast {
			last = ", True"
		}
		for file, want := range map[string]string{
			"clients/java/core/src/main/java/dev/nodelease/Layout.java": fmt.Sprintf("Layout %s = new Layout(%dL, %s, %t);", upper, epoch, rest, l.NodeLast),
			"clients/python/src/nodelease/_core.py":                     fmt.Sprintf("\n%s = Layout(%d, %s%s)\n", upper, epoch, rest, last),
			"clients/python/src/nodelease/__init__.py":                  fmt.Sprintf("%q", upper),
			"clients/javascript/src/index.js":                           fmt.Sprintf(" %s: layout(%d, %s, %t)", name, epoch, rest, l.NodeLast),
			"clients/javascript/src/index.d.ts":                         fmt.Sprintf("'%s'", name),
		} {
			if !strings.Contains(read(t, file), want) {
				t.Errorf("%s lacks the layout %s: want %q", file, name, want)
			}
		}
	}
}
