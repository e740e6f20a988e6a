package text

import "strings"

// Cell returns s for a cell of a spreadsheet: it has no line breaks, and a text that a
// spreadsheet would take for a formula begins with an apostrophe.
func Cell(s string) string {
	s = Line(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}
