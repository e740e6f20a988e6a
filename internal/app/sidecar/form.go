package sidecar

import (
	"encoding/binary"
	"mime"
	"strconv"
	"strings"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// form is one format in which an answer may contain IDs.
type form struct {
	mediaType   string
	contentType string
	append      func([]byte, []snowflake.ID) []byte
}

// forms returns the formats for IDs, the default first.
func (h *handler) forms() []form {
	json := appendStrings
	if h.ids.Layout().JavaScriptSafe() {
		json = appendNumbers
	}
	return []form{
		{"application/json", "application/json", json},
		{"text/plain", "text/plain; charset=utf-8", appendLines},
		{"application/octet-stream", "application/octet-stream", appendBinary},
	}
}

// appendStrings writes {"ids":["1","2"]}. IDs are strings, because JavaScript rounds numbers
// above 2^53.
func appendStrings(b []byte, ids []snowflake.ID) []byte {
	b = append(b, `{"ids":["`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, `","`...)
		}
		b = id.AppendDecimal(b)
	}
	return append(b, "\"]}\n"...)
}

// appendNumbers writes {"ids":[1,2]}, for layouts of up to 53 bits.
func appendNumbers(b []byte, ids []snowflake.ID) []byte {
	b = append(b, `{"ids":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = id.AppendDecimal(b)
	}
	return append(b, "]}\n"...)
}

// appendLines writes each ID in decimal digits, one per line.
func appendLines(b []byte, ids []snowflake.ID) []byte {
	for _, id := range ids {
		b = append(id.AppendDecimal(b), '\n')
	}
	return b
}

// appendBinary writes each ID as eight bytes, big endian, one after the other.
func appendBinary(b []byte, ids []snowflake.ID) []byte {
	for _, id := range ids {
		b = binary.BigEndian.AppendUint64(b, uint64(id)) //nolint:gosec // an ID is not negative
	}
	return b
}

// choose returns the form that an Accept header prefers: the first of several that it
// prefers equally, or the first of all if there is no header (RFC 9110, section 12.5.1).
func choose(forms []form, accept []string) (best form, ok bool) {
	if len(accept) == 0 {
		return forms[0], true
	}
	most := 0.0
	for _, f := range forms {
		if q := liking(f.mediaType, accept); q > most {
			best, most = f, q
		}
	}
	return best, most > 0
}

// liking returns the quality that the most specific range assigns to a media type.
func liking(mediaType string, accept []string) (quality float64) {
	kind, _, _ := strings.Cut(mediaType, "/")
	specific := 0
	for _, list := range accept {
		for item := range strings.SplitSeq(list, ",") {
			name, parameters, err := mime.ParseMediaType(strings.TrimSpace(item))
			if err != nil {
				continue
			}
			q := 1.0
			if text, ok := parameters["q"]; ok {
				if q, err = strconv.ParseFloat(text, 64); err != nil || !(q >= 0 && q <= 1) {
					continue
				}
			}
			s := 0
			switch name {
			case mediaType:
				s = 3
			case kind + "/*":
				s = 2
			case "*/*":
				s = 1
			}
			if s > specific {
				specific, quality = s, q
			}
		}
	}
	return quality
}
