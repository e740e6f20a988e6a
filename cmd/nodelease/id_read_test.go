package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// An old ID is read correctly in every encoding, even if its text happens to contain no
// letter, or it is refused. It is never read as a different ID.
func TestIDsAreNotMisread(t *testing.T) {
	now, dice := time.Now(), rand.New(rand.NewPCG(1, 2))
	for _, layout := range []snowflake.Layout{snowflake.Default(), snowflake.Twitter()} {
		l := idLayout{Layout: layout}
		bare := map[string]int{} // IDs without a letter
		for range 50_000 {
			id, err := l.Compose(now.Add(-time.Duration(dice.Int64N(int64(now.Sub(l.Epoch))))), dice.IntN(l.Nodes()), dice.IntN(4096))
			if err != nil {
				t.Fatal(err)
			}
			for name, write := range encodings {
				s := write(id)
				if strings.Trim(s, "0123456789") == "" {
					if bare[name]++; name == "base58" { // once in a billion IDs; 11 digits are decimal
						continue
					}
				}
				if got, as, err := readID(s, "", l, now); err == nil && got != id {
					t.Fatalf("%s, the ID %d in %s: got %d in %s", s, id, name, got, as)
				}
			}
		}
		if bare["hex"] == 0 {
			t.Errorf("%v: no ID in hex was without a letter, so that nothing was tested", layout)
		}
	}
}

// While an operator replaces a pool's layout, its IDs have the layout before, if there are
// any.
func TestIDsOfALayoutThatIsReplaced(t *testing.T) {
	before := protocol.LayoutOf(snowflake.Twitter())
	own := idLayout{name: "default", Layout: snowflake.Default()}
	if l, err := own.of(leasepool.Item{Pool: "orders", LayoutBefore: &before}, false); err != nil || l.name != "twitter" || l.Layout != snowflake.Twitter() {
		t.Errorf("got the layout %s, %v, want twitter", l.name, err)
	}
	if l, err := own.of(leasepool.Item{Pool: "orders", LayoutBefore: &before}, true); err == nil {
		t.Errorf("--layout default: got the layout %s, want an error", l.name)
	}
}
