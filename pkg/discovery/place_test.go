package discovery

import (
	"strings"
	"testing"
)

func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		endpoint  bool
		name, key string
		want      string // empty: refused
	}{
		{false, "orders", "", "p#svc#orders"},
		{false, "Orders.v2_eu-1", "", "p#svc#Orders.v2_eu-1"},
		{false, "_", "", "p#svc#_"},
		{false, strings.Repeat("x", 64), "", "p#svc#" + strings.Repeat("x", 64)},
		{false, strings.Repeat("x", 65), "", ""},
		{false, "", "", ""},
		{false, "a#b", "", ""},
		{false, "a b", "", ""},
		{false, "a\n", "", ""},
		{false, "ä", "", ""},
		{false, "a/../b", "", ""},
		{false, "*", "", ""},
		{true, "shard", "", "p#ep#shard#_"},
		{true, "shard", "7", "p#ep#shard#7"},
		{true, "shard", "_", ""},
		{true, "shard", "__", "p#ep#shard#__"},
		{true, "shard", strings.Repeat("k", 128), "p#ep#shard#" + strings.Repeat("k", 128)},
		{true, "shard", strings.Repeat("k", 129), ""},
		{true, "shard", "7#8", ""},
		{true, "shard#7", "8", ""},
		{true, "", "7", ""},
	} {
		p, err := servicePlace(c.name)
		if c.endpoint {
			p, err = endpointPlace(c.name, c.key)
		}
		if got := p.in("p"); (err == nil) != (c.want != "") || err == nil && got != c.want {
			t.Errorf("%q %q: got %q, %v", c.name, c.key, got, err)
		}
	}
}

// Any name or key is either refused, or leads to a partition that no other name, key,
// pool, or lease has.
func FuzzPlaces(f *testing.F) {
	for _, seed := range [][4]string{{"orders", "7", "stock", ""}, {"a#b", "_", "a", "b#_"}, {"a", "b", "a#ep", "b"}, {"", "", "\x00", "#0"}, {"0", "1", "registered", "svc"}} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, name, key, otherName, otherKey string) {
		seen := map[string]string{"p#registered": "the lists", "p": "the pool"}
		add := func(what string, p place, err error) {
			if err != nil {
				return
			}
			partition := p.in("p")
			if before, ok := seen[partition]; ok && before != what {
				t.Fatalf("%s and %s: got %q for both, want two partitions", before, what, partition)
			}
			seen[partition] = what
			if !strings.HasPrefix(partition, "p#svc#") && !strings.HasPrefix(partition, "p#ep#") || len(partition) > 261 {
				t.Fatalf("%s: got the partition %q, want p#svc# or p#ep# and at most 261 bytes", what, partition)
			}
			if back, ok := parsePlace(string(p)); !ok || back != p {
				t.Fatalf("%q is read back as %q, %v", p, back, ok)
			}
		}
		for _, n := range []string{name, otherName} {
			p, err := servicePlace(n)
			add("service "+n, p, err)
			for _, k := range []string{key, otherKey} {
				p, err := endpointPlace(n, k)
				add("endpoint "+n+" key "+k, p, err)
			}
		}
	})
}

// An entry of a list is accepted only if Register can have written it.
func FuzzParsePlace(f *testing.F) {
	for _, seed := range []string{"svc#orders", "ep#shard#7", "ep#shard#_", "0", "", "svc#", "ep#a", "svc#a#b", "ep#a#b#c", "registered", "#0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, ok := parsePlace(text)
		if ok && (string(p) != text || !strings.HasPrefix(text, "svc#") && !strings.HasPrefix(text, "ep#")) {
			t.Fatalf("%q is read as %q", text, p)
		}
	})
}
