package text

import "unicode/utf8"

// sessionLength is how long the UUID of a session is as text, at least.
const sessionLength = 32

// Session returns as much of a session as its readers see: "…" and its last eight
// characters, enough to tell it from others. Nobody but its holder needs the whole: with
// it and a right to write, a renewal or a release can be sent in the holder's name. Text
// that is too short for a session of ours is returned unchanged. Session(Session(s)) is
// Session(s).
func Session(s string) string {
	if len(s) < sessionLength {
		return s
	}
	end := s[len(s)-8:]
	for end != "" && !utf8.RuneStart(end[0]) { // of a text that is not one of ours
		end = end[1:]
	}
	return "…" + end
}
