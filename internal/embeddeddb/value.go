package embeddeddb

import (
	"reflect"
	"strings"
)

// Value is one attribute value in the shape that it has on the wire: one field is set. The zero
// Value stands for "absent". Values and items are never changed once they are in a table, so that
// answers are written without the lock and updates share what they leave alone.
type Value struct {
	S    *string  `json:",omitempty"`
	N    *Number  `json:",omitempty"`
	BOOL *bool    `json:",omitempty"`
	L    *[]Value `json:",omitempty"`
	M    *Item    `json:",omitempty"`
}

// Item is a whole item, or the map inside one.
type Item map[string]Value

// kind is DynamoDB's name of the value's type, and "" if the value is absent.
func (v Value) kind() string {
	for i, is := range [...]bool{v.S != nil, v.N != nil, v.BOOL != nil, v.L != nil, v.M != nil} {
		if is {
			return [...]string{"S", "N", "BOOL", "L", "M"}[i]
		}
	}
	return ""
}

func (v Value) absent() bool { return v == Value{} }

// String is the value as DynamoDB quotes it in errors; for a key it names the partition.
func (v Value) String() string {
	text := ""
	switch {
	case v.S != nil:
		text = *v.S
	case v.N != nil:
		text = string(*v.N)
	}
	return "{" + v.kind() + ":" + text + "}"
}

// check refuses what JSON allows and DynamoDB does not.
func (v Value) check() {
	switch {
	case v.absent():
		refuse("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	case v.M != nil:
		v.M.check()
	case v.L != nil:
		for _, e := range *v.L {
			e.check()
		}
	}
}

func (i Item) check() {
	for name, v := range i {
		if name == "" {
			refuse("Empty attribute name")
		}
		v.check()
	}
}

// compare orders two strings or two numbers; other values have no order.
func compare(a, b Value) (order int, ok bool) {
	switch {
	case a.S != nil && b.S != nil:
		return strings.Compare(*a.S, *b.S), true
	case a.N != nil && b.N != nil:
		return a.N.compare(*b.N), true
	}
	return 0, false
}

// equal is false for what is absent.
func equal(a, b Value) bool { return !a.absent() && reflect.DeepEqual(a, b) }
