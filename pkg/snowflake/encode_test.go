package snowflake_test

import (
	"bytes"
	"cmp"
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

type ID = snowflake.ID

var (
	_ encoding.TextAppender      = ID(0)
	_ encoding.TextMarshaler     = ID(0)
	_ encoding.TextUnmarshaler   = (*ID)(nil)
	_ encoding.BinaryAppender    = ID(0)
	_ encoding.BinaryMarshaler   = ID(0)
	_ encoding.BinaryUnmarshaler = (*ID)(nil)
	_ json.Marshaler             = ID(0)
	_ json.Marshaler             = snowflake.Number(0)
	_ sql.Scanner                = (*ID)(nil)
	_ driver.Valuer              = ID(0)
	_ slog.LogValuer             = ID(0)
)

// encodings contains all encodings, as functions to and from strings.
var encodings = []struct {
	name   string
	format func(ID) string
	parse  func(string) (ID, error)
}{
	{"decimal", ID.String, snowflake.Parse},
	{"base32", ID.Base32, snowflake.ParseBase32},
	{"base58", ID.Base58, snowflake.ParseBase58},
	{"bytes", func(id ID) string { b := id.Bytes(); return string(b[:]) }, func(s string) (ID, error) { return snowflake.FromBytes([]byte(s)) }},
	{"text", func(id ID) string { b, _ := id.MarshalText(); return string(b) }, func(s string) (id ID, err error) {
		err = id.UnmarshalText([]byte(s))
		return id, err
	}},
	{"binary", func(id ID) string { b, _ := id.MarshalBinary(); return string(b) }, func(s string) (id ID, err error) {
		err = id.UnmarshalBinary([]byte(s))
		return id, err
	}},
	{"JSON", func(id ID) string { b, _ := id.MarshalJSON(); return string(b) }, func(s string) (id ID, err error) {
		err = id.UnmarshalJSON([]byte(s))
		return id, err
	}},
}

func TestKnownEncodings(t *testing.T) {
	const id = ID(132680284897308673)
	for name, got := range map[string]string{
		"132680284897308673":   id.String(),
		"03NV00GH00W01":        id.Base32(),
		"1Js496h5uc4":          id.Base58(),
		`"132680284897308673"`: encodings[6].format(id),
		"7ZZZZZZZZZZZZ":        ID(math.MaxInt64).Base32(),
		"NQm6nKp8qFC":          ID(math.MaxInt64).Base58(),
		"0000000000000":        ID(0).Base32(),
		"11111111111":          ID(0).Base58(),
	} {
		if got != name {
			t.Errorf("got %s, want %s", got, name)
		}
	}
}

// Every encoded ID decodes to the original ID, and encodings of a fixed length sort in
// the order of the IDs.
func FuzzRoundTrip(f *testing.F) {
	for _, id := range []int64{0, 1, 4095, 4096, math.MaxInt32, 1<<53 - 1, 1 << 53, 132680284897308673, math.MaxInt64} {
		f.Add(id, id-1)
	}
	f.Fuzz(func(t *testing.T, a, b int64) {
		x, y := ID(a&math.MaxInt64), ID(b&math.MaxInt64)
		for _, e := range encodings {
			s := e.format(x)
			if got, err := e.parse(s); err != nil || got != x {
				t.Errorf("%s: %d is written %q, which is read as %d, %v", e.name, x, s, got, err)
			}
			if other := e.format(y); len(s) == len(other) && strings.Compare(s, other) != cmp.Compare(x, y) {
				t.Errorf("%s: %d and %d sort differently from %q and %q", e.name, x, y, s, other)
			}
		}
		var n snowflake.Number
		if js, err := snowflake.Number(x).MarshalJSON(); (err == nil) != (x <= 1<<53-1) {
			t.Errorf("JSON number of %d: got %s, %v", x, js, err)
		} else if err == nil && (n.UnmarshalJSON(js) != nil || ID(n) != x) {
			t.Errorf("number %d is written %s, which is read as %d", x, js, n)
		}
	})
}

// Every text is either parsed as an ID or rejected with ErrSyntax.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0", "-1", "+1", "9223372036854775807", "9223372036854775808", "7ZZZZZZZZZZZZ", "8000000000000", "NQm6nKp8qFC", "NQm6nKp8qFD", "zzzzzzzzzzz", `"12"`, "null", "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, e := range encodings {
			id, err := e.parse(s)
			switch {
			case err != nil && (!errors.Is(err, snowflake.ErrSyntax) || id != 0):
				t.Errorf("%s %q: got %d, %v, want 0 and ErrSyntax", e.name, s, id, err)
			case id < 0:
				t.Errorf("%s %q: got %d, want no negative ID", e.name, s, id)
			}
		}
		want, refused := snowflake.Parse(s)
		for _, src := range []any{s, []byte(s)} {
			var id ID
			if err := id.Scan(src); (err == nil) != (refused == nil) || id != want {
				t.Errorf("a column of %T %q: got %d, %v; parsed %d, %v", src, s, id, err, want, refused)
			}
		}
		var n snowflake.Number
		if err := n.UnmarshalJSON([]byte(s)); (err != nil && (!errors.Is(err, snowflake.ErrSyntax) || n != 0)) || n < 0 {
			t.Errorf("JSON number %q: got %d, %v, want an ID, or 0 and ErrSyntax", s, n, err)
		}
	})
}

func TestParseTellsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		encoding int
		in, want string
	}{
		{0, "", "has 0 characters; want 1 to 19"},
		{0, "12345678901234567890", "has 20 characters"},
		{0, "9223372036854775808", "above 2^63-1"},
		{0, "12 4", `has ' ' at 2`},
		{0, "-1", `has '-' at 0`},
		{0, "00", `has '0' at 0`},
		{0, "012", `has '0' at 0`},
		{0, "0x", `has '0' at 0`},
		{0, strings.Repeat("9", 1000), "has 1000 characters"},
		{1, "03NV00GH00W0", "has 12 characters; want 13"},
		{1, "8000000000000", "above 2^63-1"},
		{1, "03NV00GH00WU1", `has 'U' at 11`},
		{2, "1Js496h5uc0", `has '0' at 10`},
		{2, "NQm6nKp8qFD", "above 2^63-1"},
		{2, "zzzzzzzzzzz", "above 2^63-1"}, // this value also overflows 64 bits
		{2, "1Js496h5uc41", "has 12 characters; want 11"},
		{3, "1234567", "7 bytes; want 8"},
		{3, "\xff2345678"[:8], "first bit"},
		{6, `1.5`, `has '.' at 1`},
		{6, `"1`, `has '"' at 0`},
		{6, `"012"`, `has '0' at 0`},
		{6, `""`, "has 0 characters"},
	} {
		e := encodings[c.encoding]
		_, err := e.parse(c.in)
		if !errors.Is(err, snowflake.ErrSyntax) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.30q: %v; want %s", e.name, c.in, err, c.want)
		}
		if err != nil && len(err.Error()) > 200 {
			t.Errorf("%s: got an error of %d bytes, want at most 200", e.name, len(err.Error()))
		}
	}
	if id, err := snowflake.ParseBase32("o3nvO0ghoOw0L"); id.Base32() != "03NV00GH00W01" || err != nil {
		t.Errorf("Crockford's look-alikes: got %s, %v, want 03NV00GH00W01", id.Base32(), err)
	}
}

func TestJSON(t *testing.T) {
	type row struct {
		ID     ID               `json:"id"`
		Parent ID               `json:"parent,omitzero"`
		Small  snowflake.Number `json:"small"`
	}
	out, err := json.Marshal(row{ID: 132680284897308673, Small: 1<<53 - 1})
	if want := `{"id":"132680284897308673","small":9007199254740991}`; string(out) != want || err != nil {
		t.Errorf("%s, %v; want %s", out, err, want)
	}
	if _, err := json.Marshal(row{Small: 1 << 53}); err == nil {
		t.Error("a number above 2^53-1 was written")
	}
	r := row{ID: 5}
	if err := json.Unmarshal([]byte(`{"id":null,"parent":132680284897308673,"small":"12"}`), &r); err != nil || r != (row{5, 132680284897308673, 12}) {
		t.Errorf("got %+v, %v, want 5, 132680284897308673 and 12", r, err)
	}
	m := map[ID]int{}
	if err := json.Unmarshal([]byte(`{"132680284897308673":1}`), &m); err != nil || m[132680284897308673] != 1 {
		t.Errorf("got %v, %v, want 1", m, err)
	}
}

func TestSQL(t *testing.T) {
	for _, src := range []any{int64(12), uint64(12), "12", []byte("12")} {
		var id ID
		if err := id.Scan(src); err != nil || id != 12 {
			t.Errorf("%T: %d, %v, want 12", src, id, err)
		}
	}
	for _, src := range []any{int64(-1), uint64(1 << 63), "x", nil, 1.5, true} {
		id := ID(7)
		if err := id.Scan(src); !errors.Is(err, snowflake.ErrSyntax) || id != 7 {
			t.Errorf("%v: %d, %v, want 7 and ErrSyntax", src, id, err)
		}
	}
	var null sql.Null[ID]
	if err := null.Scan(nil); err != nil || null.Valid {
		t.Errorf("NULL: got %v, %v, want an invalid value", null, err)
	}
	if err := null.Scan(int64(12)); err != nil || null.V != 12 {
		t.Errorf("12: got %v, %v, want V 12", null, err)
	}
	if v, err := ID(12).Value(); v != int64(12) || err != nil {
		t.Errorf("got %v, %v, want 12", v, err)
	}
}

func TestLogValue(t *testing.T) {
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("made", "id", ID(132680284897308673))
	if !strings.Contains(out.String(), `"id":"132680284897308673"`) {
		t.Error(out.String())
	}
}

func TestAppendsAllocateNothing(t *testing.T) {
	b := make([]byte, 0, 64)
	id := ID(132680284897308673)
	for name, f := range map[string]func(){
		"decimal":  func() { b = id.AppendDecimal(b[:0]) },
		"base32":   func() { b = id.AppendBase32(b[:0]) },
		"base58":   func() { b = id.AppendBase58(b[:0]) },
		"text":     func() { b, _ = id.AppendText(b[:0]) },
		"binary":   func() { b, _ = id.AppendBinary(b[:0]) },
		"parse":    func() { _, _ = snowflake.Parse("132680284897308673") },
		"parse 32": func() { _, _ = snowflake.ParseBase32("03NV00GH00W01") },
		"parse 58": func() { _, _ = snowflake.ParseBase58("1Js496h5uc4") },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: got %v allocations, want none", name, n)
		}
	}
	if !slices.Equal(id.AppendDecimal([]byte("x")), []byte("x132680284897308673")) {
		t.Error("AppendDecimal does not append")
	}
}
