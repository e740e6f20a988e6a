package embeddeddb

import (
	"cmp"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// Value is one attribute value in its wire form: one field is set, or none if the value is absent. Values and items in a
// table are never changed, so answers can be written without the lock, and updates share unchanged parts.
type Value struct {
	S    *string  `json:",omitempty"`
	N    *Number  `json:",omitempty"`
	BOOL *bool    `json:",omitempty"`
	L    *[]Value `json:",omitempty"`
	M    *Item    `json:",omitempty"`
}

// Item is a whole item, or a map inside an item.
type Item map[string]Value

// kinds returns DynamoDB's names of the types whose fields are set.
func (v Value) kinds() (names []string) {
	for i, is := range [...]bool{v.S != nil, v.N != nil, v.BOOL != nil, v.L != nil, v.M != nil} {
		if is {
			names = append(names, [...]string{"S", "N", "BOOL", "L", "M"}[i])
		}
	}
	return names
}

func (v Value) kind() string {
	switch { // most values have one of these types
	case v.S != nil && v == Value{S: v.S}:
		return "S"
	case v.N != nil && v == Value{N: v.N}:
		return "N"
	}
	return strings.Join(v.kinds(), "")
}
func (v Value) absent() bool { return v == Value{} }

// String returns the value as DynamoDB quotes it in errors.
func (v Value) String() string {
	if v.N != nil {
		return "{N:" + string(*v.N) + "}"
	}
	return "{" + v.kind() + ":" + *cmp.Or(v.S, new(string)) + "}"
}

// check refuses values that JSON allows and DynamoDB does not, and respells numbers as DynamoDB spells them.
func (v Value) check() {
	if v.N != nil {
		*v.N = v.N.spelled()
	}
	if v.M != nil {
		v.M.check()
	}
	if v.L != nil {
		for _, e := range *v.L {
			e.check()
		}
	}
	if n := len(v.kinds()); n != 1 {
		how := [...]string{"is empty", "has more than one datatypes set"}[min(n, 1)]
		refuse("Supplied AttributeValue %s, must contain exactly one of the supported datatypes", how)
	}
}

func (i Item) check() {
	for name, v := range i {
		switch {
		case name == "":
			refuse("Empty attribute name")
		case len(name) > 65535:
			refuse("Attribute name is too large, must be less than 65536 bytes")
		}
		v.check()
	}
}

const maxItem = 400 << 10

// size returns the size of an item in bytes as DynamoDB counts it. Names and strings have
// the length of their bytes; a number takes one byte for every two digits, plus one; a list
// or a map takes three bytes, plus one for each element.
func (i Item) size() (n int) {
	for name, v := range i {
		n += len(name) + v.size()
	}
	return n
}

func (v Value) size() (n int) {
	switch {
	case v.S != nil:
		return len(*v.S)
	case v.N != nil:
		return (len(strings.Trim(strings.ReplaceAll(string(*v.N), ".", ""), "-0"))+1)/2 + 1
	case v.M != nil:
		return 3 + len(*v.M) + v.M.size()
	case v.L != nil:
		for _, e := range *v.L {
			n += 1 + e.size()
		}
		return 3 + n
	}
	return 1
}

func compare(a, b Value) (order int, ok bool) {
	switch {
	case a.S != nil && b.S != nil:
		return strings.Compare(*a.S, *b.S), true
	case a.N != nil && b.N != nil:
		return a.N.compare(*b.N), true
	}
	return 0, false
}

func equal(a, b Value) bool { return !a.absent() && reflect.DeepEqual(a, b) }

// Number is DynamoDB's exact decimal: up to 38 significant digits, magnitude 1e-130 to 9.99…e125. A checked Number is spelled
// as DynamoDB spells it, without an exponent and without redundant zeros, so that equal numbers are equal strings.
type Number string

var numeral = regexp.MustCompile(`^(?:\+|(-))?(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$`)

const (
	maxNumeral = 1000 // bytes; DynamoDB itself spells no number with more than 133
	overflow   = "Number overflow. Attempting to store a number with magnitude larger than supported range"
	imprecise  = "Attempting to store more than 38 significant digits in a Number"
	notNumeric = "The parameter cannot be converted to a numeric value"
)

// spelled returns the number as DynamoDB spells it. It accepts any spelling that DynamoDB accepts, such as 007, 1.0 and 1e2.
func (n Number) spelled() Number {
	if i, ok := n.integer(); ok {
		return Number(strconv.FormatInt(i, 10))
	}
	parts := numeral.FindStringSubmatch(string(n[:min(len(n), maxNumeral)]))
	switch {
	case n == "":
		refuse(notNumeric)
	case len(n) > maxNumeral:
		refuse(imprecise)
	case parts == nil || parts[2]+parts[3] == "":
		refuse(notNumeric+": %.200s", string(n))
	}
	exponent, _ := strconv.Atoi(cmp.Or(parts[4], "0")) // the nearest int, if it is too long for one
	// The number is 0.digits times ten to the power of point. That includes zero, whose range DynamoDB checks by its spelling.
	point := len(parts[2]) + min(max(exponent, -maxNumeral*2), maxNumeral*2)
	digits := strings.TrimLeft(parts[2]+parts[3], "0")
	if point -= len(parts[2]+parts[3]) - len(digits); digits == "" {
		point++
	}
	digits = strings.TrimRight(digits, "0")
	switch {
	case point > 126:
		refuse(overflow)
	case point < -129:
		refuse("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	case len(digits) > 38:
		refuse(imprecise)
	case digits == "":
		return "0"
	case point <= 0:
		digits = "0." + strings.Repeat("0", -point) + digits
	case point < len(digits):
		digits = digits[:point] + "." + digits[point:]
	default:
		digits += strings.Repeat("0", point-len(digits))
	}
	return Number(parts[1] + digits)
}

// mostDigits is how many characters of a number always fit into an int64.
const mostDigits = 18

// integer returns the number as an int64, if it is a whole number of few digits, as most numbers are.
func (n Number) integer() (i int64, ok bool) {
	if len(n) > mostDigits {
		return 0, false
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	return i, err == nil
}

func (n Number) compare(o Number) int {
	if a, ok := n.integer(); ok {
		if b, ok := o.integer(); ok {
			return cmp.Compare(a, b)
		}
	}
	return n.rat().Cmp(o.rat())
}

func (n Number) rat() *big.Rat {
	r, _ := new(big.Rat).SetString(string(n))
	return r
}

// plus adds exactly. It refuses a sum of more than 38 digits instead of rounding it; DynamoDB also calls that an overflow.
func (n Number) plus(o Number) (sum Number) {
	if a, ok := n.integer(); ok {
		if b, ok := o.integer(); ok {
			return Number(strconv.FormatInt(a+b, 10))
		}
	}
	r := n.rat()
	places, _ := r.Add(r, o.rat()).FloatPrec()
	if err := caught(func() { sum = Number(r.FloatString(places)).spelled() }); err != nil {
		err.Message = strings.Replace(err.Message, imprecise, overflow, 1)
		panic(err)
	}
	return sum
}
