// Package texttest has a corpus of texts that deceive their readers, and a check that an
// output does not show them unchanged.
package texttest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/nodelease/nodelease/internal/text"
)

// Hostile has hostile texts by name. Each of them is known to change, or could change,
// how a reader sees the text around it.
var Hostile = map[string]string{
	"osc clipboard":         "worker\x1b]52;c;cm0gLXJmIC8K\a",
	"osc title":             "\x1b]0;all is well\x1b\\",
	"osc link":              "\x1b]8;;http://evil.example/\x1b\\docs\x1b]8;;\x1b\\",
	"csi clear":             "\x1b[2J\x1b[HNobody holds it; releasing is safe.",
	"csi colour":            "\x1b[8mhidden\x1b[0m",
	"c1 csi":                "\u009b2J\u009d0;t\u009c",
	"c1 next line":          "a\u0085nodelease: done",
	"newline":               "w\n✓ pool        orders has all of its 4 node IDs",
	"carriage return":       "w\rnode 1 of pool orders is free",
	"backspace":             "held\b\b\b\bfree",
	"tabs":                  "a\tb\t\tc",
	"line separators":       "a\u2028b\u2029c",
	"bidi override":         "\u202edleh si 7 edon\u202c",
	"bidi isolates":         "\u2066abc\u2069\u200f\u200e",
	"right to left":         "שלום 7 مرحبا",
	"combining flood":       "e" + strings.Repeat("\u0301", 4000),
	"no base":               "\u0301\u0301x",
	"zero width":            "or\u200bders\u2060\ufeff\u00ad",
	"blank letters":         "\u3164\u115f\u2800\u00a0\u3000x",
	"variation selectors":   "a\ufe0f\U000e0100\u180b",
	"tag characters":        "ok\U000e0041\U000e007f",
	"private use":           "\ue000\U000f0000",
	"gap of spaces":         "w            12s ago      free",
	"edge spaces":           " w ",
	"only spaces":           strings.Repeat(" ", 300),
	"long":                  strings.Repeat("A", 390_000),
	"long and wide":         strings.Repeat("字", 130_000),
	"invalid UTF-8":         "a\xff\xfe\x80b\xc3",
	"nul":                   "a\x00b\x7f",
	"formula":               `=HYPERLINK("http://evil.example","ok")`,
	"formula at":            "@SUM(1+1)*cmd|' /C calc'!A0",
	"prototype":             "__proto__",
	"quotes":                `x"; fix: rm -rf / #'$(id)` + "`id`",
	"placeholder":           "%s%n%!d(MISSING)",
	"json":                  `"},"state":"free","x":{"`,
	"markup":                "<img src=x onerror=alert(1)>",
	"csv":                   "a,b\",\"c\r\nd",
	"remedy":                "; fix: nodelease release 7 --yes",
	"forged fact":           "reserved until 1970-01-01 (now)",
	"surrogates in UTF-8":   "\xed\xa0\x80",
	"unassigned":            "\u0378\U0003ffff",
	"emoji with joiners":    "👩\u200d👩\u200d👧",
	"shift out":             "\x0e\x0fqqqq",
	"device control":        "\x1bP+q544e\x1b\\",
	"enclosing marks":       "a\u20dd\u20de\u20e3\u20dd",
	"interlinear":           "\ufff9a\ufffab\ufffb",
	"object replacement":    "\ufffc\ufffd",
	"terminal answerback":   "\x05\x1b[c\x1b[6n",
	"soft line of spaces":   "a" + strings.Repeat(" \u00a0", 60) + "b",
	"looks like the gate's": `\x1b[2J…`,
}

// Check returns an error if output has characters that are not plain, apart from line
// breaks and, where colours are allowed, SGR sequences. It also returns an error for more
// than two marks on a character, and for lines longer than limit characters, unless limit
// is 0.
func Check(output string, colours bool, limit int) error {
	if colours {
		output = withoutColours(output)
	}
	for line := range strings.SplitSeq(output, "\n") {
		if n := utf8.RuneCountInString(line); limit > 0 && n > limit {
			return fmt.Errorf("a line of %d characters, want at most %d: %.200q…", n, limit, line)
		}
		marks := 0
		for i, r := range line {
			if !text.Plain(r) || r == utf8.RuneError {
				return fmt.Errorf("%q (%U) at %d of the line %.300q", r, r, i, line)
			}
			if marks++; r < 0x300 || r > 0x36f {
				marks = 0
			}
			if marks > 2 {
				return fmt.Errorf("%d marks on one character in %.300q", marks, line)
			}
		}
	}
	return nil
}

// withoutColours removes the sequences that set colours, but no others.
func withoutColours(s string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		end := strings.TrimLeft(rest, "0123456789;:")
		if !strings.HasPrefix(end, "m") {
			b.WriteString("\x1b[")
			end = "m" + rest
		}
		s = end[1:]
	}
}
