package protocol

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// When a release should write to the note, and when a waiting claimant should write Until
// again.
func TestNoteAwaits(t *testing.T) {
	for _, c := range []struct {
		what         string
		until        time.Time
		awaited, due bool
	}{
		{"nobody ever waited", time.Time{}, false, true},
		{"somebody waits", noon.Add(NoteSpan), true, false},
		{"half of it has passed", noon.Add(NoteSpan / 2), true, false},
		{"more than half has passed", noon.Add(NoteSpan/2 - 1), true, true},
		{"it has passed", noon, false, true},
		{"a clock that is a minute ahead", noon.Add(2 * NoteSpan), true, false},
		{"a clock that is hours ahead", noon.Add(3 * time.Hour), false, true},
	} {
		n := Note{Until: c.until}
		if n.Awaited(noon) != c.awaited || n.Due(noon) != c.due {
			t.Errorf("%s: awaited %t, due %t, want %t and %t", c.what, n.Awaited(noon), n.Due(noon), c.awaited, c.due)
		}
	}
}

// A fleet that ends all at once does not write more than one partition takes.
func TestNoteHasEnough(t *testing.T) {
	n := Note{Until: noon.Add(NoteSpan)}
	for i := range NotePlaces / 2 {
		if !n.Wants(noon) {
			t.Fatalf("it wants no more after %d offers", i)
		}
		n.Offers = append(n.Offers, Offer{i, noon.UnixMilli()})
	}
	if n.Wants(noon) || !n.Wants(noon.Add(time.Second)) {
		t.Errorf("with %d offers it wants another one: %t now, %t a second later", len(n.Offers), n.Wants(noon), n.Wants(noon.Add(time.Second)))
	}
	if n.Until = noon; n.Wants(noon.Add(time.Second)) {
		t.Error("it wants offers although nobody waits")
	}
}

// In a note, content that no claimant and no release writes is corrupt or left out.
func TestForeignNote(t *testing.T) {
	client, s := newTable(t)
	put := func(rest attributes) (Note, error) {
		item := noteKey("p")
		maps.Copy(item, rest)
		if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("leases"), Item: item}); err != nil {
			t.Fatal(err)
		}
		return s.Note(t.Context(), "p")
	}
	good := num(noon.UnixMilli()*MaxPoolSize + 7)
	for what, rest := range map[string]attributes{
		"a text as its time":   {"waiting_until": str("soon")},
		"a fraction":           {"waiting_until": &types.AttributeValueMemberN{Value: "1.5"}},
		"a time beyond all":    {"waiting_until": &types.AttributeValueMemberN{Value: "1e20"}},
		"a time before 1970":   {"waiting_until": num(-1)},
		"a large text":         {"waiting_until": millis(noon), "x": str(strings.Repeat("x", mostNote))},
		"a list":               {"x": &types.AttributeValueMemberL{Value: []types.AttributeValue{num(1)}}},
		"a list among offers":  {"o1": &types.AttributeValueMemberL{}},
		"very many attributes": manyAttributes(),
	} {
		n, err := put(rest)
		var corrupt *CorruptError
		if err == nil || !asCorrupt(err, &corrupt) {
			t.Errorf("%s: got %+v, %v, want a *CorruptError", what, n, err)
		}
	}
	for what, v := range map[string]types.AttributeValue{
		"a text": str("7"), "a fraction": &types.AttributeValueMemberN{Value: "7.5"}, "less than 0": num(-7), "one of another place": num(noon.UnixMilli()*MaxPoolSize + 8),
		"a time beyond all": &types.AttributeValueMemberN{Value: "9000000000000000000"}, "too large": &types.AttributeValueMemberN{Value: "9e30"},
	} {
		n, err := put(attributes{"waiting_until": millis(noon), "o7": v, "o1": num(noon.UnixMilli()*MaxPoolSize + 1 + NotePlaces), "of_tomorrow": str("x")})
		if want := (Offer{1 + NotePlaces, noon.UnixMilli()}); err != nil || !n.Until.Equal(noon) || len(n.Offers) != 1 || n.Offers[0] != want {
			t.Errorf("%s: got %+v, %v, want the one good offer", what, n, err)
		}
	}
	if n, err := put(attributes{"o7": good}); err != nil || n.Offers[0] != (Offer{7, noon.UnixMilli()}) || n.Awaited(noon) {
		t.Errorf("got %+v, %v, want an offer and nobody who waits", n, err)
	}
}

func asCorrupt(err error, to **CorruptError) bool {
	c, ok := err.(*CorruptError) //nolint:errorlint // it is not wrapped
	*to = c
	return ok
}

func manyAttributes() attributes {
	all := attributes{}
	for i := range 1000 {
		all["attribute_"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676))] = num(i)
	}
	return all
}

// A full note costs a release one write unit, and a poll half a read unit.
func TestLargestNote(t *testing.T) {
	client, s := newTable(t)
	pool := strings.Repeat("p", 64)
	if _, applied, err := s.WriteNote(t.Context(), Await{Pool: pool, Until: noon.Add(NoteSpan)}); err != nil || !applied {
		t.Fatal(applied, err)
	}
	for i := range NotePlaces {
		if _, applied, err := s.WriteNote(t.Context(), Leave{Pool: pool, NodeID: MaxPoolSize - 1 - i, At: noon.Add(time.Duration(i) * time.Millisecond)}); err != nil || !applied {
			t.Fatal(applied, err)
		}
	}
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("leases"), Key: noteKey(pool)})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for name, value := range out.Item {
		size += len(name) + sizeOf(value)
	}
	t.Logf("%d bytes", size)
	if len(out.Item) != 3+NotePlaces || size > 1024 {
		t.Errorf("a note with %d attributes has %d bytes, want %d and at most 1,024", len(out.Item), size, 3+NotePlaces)
	}
}
