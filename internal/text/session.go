package text

import "unicode/utf8"

// sessionLength is the minimum length of a session's UUID as text.
const sessionLength = 32

// Session shortens a session for its readers to "…" and its last eight characters, which
// are enough to tell it from other sessions. Only the holder needs the whole session:
// any process that has it and may write to the table can renew or release in the
// holder's name. Text that is too short for a session is returned unchanged.
// Session(Session(s)) is Session(s).
func Session(s string) string {
	if len(s) < sessionLength {
		return s
	}
	end := s[len(s)-8:]
	for end != "" && !utf8.RuneStart(end[0]) { // not in the middle of a character
		end = end[1:]
	}
	return "…" + end
}
