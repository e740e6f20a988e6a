package text

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// WriteJSON writes v as one line of JSON, as [MarshalJSON] returns it.
func WriteJSON(w io.Writer, v any) error {
	line, err := MarshalJSON(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// MarshalJSON returns v as [json.Marshal] does, but with every combining mark and every
// character that is not [Plain] as a \u escape. So a terminal shows the JSON unchanged,
// and it is one line for every reader. The values are the same.
func MarshalJSON(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	// Outside strings, JSON is printable ASCII; inside, json.Marshal has escaped C0.
	escaped := make([]byte, 0, len(raw))
	for i, size := 0, 0; i < len(raw); i += size {
		var r rune
		r, size = utf8.DecodeRune(raw[i:])
		switch {
		case Plain(r) && !unicode.In(r, unicode.Mn, unicode.Me):
			escaped = append(escaped, raw[i:i+size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		default:
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		}
	}
	return escaped, nil
}
