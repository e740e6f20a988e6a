package snowflake

import (
	"database/sql/driver"
	"fmt"
)

// AppendText appends what String returns (encoding.TextAppender).
func (id ID) AppendText(b []byte) ([]byte, error) { return id.AppendDecimal(b), nil }

// MarshalText is String.
func (id ID) MarshalText() ([]byte, error) { return id.AppendDecimal(nil), nil }

// UnmarshalText is Parse.
func (id *ID) UnmarshalText(b []byte) error { return id.set(parse(b)) }

// AppendBinary appends what Bytes returns (encoding.BinaryAppender).
func (id ID) AppendBinary(b []byte) ([]byte, error) {
	a := id.Bytes()
	return append(b, a[:]...), nil
}

// MarshalBinary is Bytes.
func (id ID) MarshalBinary() ([]byte, error) { return id.AppendBinary(nil) }

// UnmarshalBinary is FromBytes.
func (id *ID) UnmarshalBinary(b []byte) error { return id.set(FromBytes(b)) }

// MarshalJSON writes the digits as a string: JavaScript, and what is made with
// it, rounds numbers above 2^53-1. Number writes a number.
func (id ID) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 21)
	return append(id.AppendDecimal(append(b, '"')), '"'), nil
}

// UnmarshalJSON reads a string or a number. null leaves id as it is.
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

// Scan reads an integer, or decimal digits as a string or as bytes. For a column
// that may be NULL scan into a sql.Null[ID].
func (id *ID) Scan(src any) error {
	switch v := src.(type) {
	case int64:
		if v < 0 {
			return fmt.Errorf("snowflake: %w: %d is negative", ErrSyntax, v)
		}
		*id = ID(v)
		return nil
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

// Number is an ID that JSON has as a number, for IDs of a layout that is
// JavaScriptSafe, such as JS53.
type Number ID

// maxSafe is JavaScript's Number.MAX_SAFE_INTEGER.
const maxSafe = 1<<53 - 1

// MarshalJSON writes a number, and refuses one above 2^53-1.
func (n Number) MarshalJSON() ([]byte, error) {
	if n > maxSafe {
		return nil, fmt.Errorf("snowflake: %d is above 2^53-1, which JavaScript rounds; use ID, or a layout such as JS53", int64(n))
	}
	return ID(n).AppendDecimal(nil), nil
}

// UnmarshalJSON is ID.UnmarshalJSON.
func (n *Number) UnmarshalJSON(b []byte) error { return (*ID)(n).UnmarshalJSON(b) }

// String, Value and Scan are ID's.
func (n Number) String() string { return ID(n).String() }

// Value is described with String.
func (n Number) Value() (driver.Value, error) { return ID(n).Value() }

// Scan is described with String.
func (n *Number) Scan(src any) error { return (*ID)(n).Scan(src) }
