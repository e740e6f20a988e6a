package iampolicy

import (
	"fmt"
	"slices"
	"strings"
)

// operator is a parsed condition operator, such as ForAllValues:StringLikeIfExists.
type operator struct {
	set      string // ForAllValues, ForAnyValue, or empty
	ifExists bool
	null     bool
	negated  bool
	match    func(want, got string) bool
}

func parseOperator(name string) (o operator, err error) {
	base := name
	if set, rest, found := strings.Cut(name, ":"); found {
		o.set, base = set, rest
	}
	base, o.ifExists = strings.CutSuffix(base, "IfExists")
	exact := func(want, got string) bool { return want == got }
	switch base {
	case "StringEquals":
		o.match = exact
	case "StringNotEquals":
		o.match, o.negated = exact, true
	case "StringLike", "ArnLike", "ArnEquals": // the two for ARNs use the same wildcards
		o.match = Like
	case "StringNotLike":
		o.match, o.negated = Like, true
	case "Bool":
		o.match = strings.EqualFold
	case "Null":
		o.null = true
	default:
		err = fmt.Errorf("condition operator %q is not implemented here", name)
	}
	if o.set != "" && o.set != "ForAllValues" && o.set != "ForAnyValue" || o.null && (o.ifExists || o.set != "") {
		err = fmt.Errorf("condition operator %q is not implemented here", name)
	}
	return o, err
}

// holds reports whether a condition holds for a key with the values got. One of the wanted
// values must match; for a negated operator, none of them may.
func (o operator) holds(want, got []string, present bool) bool {
	one := func(value string) bool {
		return slices.ContainsFunc(want, func(w string) bool { return o.match(w, value) }) != o.negated
	}
	switch {
	case o.null: // "true" requires the key to be missing
		return slices.ContainsFunc(want, func(w string) bool { return strings.EqualFold(w, "true") != present })
	case !present && o.ifExists:
		return true
	case o.set == "ForAllValues":
		// ForAllValues holds if there are no values. So an Allow with it also covers requests
		// without the key.
		return !slices.ContainsFunc(got, func(v string) bool { return !one(v) })
	case o.set == "ForAnyValue":
		return slices.ContainsFunc(got, one)
	case !present:
		return o.negated
	}
	return slices.ContainsFunc(got, one)
}

// Like reports whether a text matches a pattern, in which * matches any text and ? any
// single character.
func Like(pattern, s string) bool {
	p, t := []rune(pattern), []rune(s)
	star, from, i := -1, 0, 0
	for at := 0; at < len(t); {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, at
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[at]):
			i++
			at++
		case star >= 0: // the last star matches one more character
			from++
			i, at = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(string(p[i:]), "*") == ""
}
