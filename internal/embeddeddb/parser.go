package embeddeddb

import (
	"cmp"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed reserved.txt
var reservedText string

// reserved has the words that an expression may not use as attributes, in lower or upper case (developer guide, "Reserved
// words in DynamoDB").
var reserved = strings.Fields(reservedText) // sorted

type token struct {
	text       string // empty at the end
	start, end int    // in the expression
}

// tokens splits an expression into words, values and names with their mark, operators, and other characters, which the
// parser will refuse.
func tokens(s string) []token {
	all := make([]token, 0, len(s)/3+1)
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

// isWord reports whether t may be an attribute or a function: a word, but not one of the grammar's own.
func (t token) isWord() bool {
	return t.text != "" && isLetter(t.text[0]) && !strings.Contains(" AND OR NOT BETWEEN IN SET REMOVE ADD DELETE ", " "+strings.ToUpper(t.text)+" ")
}

type parser struct {
	*request
	kind   string  // "ConditionExpression", …
	source *string // nil: there is no such expression
	tokens []token
	at     int
	parens [2]int // where the last parenthesis began and ended
}

const (
	maxExpression = 4096
	path          = `[\w\]]\s*[.[]\s*[#A-Za-z0-9]`
)

// unsupported lists parts of expressions that DynamoDB accepts and this server does not.
var unsupported = map[string]*regexp.Regexp{
	"ConditionExpression":    regexp.MustCompile(path),
	"FilterExpression":       regexp.MustCompile(path),
	"UpdateExpression":       regexp.MustCompile(path + `|\w\s*-|(?i:\badd|\bdelete)\s+[#A-Za-z]`),
	"KeyConditionExpression": regexp.MustCompile(path + `|(?i:\b(?:and|or|not|between)\b)|[<>]=?`),
}

// calls matches the calls of functions that this server supports: the kind of expression, the token before, and the name.
var calls = regexp.MustCompile(`^(Condition|Filter)Expression (\(|(?i:AND|OR|NOT))? attribute_(not_)?exists$|^UpdateExpression (= list_append|[=+(,] if_not_exists)$`)

// expression returns the parser of an expression, after refusing parts that are not supported.
func (r *request) expression(kind string, source *string) *parser {
	p := &parser{kind: kind, source: source, request: r}
	if source == nil || len(*source) > maxExpression {
		return p
	}
	p.tokens = supported(kind, *source)
	return p
}

// served caches the tokens of expressions that are supported, since clients send the same expressions again and again.
var served struct {
	sync.Mutex
	tokens map[[2]string][]token
}

const mostServed = 1000 // expressions in the cache

// supported returns the tokens of an expression, and refuses by name any part that this server does not support.
func supported(kind, source string) []token {
	served.Lock()
	all := served.tokens[[2]string{kind, source}]
	served.Unlock()
	if all != nil {
		return all
	}
	if found := unsupported[kind].FindString(source); found != "" {
		refuseUnsupported(found + " in this place of an expression")
	}
	all = tokens(source)
	var before, name token
	for i, t := range all {
		switch isCall := name.isWord() || strings.EqualFold(name.text, "IN"); {
		case t.text != "(":
		case isCall && !calls.MatchString(kind+" "+before.text+" "+name.text):
			refuseUnsupported("the function " + name.text + " in this place of an expression")
		case !isCall && (kind == "UpdateExpression" || all[min(i+2, len(all)-1)].text == ")"):
			refuseUnsupported("parentheses around an operand of an expression")
		}
		before, name = name, t
	}
	served.Lock()
	defer served.Unlock()
	if len(served.tokens) >= mostServed || served.tokens == nil {
		served.tokens = map[[2]string][]token{}
	}
	served.tokens[[2]string{kind, source}] = all
	return all
}

func parse[T any](p *parser, read func(*parser) T) (result T) {
	switch {
	case p.source == nil:
		return result
	case *p.source == "":
		p.refuse("The expression can not be empty;")
	case len(*p.source) > maxExpression:
		p.refuse("Expression size has exceeded the maximum allowed size; expression size: %d", len(*p.source))
	}
	if result = read(p); p.peek().text != "" {
		p.refuseToken()
	}
	return result
}

func (p *parser) refuse(format string, args ...any) { refuse("Invalid "+p.kind+": "+format, args...) }

// refuseToken refuses the next token and quotes its neighbours, as DynamoDB does.
func (p *parser) refuseToken() {
	from, to := p.tokens[max(p.at-1, 0)].start, p.tokens[min(p.at+1, len(p.tokens)-1)].end
	p.refuse("Syntax error; token: \"%s\", near: \"%s\"", cmp.Or(p.peek().text, "<EOF>"), (*p.source)[from:to])
}

func (p *parser) peek() token { return p.tokens[p.at] }

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

func (p *parser) acceptFunction(name string) bool {
	return p.peek().text == name && p.tokens[p.at+1].text == "(" && p.accept(name) && p.accept("(")
}

func (p *parser) attribute() string {
	t := p.peek()
	if len(t.text) > 1 && t.text[0] == '#' {
		p.refuse("An expression attribute name used in the document path is not defined; attribute name: %s", t.text)
	}
	if !t.isWord() {
		p.refuseToken()
	}
	p.at++
	if _, found := slices.BinarySearch(reserved, strings.ToUpper(t.text)); found {
		p.refuse("Attribute name is a reserved keyword; reserved keyword: %s", t.text)
	}
	return t.text
}
