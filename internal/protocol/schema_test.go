package protocol

import (
	"context"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const itemsPage = "../../docs/items.md"

// documented returns the attributes in the tables of docs/items.md, by heading.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(itemsPage)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string][]string{}
	section := ""
	row := regexp.MustCompile("^\\| `([a-z_]+)` \\|")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(name)
		} else if m := row.FindStringSubmatch(line); m != nil {
			sections[section] = append(sections[section], m[1])
		}
	}
	return sections
}

// tags returns the attributes that a struct is read from.
func tags(v any) []string {
	var names []string
	for f := range reflect.TypeOf(v).Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("dynamodbav"), ",")
		names = append(names, name)
	}
	return names
}

// TestItemsPage compares docs/items.md with the attributes that the code reads and
// writes, and checks that no attribute of the page is a reserved word of DynamoDB.
func TestItemsPage(t *testing.T) {
	page := documented(t)
	key := []string{partitionKey, sortKey}
	for section, want := range map[string][]string{
		"Lease": tags(leaseItem{}),
		"Pool":  slices.Concat(key, tags(poolItem{})),
	} {
		got, want := slices.Sorted(slices.Values(page[section])), slices.Sorted(slices.Values(want))
		if !slices.Equal(got, want) {
			t.Errorf("%s, section %q:\ngot  %v\nwant %v, the attributes of the code", itemsPage, section, got, want)
		}
	}
	k := Key{Pool: "p"}
	for _, w := range []interface{ update() update }{
		Seed{Key: k, WidenTry: 1}, Claim{Key: k}, Claim{Key: k, OnDemand: true}, Renew{Key: k, TTL: time.Second, Asked: []time.Time{{}}, Metadata: map[string]string{}}, Release{Key: k}, FreeCopy{Key: k}, Abandon{Key: k}, Reap{Key: k},
		ForceRelease{Key: k}, Retire{Key: k, Retired: true}, Retire{Key: k}, Raise{Key: k}, Mark{Key: k},
	} {
		namesOnly(t, w, page["Lease"])
	}
	for _, w := range []interface{ update() update }{
		CreatePool{NodeBits: 9, Layout: &IDLayout{}, Expect: 1}, ExpectHolders{}, RaiseFloor{}, BindLayout{}, SuspendLayout{}, FinalizeLayout{}, ReplaceLayout{}, OpenGroups{}, ResizePool{}, BeginWiden{}, VoidWiden{}, CommitWiden{}, AddNodeIDs{}, Measure{}, Measure{Seen: &Measured{}}, Vouch{}, Vouch{Seen: &Verdict{}}, ForgetVerdict{},
	} {
		namesOnly(t, w, page["Pool"])
	}
	namesOnly(t, WriteCard{}, page["Card"])
	for _, w := range []interface{ update() update }{Await{}, Await{Seen: time.UnixMilli(1)}, Leave{}} {
		namesOnly(t, w, append(page["Note"], place(0)))
	}
	client, _ := newTable(t)
	for _, name := range slices.Sorted(maps.Keys(reserve(page))) {
		set := "SET " + name + " = :one"
		_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String("leases"), Key: rawKey("words", 0), UpdateExpression: &set, ExpressionAttributeValues: attributes{":one": num(1)},
		})
		if err != nil && !slices.Contains(key, name) {
			t.Errorf("attribute %q cannot be written without an alias: %v", name, err)
		}
	}
	set := "SET status = :one" // tests that the check works
	if _, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("leases"), Key: rawKey("words", 0), UpdateExpression: &set, ExpressionAttributeValues: attributes{":one": num(1)},
	}); err == nil {
		t.Error("the database takes STATUS, a reserved word: want an error")
	}
}

// reserve returns all names on the page.
func reserve(page map[string][]string) map[string]bool {
	all := map[string]bool{}
	for _, names := range page {
		for _, name := range names {
			all[name] = true
		}
	}
	return all
}

// namesOnly compares the words of a write's expressions with the attributes of a section.
func namesOnly(t *testing.T, w interface{ update() update }, attributes []string) {
	t.Helper()
	u := w.update()
	words := []string{"SET", "REMOVE", "AND", "OR", "NOT", "BETWEEN", "attribute_exists", "attribute_not_exists", "attribute_type", "if_not_exists", "list_append"}
	for _, word := range regexp.MustCompile(`(?:^|[^:\w])([A-Za-z]\w*)`).FindAllStringSubmatch(u.set+" "+u.onlyIf, -1) {
		if !slices.Contains(words, word[1]) && !slices.Contains(attributes, word[1]) {
			t.Errorf("%T names %q, which is not in %s", w, word[1], itemsPage)
		}
	}
}

// TestUnknownAttributes checks that attributes of a newer release are ignored by
// every read and survive every write.
func TestUnknownAttributes(t *testing.T) {
	client, s := newTable(t)
	now := time.UnixMilli(1795219300000)
	for _, item := range []attributes{itemKey(Key{"p", 0}), poolKey("p")} {
		item["of_tomorrow"] = str("kept")
		if item[sortKey].(*types.AttributeValueMemberN).Value == "0" {
			maps.Copy(item, attributes{"version": num(0), "reserved_until": num(0)})
		} else {
			maps.Copy(item, attributes{"item_format": num(ItemFormat), "pool_size": num(4), "open_groups": num(1), "revision": num(1), "floor": num(0)})
		}
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: item}); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(key attributes, after any) {
		t.Helper()
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("leases"), Key: key})
		if err != nil || !reflect.DeepEqual(out.Item["of_tomorrow"], str("kept")) {
			t.Errorf("after %+v: got %v, %v, want the unknown attribute kept", after, out.Item, err)
		}
	}
	if l, err := s.Get(t.Context(), "p", 0); err != nil || l == nil {
		t.Fatalf("got %+v, %v, want a lease", l, err)
	}
	if p, err := s.PoolItem(t.Context(), "p"); err != nil || p.Size != 4 {
		t.Fatalf("got %+v, %v, want a pool of 4", p, err)
	}
	k := Key{"p", 0}
	c := claimAt(k, now)
	for _, w := range []Write{
		c, Renew{Key: k, Session: "new", Version: 1, Renewal: 1, ExpiresAt: c.ExpiresAt, ReservedUntil: c.ReservedUntil, Confirmed: c.ReservedUntil}, Mark{Key: k, Try: 1, From: now.Add(time.Hour)},
		Retire{Key: k, Retired: true, Resize: 1}, Retire{Key: k, Resize: 2}, Reap{Key: k, Holder: "new", Version: 1, Renewal: 1}, Raise{Key: k, To: now.Add(time.Hour)},
	} {
		if res, err := s.Write(t.Context(), w); err != nil || !res.Applied {
			t.Fatalf("%+v: got %+v, %v, want it applied", w, res, err)
		}
		kept(itemKey(k), w)
	}
	for _, w := range []PoolWrite{OpenGroups{Pool: "p", From: 1, To: 2}, ResizePool{Pool: "p", Revision: 2, To: 8, At: now}, ExpectHolders{Pool: "p", Revision: 3, Expect: 4, OpenGroups: 2}} {
		if res, err := s.WritePool(t.Context(), w); err != nil || !res.Applied {
			t.Fatalf("%+v: got %+v, %v, want it applied", w, res, err)
		}
		kept(poolKey("p"), w)
	}
}

// TestOldItemFormat checks that a pool of format 1 is refused with its remedy, and that
// no write changes it.
func TestOldItemFormat(t *testing.T) {
	client, s := newTable(t)
	item := poolKey("p")
	maps.Copy(item, attributes{"item_format": num(1), "pool_size": num(4), "open_groups": num(1), "reserved_low": num(0)})
	if _, err := client.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: item}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PoolItem(t.Context(), "p"); err == nil || !Permanent(err) || !strings.Contains(err.Error(), "seed a new pool") {
		t.Errorf("got %v, want ErrItemFormat that says to seed a new pool", err)
	}
	for _, w := range []PoolWrite{OpenGroups{Pool: "p", From: 1, To: 2}, ResizePool{Pool: "p", Revision: 1, To: 8}, CreatePool{Pool: "p", Size: 4, OpenGroups: 1}} {
		_, _ = s.WritePool(t.Context(), w) // the answer describes an item that this release cannot read
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("leases"), Key: poolKey("p")})
		if err != nil || !reflect.DeepEqual(out.Item, item) {
			t.Errorf("%T left %v, %v, want %v", w, out.Item, err, item)
		}
	}
}
