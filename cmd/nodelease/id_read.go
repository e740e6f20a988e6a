package main

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// idLayout is how the IDs of a pool are laid out: the eras are the widths that
// its node IDs have had, if they are not fixed.
type idLayout struct {
	name string
	snowflake.Layout
	eras snowflake.Eras
}

// takeApart takes an ID apart with the width of its own time.
func (l idLayout) takeApart(id snowflake.ID) snowflake.Parts { return l.eras.Decompose(l.Layout, id) }

// of gives the layout of a pool's IDs. The table does not say which one its users
// chose; where they do not say so either, it is the one that the pool fits into.
func (l idLayout) of(p leasepool.Item, given bool) idLayout {
	if !given && p.Size > l.Nodes() {
		l.name, l.Layout = "wide16", snowflake.Wide16()
	}
	l.eras = p.Eras
	return l
}

var layoutNames = []string{"default", "wide16", "js53", "twitter", "discord", "sonyflake"}

var layouts = map[string]func() snowflake.Layout{
	"default": snowflake.Default, "wide16": snowflake.Wide16, "js53": snowflake.JS53,
	"twitter": snowflake.Twitter, "discord": snowflake.Discord, "sonyflake": snowflake.Sonyflake,
}

func namedLayout(name string) (idLayout, error) {
	if name == "" {
		name = "default"
	}
	l, err := parseLayout(name)
	if err != nil {
		return idLayout{}, err
	}
	return idLayout{name: name, Layout: l}, nil
}

func describeLayouts() string {
	var b strings.Builder
	for _, name := range layoutNames {
		fmt.Fprintf(&b, "  %-10s %v\n", name, layouts[name]())
	}
	return b.String() + "  T/N/S      your own: T bits of milliseconds since 2025-01-01, N of node, S of sequence, as 40/3/10"
}

// encodings of an ID.
var encodings = map[string]func(snowflake.ID) string{
	"decimal": snowflake.ID.String, "base32": snowflake.ID.Base32, "base58": snowflake.ID.Base58, "hex": hexOf,
}

func hexOf(id snowflake.ID) string { b := id.Bytes(); return hex.EncodeToString(b[:]) }

var decodings = map[string]func(string) (snowflake.ID, error){
	"decimal": snowflake.Parse, "base32": snowflake.ParseBase32, "base58": snowflake.ParseBase58,
	"hex": func(s string) (snowflake.ID, error) {
		b, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
		if err != nil || len(b) != 8 {
			return 0, fmt.Errorf("%.40q has not 16 hexadecimal digits", s)
		}
		return snowflake.FromBytes(b)
	},
}

// readID reads an ID in an encoding, or in the one that it looks like.
func readID(s, from string) (snowflake.ID, string, error) {
	if from == "" {
		from = looksLike(s)
	}
	read := decodings[from]
	if read == nil {
		return 0, "", fmt.Errorf("--from %s: use %s", from, strings.Join(slices.Sorted(maps.Keys(decodings)), ", "))
	}
	id, err := read(s)
	if err != nil {
		err = fmt.Errorf("%w: use decimal digits, 13 of base32, 11 of base58 or 16 of hex; --from says which", err)
	}
	return id, from, err
}

// looksLike guesses an encoding. Digits are decimal, unless they begin with a 0,
// as no number does that anybody writes, but every base32 does for many years.
func looksLike(s string) string {
	digits := strings.Trim(s, "0123456789") == ""
	switch {
	case strings.HasPrefix(s, "0x"), len(s) == 16 && !digits:
		return "hex"
	case len(s) == 13 && (!digits || s[0] == '0'):
		return "base32"
	case len(s) == 11 && !digits:
		return "base58"
	}
	return "decimal"
}

// parseTime reads the time that a flag gives.
func parseTime(flag, s string, now time.Time) (time.Time, error) {
	if s == "now" {
		return now, nil
	}
	if d, err := time.ParseDuration(s); err == nil && (s[0] == '-' || s[0] == '+') {
		return now.Add(d), nil
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms > 1e11 && ms < 1e14 {
		return time.UnixMilli(ms), nil
	}
	for _, format := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(format, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usagef("%s %s: use a time such as 2026-11-21T04:05:06Z, 2026-11-21, 1795233906000 (Unix milliseconds), now or -1h", flag, s)
}
