package leasepool

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Any number of candidates in the largest pool are decoded as they were encoded. They fit
// into an item of 400 KB and leave 16 KB for its other attributes.
func TestCandidatesFit(t *testing.T) {
	for _, share := range []float64{0, 0.0001, 0.01, 0.03, 0.1, 0.5, 1} {
		c := candidates{}
		for n := range protocol.MaxPoolSize {
			if rand.Float64() < share {
				c[n] = fingerprint(rand.N(1 << 30))
			}
		}
		text := c.encode()
		if len(text) > 6*protocol.MaxPoolSize || len(text) > 400<<10-16<<10 {
			t.Errorf("%d candidates take %d bytes", len(c), len(text))
		}
		if got, ok := decodeCandidates(text); !ok || !maps.Equal(got, c) {
			t.Errorf("%d candidates come back as %d, %v", len(c), len(got), ok)
		}
	}
}

// A lease with a different holder, version or renewal has a different fingerprint.
func TestFingerprints(t *testing.T) {
	l := protocol.Lease{NodeID: 1, Holder: "a", Version: 3, Renewal: 7}
	for _, other := range []protocol.Lease{
		{NodeID: 1, Holder: "b", Version: 3, Renewal: 7}, {NodeID: 1, Holder: "a", Version: 4, Renewal: 7},
		{NodeID: 1, Holder: "a", Version: 3, Renewal: 8}, {NodeID: 1, Holder: "a", Version: 7, Renewal: 3},
	} {
		if fingerprintOf(other) == fingerprintOf(l) {
			t.Errorf("%+v looks like %+v", other, l)
		}
	}
	if l.Task = "other"; fingerprintOf(l) != fingerprintOf(protocol.Lease{Holder: "a", Version: 3, Renewal: 7}) {
		t.Error("the task counts, want holder, version and renewal alone")
	}
}

// Any text in the table is either rejected or decoded to candidates that a pool can have.
func FuzzCandidates(f *testing.F) {
	f.Add("")
	f.Add(candidates{0: 1, 7: 1 << 29, 65535: 3}.encode())
	f.Add("AAAAAA")
	f.Add("______")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := decodeCandidates(text)
		if !ok {
			return
		}
		for n := range c {
			if n < 0 || n >= protocol.MaxPoolSize {
				t.Errorf("%q: node ID %d", text, n)
			}
		}
		if again, ok := decodeCandidates(c.encode()); !ok || !maps.Equal(again, c) {
			t.Errorf("%q: %v comes back as %v", text, c, again)
		}
	})
}
