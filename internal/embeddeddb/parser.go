package embeddeddb

import (
	"slices"
	"strings"
)

type token struct {
	text       string // empty at the end
	start, end int    // in the expression
}

// tokens are words, values with their mark, operators, and any other character, which the parser
// will refuse.
func tokens(s string) []token {
	all := make([]token, 0, len(s)/3)
	for at, end := 0, 0; at < len(s); at = end {
		end = at + 1
		switch c := s[at]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			continue
		case c == '#', c == ':', isLetter(c):
			for end < len(s) && (isLetter(s[end]) || '0' <= s[end] && s[end] <= '9' || s[end] == '_') {
				end++
			}
		case end < len(s) && slices.Contains([]string{"<>", "<=", ">="}, s[at:end+1]):
			end++
		}
		all = append(all, token{s[at:end], at, end})
	}
	return append(all, token{"", len(s), len(s)})
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isWord: the grammar's own words are never attributes or functions.
func (t token) isWord() bool {
	return t.text != "" && isLetter(t.text[0]) && !strings.Contains(" AND OR NOT BETWEEN IN SET REMOVE ADD DELETE ", " "+strings.ToUpper(t.text)+" ")
}

// A parser reads one expression by recursive descent.
type parser struct {
	*request
	kind   string // "ConditionExpression", …
	source string
	tokens []token
	at     int
	parens [2]int // where the last parenthesis began and ended
}

// parse reads an expression, if there is one, to its end.
func parse[T any](kind string, source *string, r *request, read func(*parser) T) (result T) {
	if source == nil {
		return result
	}
	p := &parser{request: r, kind: kind, source: *source, tokens: tokens(*source)}
	switch {
	case *source == "":
		p.refuse("The expression can not be empty;")
	case len(*source) > 4096:
		p.refuse("Expression size has exceeded the maximum allowed size; expression size: %d", len(*source))
	}
	result = read(p)
	if p.peek().text != "" {
		p.refuseToken()
	}
	return result
}

func (p *parser) refuse(format string, args ...any) { refuse("Invalid "+p.kind+": "+format, args...) }

// refuseToken refuses the next token and quotes its neighbours, as DynamoDB does.
func (p *parser) refuseToken() {
	text, from, to := p.peek().text, p.tokens[max(p.at-1, 0)].start, p.tokens[min(p.at+1, len(p.tokens)-1)].end
	if text == "" {
		text = "<EOF>"
	}
	p.refuse("Syntax error; token: \"%s\", near: \"%s\"", text, p.source[from:to])
}

// refuseIf refuses the next token by name if it is one that DynamoDB would take here.
func (p *parser) refuseIf(unsupported ...string) {
	if text := strings.ToUpper(p.peek().text); slices.Contains(unsupported, text) {
		refuseUnsupported(text + " in an expression")
	}
}

func (p *parser) peek() token { return p.tokens[p.at] }

// accept takes the next token if it is this symbol or, in any case, this keyword.
func (p *parser) accept(text string) bool {
	if !strings.EqualFold(p.peek().text, text) {
		return false
	}
	p.at++
	return true
}

func (p *parser) expect(text string) {
	if !p.accept(text) {
		p.refuseToken()
	}
}

// acceptFunction takes the name of this function and its parenthesis, if they come next.
func (p *parser) acceptFunction(name string) bool {
	if p.peek().text != name || p.tokens[p.at+1].text != "(" {
		return false
	}
	p.at += 2
	return true
}

// list reads one or more things with commas between.
func (p *parser) list(read func()) {
	for read(); p.accept(","); {
		read()
	}
}

// attribute reads the name of one.
func (p *parser) attribute() string {
	t := p.peek()
	if len(t.text) > 1 && t.text[0] == '#' {
		p.refuse("An expression attribute name used in the document path is not defined; attribute name: %s", t.text)
	}
	if !t.isWord() {
		p.refuseToken()
	}
	p.at++
	if p.peek().text == "(" {
		refuseUnsupported("the function " + t.text + " in this place")
	}
	if reserved[strings.ToUpper(t.text)] {
		p.refuse("Attribute name is a reserved keyword; reserved keyword: %s", t.text)
	}
	p.refuseIf(".", "[")
	return t.text
}
