package text_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/internal/text/texttest"
)

// No forbidden character of the corpus gets through the gate, however a value is shown.
func TestHostile(t *testing.T) {
	for name, hostile := range texttest.Hostile {
		for way, shown := range map[string]string{
			"Line":    text.Line(hostile),
			"Quote":   text.Quote(hostile).String(),
			"Error":   text.Error(errors.New(hostile)),
			"Cell":    text.Cell(hostile),
			"string":  text.Sprintf("%s", hostile).String(),
			"quoted":  text.Sprintf("%q", hostile).String(),
			"named":   text.Sprintf("%v", named(hostile)).String(),
			"slice":   text.Sprintf("%v", []string{hostile, hostile}).String(),
			"error":   text.Sprintf("%v", errors.New(hostile)).String(),
			"struct":  text.Sprintf("%+v", struct{ A, B string }{hostile, hostile}).String(),
			"map":     text.Sprintf("%v", map[string]string{hostile: hostile}).String(),
			"Builder": built(hostile),
			"log":     strings.TrimSuffix(logged(hostile), "\n"),
		} {
			if err := texttest.Check(shown, false, 8*text.MaxError); err != nil || strings.Contains(shown, "\n") {
				t.Errorf("%s by %s: %v: %.300q", name, way, err, shown)
			}
		}
		if once := text.Line(hostile); text.Line(once) != once {
			t.Errorf("%s: Line of %q is %q", name, once, text.Line(once))
		}
	}
}

type named string

func built(s string) string {
	var b text.Builder
	b.Printf("%-10s", s)
	b.Add(text.Join([]text.Safe{text.Sprintf("%s", s), text.Quote(s)}, ", "))
	return b.Safe().String()
}

func logged(s string) string {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: text.Attr}))
	log.Warn(s, "task", s, s, 1, "err", errors.New(s), "any", []string{s}, slog.Group("g", "inner", s))
	return b.String()
}

func TestLine(t *testing.T) {
	for s, want := range map[string]string{
		"":                       "",
		"plain":                  "plain",
		"two words":              "two words",
		"Zürich 東京 naïve é":      "Zürich 東京 naïve é",
		"e\u0301":                "e\u0301",
		"e\u0301\u0301\u0301":    "e\u0301\u0301\\u0301",
		" a  b ":                 `\x20a \x20b\x20`,
		"a\nb\r\tc\x1b\x7f":      `a\nb\r\tc\x1b\x7f`,
		"\xff\u202e\U000e0001":   `\xff\u202e\U000e0001`,
		"א":                      `\u05d0`,
		`C:\x`:                   `C:\x`,
		strings.Repeat("x", 256): strings.Repeat("x", 256),
		strings.Repeat("x", 257): strings.Repeat("x", 255) + "…",
	} {
		if got := text.Line(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
	if got, want := text.Cut("abcdef", 3), "ab…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := text.Quote(`a"b`).String(), `"a\"b"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSprintf(t *testing.T) {
	red := text.Trusted("\x1b[31mred\x1b[0m")
	for _, test := range []struct {
		got  text.Safe
		want string
	}{
		{text.Sprintf("%d of %5.1f %% %v\n", 3, 12.34, true), "3 of  12.3 % true\n"},
		{text.Sprintf("%s|%-6s|", red, "ab"), "\x1b[31mred\x1b[0m|ab    |"},
		{text.Sprintf("%v", nil), "<nil>"},
		{text.Sprintf("%v", errors.Join(errors.New("a"), errors.New("b"))), "a; b"},
		{text.Sprintf("%s", []string{"a b", "c\n"}), `[a b c\n]`},
	} {
		if got := test.got.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestSession(t *testing.T) {
	for s, want := range map[string]string{
		"": "", "session1": "session1", "0198f3f2-7a5c-7d60-8c0a-1f2e3d4c5b6a": "…3d4c5b6a", "0198f3f27a5c7d608c0a1f2e3d4c5b6a": "…3d4c5b6a", "…3d4c5b6a": "…3d4c5b6a",
		strings.Repeat("字", 12): "…字字",
	} {
		if got := text.Session(s); got != want {
			t.Errorf("%q is shown as %q, want %q", s, got, want)
		}
	}
}

func TestCell(t *testing.T) {
	for s, want := range map[string]string{"": "", "a": "a", "=1": "'=1", "-x": "'-x", "+1": "'+1", "@a": "'@a", "\t=1": `\t=1`} {
		if got := text.Cell(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

// MarshalJSON reproduces every valid value exactly, and uses only characters that any
// terminal can display.
func TestMarshalJSON(t *testing.T) {
	for name, hostile := range texttest.Hostile {
		want := map[string]string{"text": hostile, hostile: "key"}
		raw, err := text.MarshalJSON(want)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range string(raw) {
			if !text.Plain(r) {
				t.Errorf("%s: %U in %.200q", name, r, raw)
				break
			}
		}
		var got map[string]string
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if utf8.ValidString(hostile) && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %.200q, want %.200q", name, got, want)
		}
	}
	var b bytes.Buffer
	if err := text.WriteJSON(&b, map[string]string{"a": "\u202e\U000e0001\n"}); err != nil || b.String() != `{"a":"\u202e\udb40\udc01\n"}`+"\n" {
		t.Errorf("got %s, %v", b.String(), err)
	}
}

// Any text becomes one line of bounded length, and the gate does not change a text that
// has passed it before.
func FuzzLine(f *testing.F) {
	for _, s := range texttest.Hostile {
		f.Add(s[:min(len(s), 2000)], 20)
	}
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(limit%500, 1)
		got := text.Cut(s, limit)
		if n := utf8.RuneCountInString(got); n > limit {
			t.Errorf("%q: %d characters, want at most %d: %q", s, n, limit, got)
		}
		if err := texttest.Check(got, false, 0); err != nil || strings.Contains(got, "\n") {
			t.Errorf("%q: %v", s, err)
		}
		if again := text.Cut(got, limit); again != got {
			t.Errorf("%q: got %q, then %q", s, got, again)
		}
	})
}
