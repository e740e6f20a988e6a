package conform

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const racers = 64

// race runs f at the same time in many goroutines.
func race(f func(racer int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for racer := range racers {
		all.Go(func() {
			<-start
			f(racer)
		})
	}
	close(start)
	all.Wait()
}

// For each version, exactly one compare-and-set succeeds.
func TestRaceForVersion(t *testing.T) {
	const rounds = 20
	onEach(t, func(t *testing.T, db *database) {
		key := db.fresh()
		db.put(t, key, item{"version": 0})
		for version := range rounds {
			var won atomic.Int32
			race(func(racer int) {
				_, err := db.update(t, key, updateCase{update: "SET version = version + :1, holder = :me", condition: "version = :v", values: item{":1": 1, ":v": version, ":me": racer}})
				if err == nil {
					won.Add(1)
				} else {
					db.wantError(t, err, failed)
				}
			})
			if won.Load() != 1 {
				t.Fatalf("%d won version %d", won.Load(), version)
			}
		}
	})
}

// No increment is lost, and each answer shows a different count.
func TestRaceToCount(t *testing.T) {
	const each = 10
	onEach(t, func(t *testing.T, db *database) {
		key := db.fresh()
		var seen sync.Map
		race(func(int) {
			for range each {
				out, err := db.update(t, key, updateCase{update: "SET n = if_not_exists(n, :0) + :1", values: item{":0": 0, ":1": 1}, returns: types.ReturnValueAllNew})
				if err != nil {
					t.Error(err)
					return
				}
				if _, twice := seen.LoadOrStore(withoutKey(out.Attributes), true); twice {
					t.Errorf("two writes led to %s", withoutKey(out.Attributes))
				}
			}
		})
		if got := db.get(t, key); got != "{n:640}" {
			t.Errorf("counted %s, want 640", got)
		}
	})
}

// Claimants that try the same keys in the same order end up on different ones.
func TestRaceForKeys(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		var holders [racers]atomic.Int32
		race(func(racer int) {
			for n := range racers {
				_, err := db.update(t, key(n), updateCase{update: "SET holder = :me", condition: "attribute_not_exists(holder)", values: item{":me": racer}})
				if err == nil {
					holders[n].Add(1)
					return
				}
				db.wantError(t, err, failed)
			}
			t.Errorf("racer %d found no free key", racer)
		})
		for n := range holders {
			if h := holders[n].Load(); h != 1 {
				t.Errorf("key %d has %d holders", n, h)
			}
		}
	})
}
