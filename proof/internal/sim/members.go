package sim

import (
	"bytes"
	"encoding/json"
)

// members returns the members of a JSON object. The database has accepted or sent the
// object, so it is valid JSON. Package encoding/json would take a tenth of a world's running
// time, since every write is witnessed.
func members(object []byte) map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for at := bytes.IndexByte(object, '"'); at >= 0 && at < len(object); {
		end := valueEnd(object, at)
		name := unquoted(object[at:end])
		at = end + bytes.IndexByte(object[end:], ':') + 1
		for object[at] == ' ' {
			at++
		}
		end = valueEnd(object, at)
		all[name] = object[at:end]
		next := bytes.IndexByte(object[end:], '"')
		if next < 0 {
			break
		}
		at = end + next
	}
	return all
}

// valueEnd returns the index after the value that begins at index at.
func valueEnd(text []byte, at int) int {
	depth := 0
	for ; at < len(text); at++ {
		switch text[at] {
		case '"':
			for at++; text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']', ',':
			if text[at] != ',' {
				depth--
			}
			if depth < 0 || depth == 0 && text[at] == ',' { // just after a number or a word
				return at
			}
			if depth == 0 {
				return at + 1
			}
		}
	}
	return at
}

// unquoted returns the content of a JSON string.
func unquoted(text []byte) (s string) {
	if len(text) > 1 && bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : len(text)-1])
	}
	_ = json.Unmarshal(text, &s) // if the string is missing, s stays ""
	return s
}

// text returns an attribute that is a string or a number, or "" if it is missing or of
// another type.
func text(attribute json.RawMessage) string {
	if n := len(attribute); n > 7 && bytes.Equal(attribute[3:6], []byte(`":"`)) && (attribute[2] == 'S' || attribute[2] == 'N') && bytes.IndexByte(attribute, '\\') < 0 {
		return string(attribute[6 : n-2])
	}
	var v struct{ S, N string }
	_ = json.Unmarshal(attribute, &v)
	return v.S + v.N
}
