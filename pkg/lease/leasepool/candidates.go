package leasepool

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/nodelease/nodelease/internal/protocol"
)

// candidates contains the fingerprint of each lease that a scan found due, by node ID.
type candidates map[int]fingerprint

// fingerprint is a hash of a lease's holder, version and renewal. It has 30 bits, so two
// different states of a lease have equal fingerprints with a probability of about 1 in
// 10⁹. Even equal fingerprints are safe: a lease is freed only if it was due and still
// has exactly the holder, version and renewal that the second scan saw.
type fingerprint uint32

func fingerprintOf(l protocol.Lease) fingerprint {
	h := fnv.New64a()
	var n [16]byte
	binary.BigEndian.PutUint64(n[:8], uint64(l.Version)) //nolint:gosec // it is only hashed
	binary.BigEndian.PutUint64(n[8:], uint64(l.Renewal)) //nolint:gosec // it is only hashed
	_, _ = h.Write(n[:])                                 // writing to a hash never fails
	_, _ = h.Write([]byte(l.Holder))
	sum := h.Sum64()
	return fingerprint(sum^sum>>32) & (1<<30 - 1) //nolint:gosec // it is cut to 30 bits
}

const (
	digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	// A distance is written in digits of 5 bits, lowest first; the bit more is set if
	// another digit follows. A fingerprint is written in five digits of 6 bits.
	more           = 1 << 5
	digitsPerPrint = 5
)

// encode returns the candidates as text, lowest node ID first. The text contains each
// candidate's distance from the previous node ID, and its fingerprint. 65,536 candidates
// take 393,216 bytes; an item may have up to 409,600 bytes.
func (c candidates) encode() string {
	nodes := make([]int, 0, len(c))
	for n := range c {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	var b strings.Builder
	last := -1
	for _, n := range nodes {
		d := n - last
		for ; d >= more; d >>= 5 {
			b.WriteByte(digits[d&(more-1)|more])
		}
		b.WriteByte(digits[d])
		for i := range digitsPerPrint {
			b.WriteByte(digits[c[n]>>(6*i)&63])
		}
		last = n
	}
	return b.String()
}

// decodeCandidates decodes a text that encode has returned. It returns false if the text
// is invalid.
func decodeCandidates(text string) (candidates, bool) {
	c := candidates{}
	for node := -1; text != ""; {
		d, shift := 0, 0
		for {
			if text == "" || shift > 15 {
				return nil, false
			}
			v := strings.IndexByte(digits, text[0])
			if v < 0 {
				return nil, false
			}
			text = text[1:]
			d |= v & (more - 1) << shift
			shift += 5
			if v&more == 0 {
				break
			}
		}
		node += d
		if d == 0 || node >= protocol.MaxPoolSize || len(text) < digitsPerPrint {
			return nil, false
		}
		var f fingerprint
		for i := range digitsPerPrint {
			v := strings.IndexByte(digits, text[i])
			if v < 0 {
				return nil, false
			}
			f |= fingerprint(v) << (6 * i) //nolint:gosec // v has 6 bits
		}
		c[node], text = f, text[digitsPerPrint:]
	}
	return c, true
}
