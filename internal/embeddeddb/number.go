package embeddeddb

import (
	"math/big"
	"regexp"
	"strings"
)

// Number is DynamoDB's decimal, exact: up to 38 significant digits, magnitude 1e-130 to 9.99…e125.
// It is spelled as DynamoDB spells it, without an exponent and without zeros that say nothing, so
// that equal numbers are equal strings.
type Number string

var (
	numeral  = regexp.MustCompile(`^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$`)
	tooLarge = Number("1e126").rat()
	smallest = Number("1e-130").rat()
)

// UnmarshalText reads any spelling that DynamoDB takes, such as 007, 1.0 and 1e2.
func (n *Number) UnmarshalText(text []byte) error {
	r, ok := new(big.Rat), numeral.Match(text)
	if ok {
		_, ok = r.SetString(string(text)) // refuses exponents of millions
	}
	if !ok {
		return invalid("The parameter cannot be converted to a numeric value: %s", text)
	}
	return n.set(r)
}

func (n *Number) set(r *big.Rat) error {
	switch magnitude := new(big.Rat).Abs(r); {
	case magnitude.Cmp(tooLarge) >= 0:
		return invalid("Number overflow. Attempting to store a number with magnitude larger than supported range")
	case magnitude.Sign() > 0 && magnitude.Cmp(smallest) < 0:
		return invalid("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	}
	places, _ := r.FloatPrec()
	*n = Number(r.FloatString(places))
	if digits := strings.Replace(string(*n), ".", "", 1); len(strings.Trim(digits, "-0")) > 38 {
		return invalid("Attempting to store more than 38 significant digits in a Number")
	}
	return nil
}

func (n Number) rat() *big.Rat {
	r, _ := new(big.Rat).SetString(string(n))
	return r
}

func (n Number) compare(o Number) int { return n.rat().Cmp(o.rat()) }

// plus adds exactly; a sum of more than 38 digits is refused, never rounded.
func (n Number) plus(o Number) (sum Number) {
	if err := sum.set(new(big.Rat).Add(n.rat(), o.rat())); err != nil {
		panic(err)
	}
	return sum
}
