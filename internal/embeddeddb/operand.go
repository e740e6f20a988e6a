package embeddeddb

import "strings"

// An operand of an expression: an attribute, a value, or what an update computes.
type operand struct {
	attribute string
	value     Value
	compute   func(Item) Value
}

// in is the operand's value in an item; it is absent if anything that it needs is.
func (o operand) in(item Item) Value {
	switch {
	case o.attribute != "":
		return item[o.attribute]
	case o.compute != nil:
		return o.compute(item)
	}
	return o.value
}

// operand reads an attribute or a value.
func (p *parser) operand() operand {
	alias := p.peek().text
	if !strings.HasPrefix(alias, ":") || len(alias) == 1 {
		return operand{attribute: p.attribute()}
	}
	p.at++
	v, ok := p.ExpressionAttributeValues[alias]
	if !ok {
		p.refuse("An expression attribute value used in expression is not defined; attribute value: %s", alias)
	}
	p.used[alias] = true
	return operand{value: v}
}

// wantKinds refuses operands whose type is known now and is wrong.
func (p *parser) wantKinds(operator, kinds string, operands ...operand) {
	for _, o := range operands {
		if kind := o.value.kind(); !strings.Contains(kinds, kind) {
			p.refuse("Incorrect operand type for operator or function; operator or function: %s, operand type: %s", operator, kind)
		}
	}
}

// wantDistinct refuses an attribute that is compared with itself.
func (p *parser) wantDistinct(operator string, first operand, others ...operand) {
	for _, o := range others {
		if first.attribute != "" && o.attribute == first.attribute {
			p.refuse("The first operand must be distinct from the remaining operands for this operator or function; operator: %s, first operand: [%s]", operator, first.attribute)
		}
	}
}
