package snowflake

import (
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// An ID has the following encodings. The results of Base32, Base58 and Bytes
// have the same length for all IDs, so they sort in the order of the IDs. An
// Append method allocates nothing if the slice has room.
//
//	decimal   digits                            1 to 19 characters
//	base32    Crockford's, upper case           13   crockford.com/base32.html
//	base58    Bitcoin's alphabet                11   no 0 O I l
//	bytes     big endian                         8
const (
	base32Alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	base58Alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

	base32Len = 13
	base58Len = 11
)

// AppendDecimal appends the result of String.
func (id ID) AppendDecimal(b []byte) []byte { return strconv.AppendInt(b, int64(id), 10) }

// Base32 returns id in Crockford's base 32.
func (id ID) Base32() string { return string(id.AppendBase32(make([]byte, 0, base32Len))) }

// AppendBase32 appends the result of Base32.
func (id ID) AppendBase32(b []byte) []byte {
	v := uint64(id)
	return append(b,
		base32Alphabet[v>>60&31], base32Alphabet[v>>55&31], base32Alphabet[v>>50&31], base32Alphabet[v>>45&31],
		base32Alphabet[v>>40&31], base32Alphabet[v>>35&31], base32Alphabet[v>>30&31], base32Alphabet[v>>25&31],
		base32Alphabet[v>>20&31], base32Alphabet[v>>15&31], base32Alphabet[v>>10&31], base32Alphabet[v>>5&31],
		base32Alphabet[v&31])
}

// Base58 returns id in base 58.
func (id ID) Base58() string { return string(id.AppendBase58(make([]byte, 0, base58Len))) }

// AppendBase58 appends the result of Base58.
func (id ID) AppendBase58(b []byte) []byte {
	const half = 58 * 58 * 58 * 58 * 58 // two independent chains of divisions, which the CPU runs in parallel
	var a [base58Len]byte
	high, low := uint64(id)/half, uint64(id)%half
	for i := range 5 {
		a[base58Len-1-i], low = base58Alphabet[low%58], low/58
		a[base58Len-6-i], high = base58Alphabet[high%58], high/58
	}
	a[0] = base58Alphabet[high%58]
	return append(b, a[:]...)
}

// Bytes returns id in big endian.
func (id ID) Bytes() [8]byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	return b
}

// Parse reads the decimal digits of an ID. Its error, like those of the other
// Parse functions, wraps ErrSyntax and describes the problem: the length, a
// character and its position, or a number above 2^63-1. Negative numbers,
// signs, spaces and, except in "0" itself, leading zeros are not accepted, so
// that each ID has only one text.
func Parse(s string) (ID, error) { return parse(s) }

func parse[T string | []byte](s T) (ID, error) {
	const maxLen = 19
	if len(s) == 0 || len(s) > maxLen {
		return 0, lengthError("decimal", string(s), fmt.Sprintf("1 to %d", maxLen))
	}
	// If one ID had two texts, it would have two keys in a map, a cache or a URL.
	if s[0] == '0' && len(s) > 1 {
		return 0, charError("decimal", string(s), 0)
	}
	var v uint64 // 19 digits fit a uint64
	for i := range len(s) {
		d := s[i] - '0'
		if d > 9 {
			return 0, charError("decimal", string(s), i)
		}
		v = v*10 + uint64(d)
	}
	return fit("decimal", string(s), v)
}

// ParseBase32 parses 13 characters in Crockford's base 32. As Crockford
// specifies, lower case is read as upper case, I and L as 1, and O as 0.
func ParseBase32(s string) (ID, error) {
	if len(s) != base32Len {
		return 0, lengthError("base32", s, "13")
	}
	var v uint64
	for i := range base32Len {
		d := base32Digit[s[i]]
		if d == noDigit {
			return 0, charError("base32", s, i)
		}
		v = v<<5 | uint64(d)
	}
	// 13 characters are 65 bits. A first digit above 7 would set the sign bit, or
	// bits that v cannot hold.
	if base32Digit[s[0]] > 7 {
		return 0, overflowError("base32", s)
	}
	return ID(v), nil
}

// ParseBase58 parses a result of Base58: 11 characters.
func ParseBase58(s string) (ID, error) {
	if len(s) != base58Len {
		return 0, lengthError("base58", s, "11")
	}
	var v uint64
	for i := range base58Len {
		d := base58Digit[s[i]]
		if d == noDigit {
			return 0, charError("base58", s, i)
		}
		if i == base58Len-1 && v > (math.MaxInt64-uint64(d))/58 { // 10 characters always fit
			return 0, overflowError("base58", s)
		}
		v = v*58 + uint64(d)
	}
	return ID(v), nil
}

// FromBytes decodes an ID from a result of Bytes.
func FromBytes(b []byte) (ID, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("snowflake: %w: %d bytes; want 8", ErrSyntax, len(b))
	}
	v := binary.BigEndian.Uint64(b)
	if v > math.MaxInt64 {
		return 0, fmt.Errorf("snowflake: %w: the first bit of % x is set", ErrSyntax, b)
	}
	return ID(v), nil
}

const noDigit = 0xff

var (
	base32Digit = digits(base32Alphabet+strings.ToLower(base32Alphabet[10:])+"ILOilo",
		base32Alphabet+base32Alphabet[10:]+"110110")
	base58Digit = digits(base58Alphabet, base58Alphabet)
)

// digits returns a table from characters to digits: the digit of characters[i]
// is the position of meanings[i] in the alphabet. meanings begins with the
// alphabet.
func digits(characters, meanings string) (table [256]byte) {
	for i := range table {
		table[i] = noDigit
	}
	for i := range len(characters) {
		table[characters[i]] = byte(strings.IndexByte(meanings, meanings[i]))
	}
	return table
}

func fit(encoding, s string, v uint64) (ID, error) {
	if v > math.MaxInt64 {
		return 0, overflowError(encoding, s)
	}
	return ID(v), nil
}

// Errors show at most the first 40 bytes of a text, since the text may come
// from an untrusted source.

func lengthError(encoding, s, want string) error {
	return fmt.Errorf("snowflake: %w: %s %.40q has %d characters; want %s", ErrSyntax, encoding, s, len(s), want)
}

func charError(encoding, s string, i int) error {
	return fmt.Errorf("snowflake: %w: %s %.40q has %q at %d", ErrSyntax, encoding, s, s[i], i)
}

func overflowError(encoding, s string) error {
	return fmt.Errorf("snowflake: %w: %s %.40q is above 2^63-1", ErrSyntax, encoding, s)
}

// AppendText appends the result of String (encoding.TextAppender).
func (id ID) AppendText(b []byte) ([]byte, error) { return id.AppendDecimal(b), nil }

// MarshalText returns the digits that String returns.
func (id ID) MarshalText() ([]byte, error) { return id.AppendDecimal(nil), nil }

// UnmarshalText parses text with Parse.
func (id *ID) UnmarshalText(b []byte) error { return id.set(parse(b)) }

// AppendBinary appends the result of Bytes (encoding.BinaryAppender).
func (id ID) AppendBinary(b []byte) ([]byte, error) {
	a := id.Bytes()
	return append(b, a[:]...), nil
}

// MarshalBinary returns the result of Bytes.
func (id ID) MarshalBinary() ([]byte, error) { return id.AppendBinary(nil) }

// UnmarshalBinary decodes data with FromBytes.
func (id *ID) UnmarshalBinary(b []byte) error { return id.set(FromBytes(b)) }

// MarshalJSON writes the digits as a string, because JavaScript rounds numbers
// above 2^53-1. To write a JSON number, use Number.
func (id ID) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 21)
	return append(id.AppendDecimal(append(b, '"')), '"'), nil
}

// UnmarshalJSON reads a string or a number. If the value is null, id stays
// unchanged.
func (id *ID) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if n := len(b); n >= 2 && b[0] == '"' && b[n-1] == '"' {
		b = b[1 : n-1]
	}
	return id.set(parse(b))
}

// Value stores id as an integer (a BIGINT column).
func (id ID) Value() (driver.Value, error) { return int64(id), nil }

// Scan reads an integer, signed or not, or decimal digits as a string or as
// bytes. For a column that may be NULL, scan into a sql.Null[ID].
func (id *ID) Scan(src any) error {
	switch v := src.(type) {
	case int64:
		if v < 0 {
			return fmt.Errorf("snowflake: %w: %d is negative", ErrSyntax, v)
		}
		*id = ID(v)
		return nil
	case uint64: // a BIGINT UNSIGNED of MySQL's driver
		return id.set(fit("integer", strconv.FormatUint(v, 10), v))
	case string:
		return id.set(parse(v))
	case []byte:
		return id.set(parse(v))
	case nil:
		return fmt.Errorf("snowflake: %w: NULL; scan into a sql.Null[snowflake.ID]", ErrSyntax)
	default:
		return fmt.Errorf("snowflake: %w: a %T; want an integer, a string or bytes", ErrSyntax, src)
	}
}

// set changes id only if there is no error.
func (id *ID) set(v ID, err error) error {
	if err == nil {
		*id = v
	}
	return err
}

// Number is an ID that is encoded as a number in JSON. It is for layouts that
// are JavaScriptSafe, such as JS53.
type Number ID

// maxSafe is JavaScript's Number.MAX_SAFE_INTEGER.
const maxSafe = 1<<53 - 1

// MarshalJSON writes a number. It returns an error if n is above 2^53-1.
func (n Number) MarshalJSON() ([]byte, error) {
	if n > maxSafe {
		return nil, fmt.Errorf("snowflake: %d is above 2^53-1, which JavaScript rounds; use ID, or a layout such as JS53", int64(n))
	}
	return ID(n).AppendDecimal(nil), nil
}

// UnmarshalJSON works like ID.UnmarshalJSON.
func (n *Number) UnmarshalJSON(b []byte) error { return (*ID)(n).UnmarshalJSON(b) }

// String works like ID.String.
func (n Number) String() string { return ID(n).String() }

// Value works like ID.Value.
func (n Number) Value() (driver.Value, error) { return ID(n).Value() }

// Scan works like ID.Scan.
func (n *Number) Scan(src any) error { return (*ID)(n).Scan(src) }
