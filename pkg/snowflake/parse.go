package snowflake

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// Parse reads the decimal digits of an ID. Its error, like those of the other
// Parse functions, wraps ErrSyntax and says what is wrong: the length, a
// character and where it stands, or a number above 2^63-1. There are no negative
// IDs, no signs and no spaces.
func Parse(s string) (ID, error) { return parse(s) }

func parse[T string | []byte](s T) (ID, error) {
	const maxLen = 19
	if len(s) == 0 || len(s) > maxLen {
		return 0, lengthError("decimal", string(s), fmt.Sprintf("1 to %d", maxLen))
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

// ParseBase32 reads Crockford's base 32, of 13 characters. As he has it, lower
// case counts as upper case, I and L as 1, and O as 0.
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
	// 13 characters are 65 bits: what the first one has above 63 is lost in v.
	if base32Digit[s[0]] > 7 {
		return 0, overflowError("base32", s)
	}
	return ID(v), nil
}

// ParseBase58 reads what Base58 returns: 11 characters.
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

// FromBytes reads what Bytes returns.
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

// digits maps each character to the place of its meaning in the alphabet, which
// meanings begins with.
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

// Errors show at most the first 40 bytes of a text that may be anyone's.

func lengthError(encoding, s, want string) error {
	return fmt.Errorf("snowflake: %w: %s %.40q has %d characters; want %s", ErrSyntax, encoding, s, len(s), want)
}

func charError(encoding, s string, i int) error {
	return fmt.Errorf("snowflake: %w: %s %.40q has %q at %d", ErrSyntax, encoding, s, s[i], i)
}

func overflowError(encoding, s string) error {
	return fmt.Errorf("snowflake: %w: %s %.40q is above 2^63-1", ErrSyntax, encoding, s)
}
