// Package iampolicy decides what an IAM policy allows, for tests of the policies that the
// construct generates. It implements the elements and condition operators that these
// policies use, as AWS documents them. It refuses policies with any other element or
// operator, so that no part of an accepted policy is ignored.
//
// The package does not replace IAM. It leaves out boundaries, service control policies,
// resource policies and sessions; within one account, these can only remove rights that an
// identity policy grants.
package iampolicy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Request is a call as IAM sees it.
type Request struct {
	Action   string // such as "dynamodb:GetItem"
	Resource string // an ARN
	// Context has the condition keys of the request. A key that is missing here is not
	// in the request.
	Context map[string][]string
}

// Policy is an identity policy.
type Policy struct{ statements []statement }

type statement struct {
	Sid       string
	Effect    string
	Action    list
	Resource  list
	Condition map[string]map[string]list
}

// list is a JSON string, or an array of several.
type list []string

func (l *list) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*l = list{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(raw, &many); err != nil {
		return err
	}
	*l = many
	return nil
}

// Parse reads a policy document. It returns an error for every element, effect and
// condition operator that Allows does not support.
func Parse(document []byte) (Policy, error) {
	var read struct {
		Version   string
		Statement []statement
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil {
		return Policy{}, fmt.Errorf("policy: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Policy{}, errors.New("policy: more text follows it")
	}
	if read.Version != "2012-10-17" {
		return Policy{}, fmt.Errorf("policy: version %q: use 2012-10-17", read.Version)
	}
	for i, s := range read.Statement {
		if s.Effect != "Allow" && s.Effect != "Deny" || len(s.Action) == 0 || len(s.Resource) == 0 {
			return Policy{}, fmt.Errorf("policy: statement %d lacks an effect, an action or a resource", i)
		}
		for operator, keys := range s.Condition {
			if _, err := parseOperator(operator); err != nil {
				return Policy{}, fmt.Errorf("policy: statement %d: %w", i, err)
			}
			for key, values := range keys {
				if len(values) == 0 {
					return Policy{}, fmt.Errorf("policy: statement %d: %s has no values", i, key)
				}
			}
		}
	}
	return Policy{read.Statement}, nil
}

// Join returns one policy with the statements of all the given policies, since a role may do
// anything that one of its policies allows and none denies.
func Join(all ...Policy) (joined Policy) {
	for _, p := range all {
		joined.statements = append(joined.statements, p.statements...)
	}
	return joined
}

// Allows reports whether the policy allows a request: some statement allows it, and
// none denies it.
func (p Policy) Allows(r Request) bool {
	allowed := false
	for _, s := range p.statements {
		if !s.matches(r) {
			continue
		}
		if s.Effect == "Deny" {
			return false
		}
		allowed = true
	}
	return allowed
}

// matches reports whether a statement applies to a request. Its conditions must hold for
// every operator and every key.
func (s statement) matches(r Request) bool {
	about := func(patterns list, value string, fold bool) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			if fold { // actions are not case-sensitive
				return Like(strings.ToLower(p), strings.ToLower(value))
			}
			return Like(p, value)
		})
	}
	if !about(s.Action, r.Action, true) || !about(s.Resource, r.Resource, false) {
		return false
	}
	for name, keys := range s.Condition {
		op, _ := parseOperator(name) // cannot fail: Parse has parsed the same name
		for key, want := range keys {
			got, present := lookup(r.Context, key)
			if !op.holds(want, got, present) {
				return false
			}
		}
	}
	return true
}

// lookup finds a condition key, which is not case-sensitive.
func lookup(context map[string][]string, key string) (values []string, present bool) {
	for k, v := range context {
		if strings.EqualFold(k, key) {
			return v, true
		}
	}
	return nil, false
}
