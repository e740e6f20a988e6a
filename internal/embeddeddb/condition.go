package embeddeddb

// A condition holds for an item or not.
type condition func(Item) bool

// parseCondition reads a condition; none holds for every item.
func parseCondition(source *string, r *request) condition {
	if source == nil {
		return func(Item) bool { return true }
	}
	return parse("ConditionExpression", source, r, (*parser).or)
}

func (p *parser) or() condition {
	left := p.and()
	for p.accept("OR") {
		a, b := left, p.and()
		left = func(i Item) bool { return a(i) || b(i) }
	}
	return left
}

func (p *parser) and() condition {
	left := p.not()
	for p.accept("AND") {
		a, b := left, p.not()
		left = func(i Item) bool { return a(i) && b(i) }
	}
	return left
}

func (p *parser) not() condition {
	if p.accept("NOT") {
		c := p.not()
		return func(i Item) bool { return !c(i) }
	}
	if from := p.at; p.accept("(") {
		c := p.or()
		p.expect(")")
		if p.parens == [2]int{from + 1, p.at - 1} {
			p.refuse("The expression has redundant parentheses;")
		}
		p.parens = [2]int{from, p.at}
		return c
	}
	wantAbsent := p.acceptFunction("attribute_not_exists")
	if wantAbsent || p.acceptFunction("attribute_exists") {
		name := p.attribute()
		p.expect(")")
		return func(i Item) bool { return i[name].absent() == wantAbsent }
	}
	return p.comparison()
}

// orders are the operators that compare strings or numbers, and what each wants their order to be.
var orders = map[string]func(order int) bool{
	"<":  func(order int) bool { return order < 0 },
	"<=": func(order int) bool { return order <= 0 },
	">":  func(order int) bool { return order > 0 },
	">=": func(order int) bool { return order >= 0 },
}

// comparison reads one. What is absent or of another type makes it false, except <>, which it
// makes true.
func (p *parser) comparison() condition {
	left := p.operand()
	p.refuseIf("IN")
	if p.accept("BETWEEN") {
		low := p.operand()
		p.expect("AND")
		high := p.operand()
		p.wantDistinct("BETWEEN", left, low, high)
		p.wantKinds("BETWEEN", "S N", left, low, high)
		p.wantRange(low.value, high.value)
		return func(i Item) bool {
			fromLow, ok := compare(left.in(i), low.in(i))
			toHigh, too := compare(left.in(i), high.in(i))
			return ok && too && fromLow >= 0 && toHigh <= 0
		}
	}
	operator := p.peek().text
	fits, ordered := orders[operator]
	if !ordered && operator != "=" && operator != "<>" {
		p.refuseToken()
	}
	p.at++
	right := p.operand()
	p.wantDistinct(operator, left, right)
	if !ordered {
		return func(i Item) bool { return equal(left.in(i), right.in(i)) == (operator == "=") }
	}
	p.wantKinds(operator, "S N", left, right)
	return func(i Item) bool {
		order, ok := compare(left.in(i), right.in(i))
		return ok && fits(order)
	}
}

// wantRange refuses two known bounds of which no value can be between.
func (p *parser) wantRange(low, high Value) {
	order, ok := compare(low, high)
	why := "upper bound to be greater than or equal to lower bound"
	if !ok {
		why = "same data type for lower and upper bounds"
	}
	if !low.absent() && !high.absent() && (!ok || order > 0) {
		p.refuse("The BETWEEN operator requires %s; lower bound operand: AttributeValue: %s, upper bound operand: AttributeValue: %s", why, low, high)
	}
}
