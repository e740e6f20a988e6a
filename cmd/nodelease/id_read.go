package main

import (
	"cmp"
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

// idLayout is the layout of a pool's IDs. If the width of the pool's node IDs is not fixed,
// eras lists the widths that the node IDs have had.
type idLayout struct {
	name string
	snowflake.Layout
	eras snowflake.Eras
}

// takeApart decomposes an ID with the width that node IDs had when the ID was made.
func (l idLayout) takeApart(id snowflake.ID) snowflake.Parts { return l.eras.Decompose(l.Layout, id) }

// of returns l with the layout that the pool's item records. While an operator replaces the
// layout, that is the layout before, since only IDs of it may exist. If the user gave a
// different layout, of returns an error. A pool whose item records no layout has no IDs yet,
// so of keeps the layout of l.
func (l idLayout) of(p leasepool.Item, given bool) (idLayout, error) {
	l.eras = p.Eras
	stored := cmp.Or(p.Layout, p.LayoutBefore)
	if stored == nil {
		return l, nil
	}
	own := stored.Snowflake()
	if given && leasepool.LayoutName(own) != leasepool.LayoutName(l.Layout) {
		return l, usagef("--layout %s: the IDs of pool %s have the layout %s; omit the flag", l.name, p.Pool, leasepool.LayoutName(own))
	}
	l.name, l.Layout = leasepool.LayoutName(own), own
	return l, nil
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
	for _, name := range leasepool.LayoutNames() {
		l, _ := leasepool.ParseLayout(name)
		b.WriteString(fmt.Sprintf("  %-10s %v\n", name, l))
	}
	return b.String() + "  T/N/S      your own: T bits of milliseconds since 2025-01-01, N of node, S of sequence, as 40/3/10"
}

// encodings are the text forms of an ID.
var encodings = map[string]func(snowflake.ID) string{
	"decimal": snowflake.ID.String, "base32": snowflake.ID.Base32, "base58": snowflake.ID.Base58, "hex": hexOf,
}

func hexOf(id snowflake.ID) string { b := id.Bytes(); return hex.EncodeToString(b[:]) }

var decodings = map[string]func(string) (snowflake.ID, error){
	"decimal": snowflake.Parse, "base32": snowflake.ParseBase32, "base58": snowflake.ParseBase58,
	"hex": func(s string) (snowflake.ID, error) {
		b, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
		if err != nil || len(b) != 8 {
			return 0, fmt.Errorf("%.40q does not have 16 hexadecimal digits", s)
		}
		return snowflake.FromBytes(b)
	},
}

// readID reads an ID in the given encoding or, without one, in the encoding that the text
// looks like.
func readID(s, from string, l idLayout, now time.Time) (snowflake.ID, string, error) {
	if from == "" {
		looks := looksLike(s)
		if len(looks) > 1 {
			var err error
			if looks, err = made(s, looks, l, now); err != nil {
				return 0, "", err
			}
		}
		from = looks[0]
	}
	read := decodings[from]
	if read == nil {
		return 0, "", fmt.Errorf("--from %s: use %s", from, strings.Join(slices.Sorted(maps.Keys(decodings)), ", "))
	}
	id, err := read(s)
	if err != nil {
		err = fmt.Errorf("%w: use decimal digits, 13 of base32, 11 of base58 or 16 of hex; --from chooses the encoding", err)
	}
	return id, from, err
}

// looksLike returns the encodings that a text may be in. A string of digits with a
// leading 0 is not decimal. Any other string of digits is probably decimal, but may be
// hex or base32 that happens to have no letters.
func looksLike(s string) []string {
	digits := strings.Trim(s, "0123456789") == ""
	zero := strings.HasPrefix(s, "0")
	switch {
	case strings.HasPrefix(s, "0x"), len(s) == 16 && (!digits || zero):
		return []string{"hex"}
	case len(s) == 16:
		return []string{"decimal", "hex"}
	case len(s) == 13 && (!digits || zero):
		return []string{"base32"}
	case len(s) == 13:
		return []string{"decimal", "base32"}
	case len(s) == 11 && !digits:
		return []string{"base58"}
	}
	return []string{"decimal"}
}

// made returns, as a slice of one, the encoding among looks in which the text is an ID of
// the past or of the next 24 hours. It fails if there is no such encoding or more than one,
// because a guess could name the wrong time and node ID.
func made(s string, looks []string, l idLayout, now time.Time) ([]string, error) {
	var past, all []string
	for _, from := range looks {
		id, err := decodings[from](s)
		if err != nil {
			continue
		}
		at := l.takeApart(id).Time
		all = append(all, fmt.Sprintf("%s (of %s)", from, at.Format(time.DateTime)))
		if at.Before(now.Add(24 * time.Hour)) {
			past = append(past, from)
		}
	}
	if len(past) != 1 {
		return nil, fmt.Errorf("%s may be %s: choose one with --from", s, strings.Join(all, " or "))
	}
	return past, nil
}

// farAhead is how far in the future a time in a flag may be. Once such a time is stored,
// it cannot be set back.
const farAhead = 366 * 24 * time.Hour

// parseFuture reads a time before which no IDs may be made. It refuses a time in the
// past, which would protect nothing, and a time so far ahead that it must be a typing
// error.
func parseFuture(flag, s string, now time.Time) (time.Time, error) {
	t, err := parseTime(flag, s, now)
	switch {
	case err != nil:
		return t, err
	case t.Before(now):
		return t, usagef("%s %s: %s is in the past, %s; use a time in the future, such as +10m", flag, s, stamp(t), distance(t, now))
	case t.After(now.Add(farAhead)):
		return t, usagef("%s %s: %s is more than a year ahead, and no node ID could be used until then; use the time of the last ID that was made", flag, s, stamp(t))
	}
	return t, nil
}

// parseTime parses the time in a flag.
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
