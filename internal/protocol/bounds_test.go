package protocol

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func mapOf(of attributes) types.AttributeValue { return &types.AttributeValueMemberM{Value: of} }

// Items that our writers do not produce are corrupt when read, and a reader keeps nothing
// of their content.
func TestBoundsOnRead(t *testing.T) {
	client, store := newTable(t)
	put := func(item attributes, more attributes) {
		t.Helper()
		item = maps.Clone(item)
		maps.Copy(item, more)
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	lease := itemKey(Key{"orders", 7})
	maps.Copy(lease, attributes{"version": num(3), "reserved_until": num(1), "holder": str("me"), "renewal": num(1), "not_before": num(0), "expires_at": num(1)})
	pool := poolKey("orders")
	maps.Copy(pool, attributes{"item_format": num(2), "pool_size": num(8), "open_groups": num(1), "exclude_below": num(0), "revision": num(1), "floor": num(0)})
	long := func(n int) types.AttributeValue { return str(strings.Repeat("x", n)) }
	before := func(session string, version int64, ended Ending) attributes {
		return attributes{"previous": mapOf(attributes{"session": str(session), "version": num(version), "ended": str(ended)})}
	}
	var eras []types.AttributeValue
	for i := range maxEras + 1 {
		eras = append(eras, mapOf(attributes{"from": num(i), "node_bits": num(9)}))
	}
	verdict := attributes{"region": str("r"), "at": num(1), "by": str("b"), "safe": boolean(true)}
	with := func(name string, value types.AttributeValue) types.AttributeValue {
		v := maps.Clone(verdict)
		v[name] = value
		return mapOf(v)
	}
	for name, c := range map[string]struct {
		lease, pool attributes
		fine        bool
	}{
		"as ours":               {lease: before("s", 2, EndReleased), fine: true},
		"a long holder":         {lease: attributes{"holder": long(maxSession + 1)}},
		"the longest holder":    {lease: attributes{"holder": long(maxSession)}, fine: true},
		"a long predecessor":    {lease: attributes{"taken_from": long(maxSession + 1)}},
		"a long task":           {lease: attributes{"task": long(maxTask + 1)}},
		"the longest task":      {lease: attributes{"task": long(maxTask)}, fine: true},
		"long metadata":         {lease: attributes{"metadata": mapOf(attributes{"n": long(maxMetadata)})}},
		"the longest metadata":  {lease: attributes{"metadata": mapOf(attributes{"n": long(maxMetadata - 1)})}, fine: true},
		"a long last session":   {lease: before(strings.Repeat("x", maxSession+1), 2, EndReleased)},
		"an early last version": {lease: before("s", -1, EndReleased)},
		"an unknown ending":     {lease: before("s", 2, "\x1b[2J")},
		"a pool as ours":        {pool: attributes{"verdict": mapOf(verdict), "expect": num(4)}, fine: true},
		"too many open groups":  {pool: attributes{"open_groups": num(MaxPoolSize/GroupSize + 1)}},
		"created never":         {pool: attributes{"created_at": num(-1)}},
		"expects nobody":        {pool: attributes{"expect": num(-1)}},
		"a long Region":         {pool: attributes{"verdict": with("region", long(maxRegion+1))}},
		"a long judge":          {pool: attributes{"verdict": with("by", long(maxSession+1))}},
		"judged in no year":     {pool: attributes{"verdict": with("at", num(int64(1)<<60))}},
		"too many held":         {pool: attributes{"measured": mapOf(attributes{"held": num(MaxPoolSize + 1), "cooling": num(0), "at": num(1)})}},
		"too few cooling":       {pool: attributes{"measured": mapOf(attributes{"held": num(1), "cooling": num(-1), "at": num(1)})}},
		"too many eras":         {pool: attributes{"eras": &types.AttributeValueMemberL{Value: eras}, "widen_try": num(0), "widen_from": num(0), "widen_bits": num(9), "widen_state": str("done"), "exist_below": num(4)}},
	} {
		t.Run(name, func(t *testing.T) {
			put(lease, c.lease)
			put(pool, c.pool)
			_, leaseErr := store.Get(t.Context(), "orders", 7)
			_, poolErr := store.PoolItem(t.Context(), "orders")
			var corrupt *CorruptError
			if err := errors.Join(leaseErr, poolErr); c.fine != (err == nil) || err != nil && !errors.As(err, &corrupt) {
				t.Errorf("got %v, want it fine: %v", err, c.fine)
			}
			if err := errors.Join(leaseErr, poolErr); err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// Items in a group's partition that do not belong to the group cost its readers at most a
// page, and hide no item of the group.
func TestForeignItemsOfAGroup(t *testing.T) {
	client, store := newTable(t)
	put := func(node int) {
		t.Helper()
		item := rawKey("orders#1", node)
		maps.Copy(item, attributes{"version": num(0), "reserved_until": num(1)})
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	for node := range 300 {
		put(node - 50)  // before the group, and its first node IDs
		put(600 + node) // after the group
	}
	put(511)
	for want := 1; want <= 2; want++ {
		g, err := store.Group(t.Context(), "orders", 1)
		if err != nil || len(g.Leases) != 1 || g.Leases[0].NodeID != 511 || len(g.Corrupt) != want {
			t.Errorf("got %d leases and %d corrupt, %v, want node 511 and %d foreign", len(g.Leases), len(g.Corrupt), err, want)
		}
		fraction := attributes{"pool_group": str("orders#1"), "node_id": &types.AttributeValueMemberN{Value: "300.5"}}
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: fraction}); err != nil {
			t.Fatal(err)
		}
	}
}

// A foreign item among the node IDs of a part hides none of them.
func TestForeignItemHidesNoNodeIDOfAPart(t *testing.T) {
	client, store := newTable(t)
	for _, key := range []string{"256.5", "260.25", "271.5"} {
		item := attributes{"pool_group": str("orders#1"), "node_id": &types.AttributeValueMemberN{Value: key}}
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	for node := 256; node < 300; node++ {
		if res, err := store.Write(t.Context(), Seed{Key: Key{"orders", node}, Floor: time.UnixMilli(1)}); err != nil || !res.Applied {
			t.Fatal(res, err)
		}
	}
	for n := range 2 {
		g, err := store.EventualPart(t.Context(), "orders", 1, Part{n, SmallPart})
		if err != nil || len(g.Leases) != SmallPart || g.Leases[SmallPart-1].NodeID != 256+(n+1)*SmallPart-1 {
			t.Errorf("part %d: got %d node IDs, %v, want all %d", n, len(g.Leases), err, SmallPart)
		}
	}
}

// A Query ends, whatever its answers are.
func TestPagesEnd(t *testing.T) {
	page := &dynamodb.QueryOutput{Items: make([]map[string]types.AttributeValue, 10), LastEvaluatedKey: attributes{"node_id": num(1)}}
	p := Pages{Most: 25}
	for i, want := range []bool{true, true, false} {
		if err := p.Next(page); (err == nil) != want {
			t.Errorf("page %d: %v", i, err)
		}
	}
	if err := (&Pages{Most: 25}).Next(&dynamodb.QueryOutput{LastEvaluatedKey: page.LastEvaluatedKey}); !errors.Is(err, ErrNotDynamoDB) {
		t.Errorf("a page that goes on after nothing: %v", err)
	}
}

// An item is corrupt if parts of it were left out, even if the rest would be a valid item,
// since the missing parts are unknown. The same holds for the pool's own item. The error
// names the remedy.
func TestTrimmedIsCorrupt(t *testing.T) {
	client, store := newTable(t)
	lease, pool := itemKey(Key{"orders", 7}), poolKey("orders")
	maps.Copy(lease, attributes{"version": num(3), "reserved_until": num(1)})
	maps.Copy(pool, attributes{"item_format": num(2), "pool_size": num(8), "open_groups": num(1), "exclude_below": num(0), "revision": num(1), "floor": num(0)})
	for _, unknown := range []types.AttributeValue{str("x"), str(strings.Repeat("\x01", 380_000))} {
		for _, item := range []attributes{lease, pool} {
			item["unknown"] = unknown
			if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: item}); err != nil {
				t.Fatal(err)
			}
		}
		_, leased := store.Get(t.Context(), "orders", 7)
		_, seeded := store.PoolItem(t.Context(), "orders")
		small := unknown.(*types.AttributeValueMemberS).Value == "x"
		for name, err := range map[string]error{"the lease": leased, "the pool": seeded} {
			var corrupt *CorruptError
			if small && err != nil || !small && (!errors.As(err, &corrupt) || !strings.Contains(err.Error(), "larger than any item of Nodelease: find out who wrote to it")) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// An item of the size that DynamoDB allows, with content that is longest as JSON, costs
// its reader at most 1 MB of memory and 50 ms, or, on a slow machine, five times as long
// as a scan of the JSON.
func TestWhatOneItemCosts(t *testing.T) {
	for name, attribute := range large() {
		answer := page(`{"metadata":` + attribute + `,"node_id":{"N":"7"},"pool_group":{"S":"orders#0"}}`)
		best, scan := time.Hour, time.Hour
		var kept int
		for range 20 { // the best of twenty, since other programs use the machine too
			began := time.Now()
			json.Valid([]byte(answer))
			scan = min(scan, time.Since(began))
			began = time.Now()
			got, err := trim(strings.NewReader(answer))
			if best, kept = min(best, time.Since(began)), len(got); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d KB of JSON in %v, a scan of it takes %v, %d bytes kept", name, len(answer)>>10, best, scan, kept)
		if limit := max(50*time.Millisecond*time.Duration(slowdown), 5*scan); kept > 1<<20 || best > limit {
			t.Errorf("%s: %d bytes are kept after %v, want at most 1 MB and %v", name, kept, best, limit)
		}
	}
}

// slowdown is the factor by which the race detector slows the tests down.
var slowdown = 1

// An attribute that is NULL exists for the conditions of writes, so no write of the item may
// ever succeed. A reader must not treat it as missing. Unknown attributes are ignored.
func TestNullIsCorrupt(t *testing.T) {
	key, null := Key{"orders", 3}, &types.AttributeValueMemberNULL{Value: true}
	for name, fine := range map[string]bool{"holder": false, "retired": false, "widen_try": false, "resize": false, "later": true} {
		av := itemKey(key)
		maps.Copy(av, attributes{"version": num(1), "reserved_until": millis(time.Now()), name: null})
		if _, err := decodeLease(key, av); fine != (err == nil) {
			t.Errorf("%s is NULL: got %v, want it fine: %v", name, err, fine)
		}
	}
	for name, fine := range map[string]bool{"layout": false, "layout_before": false, "eras": false, "later": true} {
		av := poolKey("orders")
		maps.Copy(av, attributes{"item_format": num(2), "pool_size": num(8), "open_groups": num(1), "exclude_below": num(0), "revision": num(1), "floor": num(0), name: null})
		if _, err := decodePool("orders", av); fine != (err == nil) {
			t.Errorf("%s is NULL: got %v, want it fine: %v", name, err, fine)
		}
	}
}
