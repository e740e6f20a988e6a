package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxLine is the most characters that Line shows of one value. The longest
	// ARN of an ECS task has about 170.
	MaxLine = 256
	// MaxError is the most characters that Error shows. AWS repeats several ARNs
	// in one message.
	MaxError = 2048
	// marks is how many combining marks one character may carry.
	marks = 2
)

// Line returns s as one line of printable characters, at most MaxLine of them.
// Everything else is shown as its Go escape: control characters, invalid bytes,
// format and bidi characters, letters written from right to left, blanks other
// than a single space, and marks without a character of their own. Line(Line(s))
// is Line(s).
func Line(s string) string { return Cut(s, MaxLine) }

// Cut is Line with a custom limit. The rest is replaced by "…".
func Cut(s string, limit int) string {
	var b strings.Builder
	var room room
	for i, size := 0, 0; i < len(s); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(s[i:])
		shown := room.show(r, size == 1 && r == utf8.RuneError, s[i], i+size == len(s))
		if limit -= utf8.RuneCountInString(shown); limit < 0 || limit == 0 && i+size < len(s) {
			return b.String() + "…"
		}
		b.WriteString(shown)
	}
	return b.String()
}

// room is Cut's state after the characters that it has passed.
type room struct {
	blank, base bool // the last character was a space; it can carry marks
	marks       int
	started     bool
}

// show returns how one character is shown.
func (m *room) show(r rune, invalid bool, b byte, last bool) string {
	leading := !m.started
	m.started = true
	switch {
	case invalid:
		m.blank, m.base = false, false
		return fmt.Sprintf(`\x%02x`, b)
	case r == ' ' && (m.blank || leading || last): // it would look like the gap between two columns
		m.blank, m.base = false, false
		return `\x20`
	case r == ' ':
		m.blank, m.base = true, false
		return " "
	case unicode.In(r, unicode.Mn, unicode.Me):
		if m.base && m.marks < marks && Plain(r) {
			m.marks++
			return string(r)
		}
		m.blank, m.base = false, false
		return escape(r)
	case !Plain(r):
		m.blank, m.base = false, false
		return escape(r)
	}
	m.blank, m.base, m.marks = false, true, 0
	return string(r)
}

// rightToLeft has the blocks whose characters, including those not yet assigned, are
// written from right to left. Such a character reorders the digits and signs next to it.
var rightToLeft = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x0590, Hi: 0x08ff, Stride: 1}, {Lo: 0xfb1d, Hi: 0xfdff, Stride: 1}, {Lo: 0xfe70, Hi: 0xfeff, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x10800, Hi: 0x10fff, Stride: 1}, {Lo: 0x1e800, Hi: 0x1efff, Stride: 1}},
}

// Plain reports whether r is shown unchanged: printable, visible, and with no
// effect on its neighbours.
func Plain(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r < 0x7f
	}
	return unicode.IsPrint(r) && r != utf8.RuneError && r != '\u2800' && r != '\ufffc' && // the blank braille pattern, the placeholder for an object
		!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, rightToLeft)
}

func escape(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r > 0xffff:
		return fmt.Sprintf(`\U%08x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// Quote returns Line in double quotes. A quote inside s cannot end it.
func Quote(s string) Safe {
	return Safe{`"` + strings.ReplaceAll(Line(s), `"`, `\"`) + `"`}
}

// Error returns err's text on one line. The parts that errors.Join sets on
// lines of their own are separated by semicolons.
func Error(err error) string {
	if err == nil {
		return ""
	}
	return Cut(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "), MaxError)
}
