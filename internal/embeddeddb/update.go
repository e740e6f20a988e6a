package embeddeddb

import "maps"

// An update is what an UpdateExpression does to an item: to each attribute its new value, or nil to
// remove it.
type update map[string]func(old Item) Value

// update reads "SET assignments REMOVE attributes", in this order.
func (p *parser) update() update {
	u := update{}
	change := func(target string, to func(Item) Value) {
		if _, twice := u[target]; twice {
			p.refuse("Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [%s], path two: [%[1]s]", target)
		}
		u[target] = to
	}
	set := p.accept("SET")
	if set {
		p.list(func() {
			target := p.attribute()
			p.expect("=")
			change(target, p.assigned().in)
		})
	}
	if p.accept("REMOVE") {
		p.list(func() { change(p.attribute(), nil) })
	} else if !set {
		p.refuseIf("ADD", "DELETE")
		p.refuseToken()
	}
	p.refuseIf("ADD", "DELETE", "SET", "REMOVE")
	return u
}

// assigned reads the right side of an assignment.
func (p *parser) assigned() operand {
	if p.acceptFunction("list_append") {
		a := p.fallback()
		p.expect(",")
		b := p.fallback()
		p.expect(")")
		return p.combine("list_append", "L", a, b)
	}
	a := p.fallback()
	p.refuseIf("-")
	if p.accept("+") {
		return p.combine("+", "N", a, p.fallback())
	}
	return a
}

// fallback reads if_not_exists(attribute, operand), or else an operand.
func (p *parser) fallback() operand {
	if !p.acceptFunction("if_not_exists") {
		return p.operand()
	}
	a := operand{attribute: p.attribute()}
	p.expect(",")
	b := p.fallback()
	p.expect(")")
	p.wantDistinct("if_not_exists", a, b)
	return operand{compute: func(i Item) Value {
		v, otherwise := a.in(i), b.in(i)
		if v.absent() || otherwise.absent() { // DynamoDB wants it even where it does not need it
			return otherwise
		}
		return v
	}}
}

// combine gives the sum of two numbers, or one list after the other.
func (p *parser) combine(operator, kind string, left, right operand) operand {
	p.wantKinds(operator, kind, left, right)
	return operand{compute: func(i Item) Value {
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

// apply gives the item after the update. All of it sees the item as it was before, so that
// SET a = b, b = a swaps.
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
