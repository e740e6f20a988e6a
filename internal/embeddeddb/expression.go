package embeddeddb

import (
	"maps"
	"slices"
	"strings"
)

// A condition reports whether it holds for an item; a nil condition holds for every item.
type condition func(Item) bool

func (c condition) in(item Item) bool { return c == nil || c(item) }

func (p *parser) condition() condition {
	left := p.and()
	if p.accept("OR") {
		right := p.condition()
		return func(i Item) bool { return left(i) || right(i) }
	}
	return left
}

func (p *parser) and() condition {
	left := p.not()
	if p.accept("AND") {
		right := p.and()
		return func(i Item) bool { return left(i) && right(i) }
	}
	return left
}

func (p *parser) not() condition {
	if p.accept("NOT") {
		c := p.not()
		return func(i Item) bool { return !c(i) }
	}
	if from := p.at; p.accept("(") {
		c := p.condition()
		p.expect(")")
		if p.parens == [2]int{from + 1, p.at - 1} {
			p.refuse("The expression has redundant parentheses;")
		}
		p.parens = [2]int{from, p.at}
		return c
	}
	function := p.peek().text
	wantAbsent := p.acceptFunction("attribute_not_exists")
	if wantAbsent || p.acceptFunction("attribute_exists") {
		o := p.path(function)
		p.expect(")")
		return func(i Item) bool { return o.in(i).absent() == wantAbsent }
	}
	return p.comparison()
}

var orders = map[string][]int{"<": {-1}, "<=": {-1, 0}, ">": {1}, ">=": {0, 1}}

// comparison parses a comparison. An operand that is absent or of another type makes the comparison false, or true if
// the operator is <>.
func (p *parser) comparison() condition {
	left, operator := p.operand(), p.peek().text
	if p.accept("BETWEEN") {
		low := p.operand()
		p.expect("AND")
		high := p.operand()
		p.wantDistinct("BETWEEN", left, low, high)
		p.wantKinds("BETWEEN", "S N", left, low, high)
		if order, ok := compare(low.value, high.value); !low.value.absent() && !high.value.absent() && (!ok || order > 0) {
			why := map[bool]string{true: "upper bound to be greater than or equal to lower bound", false: "same data type for lower and upper bounds"}[ok]
			p.refuse("The BETWEEN operator requires %s; lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s", why, low.value, high.value)
		}
		return func(i Item) bool {
			return ordered(left.in(i), ">=", low.in(i)) && ordered(left.in(i), "<=", high.in(i))
		}
	}
	if orders[operator] == nil && operator != "=" && operator != "<>" {
		p.refuseToken()
	}
	p.at++
	right := p.operand()
	p.wantDistinct(operator, left, right)
	if orders[operator] == nil {
		return func(i Item) bool { return equal(left.in(i), right.in(i)) == (operator == "=") }
	}
	p.wantKinds(operator, "S N", left, right)
	return func(i Item) bool { return ordered(left.in(i), operator, right.in(i)) }
}

func ordered(a Value, operator string, b Value) bool {
	order, ok := compare(a, b)
	return ok && slices.Contains(orders[operator], order)
}

type operand struct {
	attribute string           // its name, if the operand is an attribute
	value     Value            // if the operand is a value
	in        func(Item) Value // the operand's value for an item; absent if anything that it needs is absent
}

func (p *parser) operand() operand {
	alias := p.peek().text
	if !strings.HasPrefix(alias, ":") || len(alias) == 1 {
		name := p.attribute()
		return operand{attribute: name, in: func(i Item) Value { return i[name] }}
	}
	p.at++
	v, ok := p.ExpressionAttributeValues[alias]
	if !ok {
		p.refuse("An expression attribute value used in expression is not defined; attribute value: %s", alias)
	}
	p.used[alias] = true
	return operand{value: v, in: func(Item) Value { return v }}
}

func (p *parser) path(function string) operand {
	o := p.operand()
	if o.attribute == "" {
		p.refuse("Operator or function requires a document path; operator or function: %s", function)
	}
	return o
}

func (p *parser) wantKinds(operator, kinds string, operands ...operand) {
	for _, o := range operands {
		if kind := o.value.kind(); !strings.Contains(kinds, kind) {
			p.refuse("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", operator, kind)
		}
	}
}

func (p *parser) wantDistinct(operator string, first operand, others ...operand) {
	for _, o := range others {
		if first.attribute != "" && o.attribute == first.attribute {
			p.refuse("The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: [%s]", operator, first.attribute)
		}
	}
}

// An update is the effect of an UpdateExpression on an item: for each attribute its new value, or nil to remove it.
type update map[string]func(old Item) Value

// update parses the sections SET and REMOVE, each at most once, in any order.
func (p *parser) update() update {
	u, seen := update{}, map[string]bool{}
	for len(seen) == 0 || p.peek().text != "" {
		section := strings.ToUpper(p.peek().text)
		switch {
		case section != "SET" && section != "REMOVE":
			p.refuseToken()
		case seen[section]:
			p.refuse("The \"%s\" section can only be used once in an update expression;", section)
		}
		seen[section] = true
		for next := true; next; next = p.peek().text == "," {
			p.at++
			target, to := p.attribute(), (func(Item) Value)(nil)
			if section == "SET" {
				p.expect("=")
				to = p.assigned().in
			}
			if _, twice := u[target]; twice {
				p.refuse("Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [%s], path two: [%[1]s]", target)
			}
			u[target] = to
		}
	}
	return u
}

func (p *parser) assigned() operand {
	if p.acceptFunction("list_append") {
		a := p.fallback()
		p.expect(",")
		b := p.fallback()
		p.expect(")")
		return p.combine("list_append", "L", a, b)
	}
	a := p.fallback()
	if p.accept("+") {
		return p.combine("+", "N", a, p.fallback())
	}
	return a
}

func (p *parser) fallback() operand {
	if !p.acceptFunction("if_not_exists") {
		return p.operand()
	}
	a := p.path("if_not_exists")
	p.expect(",")
	b := p.fallback()
	p.expect(")")
	p.wantDistinct("if_not_exists", a, b)
	return operand{in: func(i Item) Value {
		v, otherwise := a.in(i), b.in(i)
		if v.absent() || otherwise.absent() { // DynamoDB requires the fallback even when it does not need it
			return otherwise
		}
		return v
	}}
}

func (p *parser) combine(operator, kind string, left, right operand) operand {
	p.wantKinds(operator, kind, left, right)
	return operand{in: func(i Item) Value {
		a, b := left.in(i), right.in(i)
		switch {
		case a.absent() || b.absent():
			return Value{}
		case a.kind() != kind || b.kind() != kind:
			refuse("An operand in the update expression has an incorrect data type")
		case kind == "L":
			both := append(append([]Value{}, *a.L...), *b.L...)
			return Value{L: &both}
		}
		sum := a.N.plus(*b.N)
		return Value{N: &sum}
	}}
}

// apply returns the item after the update. All assignments see the item before it, so SET a = b, b = a swaps.
func (u update) apply(old Item) Item {
	item := maps.Clone(old)
	for name, to := range u {
		if to == nil {
			delete(item, name)
		} else if item[name] = to(old); item[name].absent() {
			refuse("The provided expression refers to an attribute that does not exist in the item")
		}
	}
	return item
}
