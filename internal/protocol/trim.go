package protocol

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Limits on reading an answer. DynamoDB bounds items (400 KB) and pages (1 MB) by their
// content. As JSON, a list of empty strings is nine times as long as its content, and a
// list of large powers of ten is 45 times as long. In addition, the SDK uses about 200
// bytes for each token. So an answer is read as a stream, and anything larger than what our
// items contain is left out before the SDK sees it: one item costs a reader at most 1 MB,
// and a page at most 8 MB.
const (
	// maxStream is more than any page: 1 MB of numbers that have 3 bytes in the table
	// and 134 as JSON.
	maxStream = 64 << 20
	// maxEnvelope bounds the size of an answer without its items, such as the description
	// of a table, or an error with its reasons.
	maxEnvelope = 256 << 10
	// maxItem and maxItemTokens bound an item. Our longest text is a reaper's memory or a
	// part of a digest, at most 390 KB of base 64. A record of 8,192 shared leases has
	// the most tokens, six each.
	maxItem, maxItemTokens = 1 << 20, 64 << 10
	// After manyBytes or manyTokens of an answer, each further item is limited to
	// smallBytes and smallTokens. That is the size of the item with the known versions of
	// 1,024 members, the largest item that occurs often. So our pages rarely reach
	// manyBytes, and if they do, they lose nothing.
	manyBytes, manyTokens   = 4 << 20, 150_000
	smallBytes, smallTokens = 64 << 10, 2_500
	// After mostBytes or mostTokens only the keys of items are kept.
	mostBytes, mostTokens = 8 << 20, 350_000
	// maxKey bounds the attributes of a key: 2 KB of text, with escapes.
	maxKey = 13 << 10
	// maxDepth is more than the 32 levels that DynamoDB stores, doubled for their types.
	maxDepth = 100
	// tinyBytes is more than the answer to a write of one lease.
	tinyBytes = 4 << 10
)

// trimmed is the name of an attribute that no stored item has. It marks an item of which
// parts were left out on reading.
const trimmed = "#trimmed"

// trimmer copies an answer, and leaves out the parts that are too large. It follows the
// JSON only as far as needed for that, so invalid JSON stays invalid.
type trimmer struct {
	out           []byte
	depth         int
	name          []byte // the last text at the depth of names, without its quotes
	list          bool   // the answer's current member is Items
	item          int    // the depth of an item's attributes; 0 outside items
	itemAt, begun int    // where in out the item and its current attribute begin
	cut, over     bool   // the item was trimmed; the rest of the attribute is left out
	tokens        int    // number of tokens in out
	itemTokens    int    // value of tokens where the item began
	begunTokens   int    // value of tokens where the attribute began
	envelope      int    // number of bytes outside items
}

// trim reads an answer to its end, bounded as above. An answer that is too small to exceed any
// limit but maxDepth is returned unchanged.
func trim(r io.Reader) ([]byte, error) {
	body := bytes.NewBuffer(make([]byte, 0, tinyBytes))
	_, err := body.ReadFrom(io.LimitReader(r, smallBytes))
	switch {
	case err != nil:
		return nil, err
	case body.Len() < smallBytes && shallow(body.Bytes()):
		return body.Bytes(), nil
	}
	return trimAll(io.MultiReader(body, r))
}

// shallow reports whether the brackets of an answer are balanced, with at most maxDepth
// levels.
func shallow(answer []byte) bool {
	depth := 0
	for i := 0; i < len(answer); i++ {
		switch answer[i] {
		case '"': // skip the string, whose brackets do not count
			for i++; i < len(answer) && answer[i] != '"'; i++ {
				if answer[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth < 1 || depth > maxDepth {
			return depth == 0 && i == len(answer)-1
		}
	}
	return false
}

// trimAll is trim for answers of any size.
func trimAll(r io.Reader) ([]byte, error) {
	t := &trimmer{out: make([]byte, 0, 1<<10)} // one item
	in := bufio.NewReaderSize(io.LimitReader(r, maxStream+1), 4<<10)
	read, text, escaped := 0, false, false
	for {
		// Take as much as the buffer has, without a copy.
		chunk, err := in.Peek(max(1, in.Buffered()))
		if len(chunk) == 0 {
			if errors.Is(err, io.EOF) {
				return t.out, nil
			}
			return nil, err
		}
		if read += len(chunk); read > maxStream {
			return nil, notDynamoDB("it has more than %d MB", maxStream>>20)
		}
		for i := 0; i < len(chunk); {
			if text { // consume the string at once, to its end or to the end of the chunk
				end, closed := i, false
				for ; end < len(chunk) && !closed; end++ {
					switch c := chunk[end]; {
					case escaped:
						escaped = false
					case c == '\\':
						escaped = true
					case c == '"':
						closed = true
					default:
						if next := bytes.IndexAny(chunk[end:], `"\`); next > 0 {
							end += next - 1
						} else if next < 0 {
							end = len(chunk) - 1
						}
					}
				}
				t.text(chunk[i:end], closed)
				text, i = !closed, end
				continue
			}
			if text = chunk[i] == '"'; text {
				t.opens()
			}
			if t.skips(chunk[i]) {
				i++
				continue
			}
			if err := t.sign(chunk[i]); err != nil {
				return nil, err
			}
			i++
		}
		if err := t.bound(); err != nil {
			return nil, err
		}
		_, _ = in.Discard(len(chunk)) // it is buffered
	}
}

// skips reports whether c is part of an attribute that is left out. If so, it consumes c
// and only keeps track of the depth.
func (t *trimmer) skips(c byte) bool {
	if !t.over || t.depth <= t.item+1 || t.depth >= maxDepth {
		return false
	}
	switch c {
	case '{', '[':
		t.depth++
	case '}', ']':
		t.depth--
	}
	return true
}

// opens begins a string. Only the names of the answer's members and of an item's attributes
// are kept.
func (t *trimmer) opens() {
	if t.depth <= 1 || t.depth == t.item {
		t.name = t.name[:0]
	}
}

// text consumes a part of a string, with its closing quote.
func (t *trimmer) text(part []byte, closed bool) {
	if (t.depth <= 1 || t.depth == t.item) && len(t.name) < 64 {
		name := part
		if closed {
			name = part[:len(part)-1]
		}
		t.name = append(t.name, name[:min(len(name), 64)]...)
	}
	t.put(part...)
}

// sign consumes a byte outside strings, or the quote that begins one.
func (t *trimmer) sign(c byte) error {
	switch c {
	case '{', '[':
		t.token()
		if t.depth++; t.depth > maxDepth {
			return notDynamoDB("its JSON has more than %d levels", maxDepth)
		}
		t.put(c)
		t.enter(c)
		return nil
	case '}', ']':
		if t.depth--; t.depth < 0 {
			return notDynamoDB("it is no JSON")
		}
		if t.item > 0 && t.depth == t.item-1 {
			t.leave()
		}
		t.put(c)
		return nil
	case ',':
		next := t.item > 0 && t.depth == t.item
		if next {
			t.begin()
		}
		t.token()
		if next && t.out[len(t.out)-1] == '{' {
			return nil // the attribute before the comma was left out
		}
	}
	t.put(c)
	return nil
}

// token counts the tokens for which the SDK allocates.
func (t *trimmer) token() {
	if !t.over {
		t.tokens++
	}
}

// enter detects where an item begins: at the object Item or Attributes of an answer, or at
// an object in the list Items.
func (t *trimmer) enter(c byte) {
	switch name := string(t.name); {
	case t.item > 0:
	case t.depth == 2 && c == '[':
		t.list = name == "Items"
	case t.depth == 2:
		t.list = false
		if name == "Item" || name == "Attributes" {
			t.starts()
		}
	case t.depth == 3 && c == '{' && t.list:
		t.starts()
	}
}

func (t *trimmer) starts() {
	t.item, t.itemAt, t.itemTokens, t.cut = t.depth, len(t.out), t.tokens, false
	t.name = t.name[:0]
	t.begin()
}

// begin notes that an attribute may begin here.
func (t *trimmer) begin() { t.begun, t.begunTokens, t.over = len(t.out), t.tokens, false }

// leave ends an item, and marks it if parts were left out.
func (t *trimmer) leave() {
	t.begin()
	if t.cut {
		if t.out[len(t.out)-1] != '{' {
			t.out = append(t.out, ',')
		}
		t.out = append(t.out, `"`+trimmed+`":{"BOOL":true}`...)
	}
	t.item = 0
}

// put appends the bytes to keep. Within an item it leaves out an attribute that
// makes the item too large, unless it belongs to the key.
func (t *trimmer) put(b ...byte) {
	if t.over {
		return
	}
	t.out = append(t.out, b...)
	if t.item == 0 {
		t.envelope += len(b)
		return
	}
	bytes, tokens := maxItem, maxItemTokens
	switch {
	case t.itemAt > mostBytes || t.itemTokens > mostTokens:
		bytes, tokens = 0, 0
	case t.itemAt > manyBytes || t.itemTokens > manyTokens:
		bytes, tokens = smallBytes, smallTokens
	}
	if len(t.out)-t.itemAt <= bytes && t.tokens-t.itemTokens <= tokens && !t.cut {
		return
	}
	if t.depth == t.item && len(t.out)-t.begun <= maxKey {
		return // so far it is only a name
	}
	if name := string(t.name); (name == partitionKey || name == sortKey) && len(t.out)-t.begun <= maxKey {
		return
	}
	t.out, t.tokens, t.cut, t.over = t.out[:t.begun], t.begunTokens, true, true
}

// bound stops reading a body that cannot be an answer of DynamoDB.
func (t *trimmer) bound() error {
	if t.envelope > maxEnvelope {
		return notDynamoDB("it has more than %d KB beside its items", maxEnvelope>>10)
	}
	if len(t.out) > mostBytes+2*maxItem {
		return notDynamoDB("it has more than %d MB of keys", mostBytes>>20)
	}
	return nil
}
