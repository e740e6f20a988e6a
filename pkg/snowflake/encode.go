package snowflake

import (
	"encoding/binary"
	"strconv"
)

// The encodings of an ID. Base32, Base58 and Bytes have one length for all IDs,
// so that they sort as the numbers do. What an Append method appends to a slice
// with room for it allocates nothing.
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

// AppendDecimal appends what String returns.
func (id ID) AppendDecimal(b []byte) []byte { return strconv.AppendInt(b, int64(id), 10) }

// Base32 is id in Crockford's base 32.
func (id ID) Base32() string { return string(id.AppendBase32(make([]byte, 0, base32Len))) }

// AppendBase32 appends what Base32 returns.
func (id ID) AppendBase32(b []byte) []byte {
	v := uint64(id)
	return append(b,
		base32Alphabet[v>>60&31], base32Alphabet[v>>55&31], base32Alphabet[v>>50&31], base32Alphabet[v>>45&31],
		base32Alphabet[v>>40&31], base32Alphabet[v>>35&31], base32Alphabet[v>>30&31], base32Alphabet[v>>25&31],
		base32Alphabet[v>>20&31], base32Alphabet[v>>15&31], base32Alphabet[v>>10&31], base32Alphabet[v>>5&31],
		base32Alphabet[v&31])
}

// Base58 is id in base 58.
func (id ID) Base58() string { return string(id.AppendBase58(make([]byte, 0, base58Len))) }

// AppendBase58 appends what Base58 returns.
func (id ID) AppendBase58(b []byte) []byte {
	const half = 58 * 58 * 58 * 58 * 58 // two chains of divisions that run side by side
	var a [base58Len]byte
	high, low := uint64(id)/half, uint64(id)%half
	for i := range 5 {
		a[base58Len-1-i], low = base58Alphabet[low%58], low/58
		a[base58Len-6-i], high = base58Alphabet[high%58], high/58
	}
	a[0] = base58Alphabet[high%58]
	return append(b, a[:]...)
}

// Bytes is id in big endian.
func (id ID) Bytes() [8]byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	return b
}
