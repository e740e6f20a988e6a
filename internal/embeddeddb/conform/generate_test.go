package conform

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type (
	value = types.AttributeValue
	plain = map[string]value
)

// A generator makes random requests on few keys and few attributes, so that requests affect each other.
type generator struct {
	*rand.Rand
	// Of the request that is being made:
	values  plain
	targets map[string]bool
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// once returns true once in n times.
func (g *generator) once(n int) bool { return g.IntN(n) == 0 }

func str(s string) value { return &types.AttributeValueMemberS{Value: s} }
func num(n string) value { return &types.AttributeValueMemberN{Value: n} }

// number returns a number as DynamoDB spells it: see notCompared.
func (g *generator) number() value {
	return num(pick(g, "0", "1", "1", "2", "-1", "3", "10", "9", "1.5", "-7", "0.0000001", "9007199254740993", "1790000000000",
		"10000000000000000000000000000000000001", "1"+strings.Repeat("0", 125)))
}

func (g *generator) value(depth int) value {
	switch {
	case depth > 0 && g.once(5):
		l := []value{}
		for range g.IntN(4) {
			l = append(l, g.value(depth-1))
		}
		return &types.AttributeValueMemberL{Value: l}
	case depth > 0 && g.once(5):
		m := plain{}
		for range g.IntN(3) {
			m[pick(g, "a", "b", "x")] = g.value(depth - 1)
		}
		return &types.AttributeValueMemberM{Value: m}
	case g.once(8):
		return &types.AttributeValueMemberBOOL{Value: g.once(2)}
	case g.once(2):
		return str(pick(g, "", "a", "ab", "b", "host-1", "10", "é", "😀x"))
	}
	return g.number()
}

func (g *generator) key() plain {
	return plain{"pool_group": str(pick(g, "p#0", "p#1", "é")), "node_id": num(pick(g, "-1", "0", "1", "2", "10", "2.5"))}
}

// of returns a value of one of the kinds, with few exceptions.
func (g *generator) of(kinds string, depth int) value {
	v := g.value(depth)
	for !g.once(50) && !strings.Contains(kinds, strings.TrimPrefix(fmt.Sprintf("%T", v), "*types.AttributeValueMember")) {
		v = g.value(depth)
	}
	return v
}

func (g *generator) hold(v value) string {
	alias := fmt.Sprintf(":v%d", len(g.values))
	g.values[alias] = v
	return alias
}

func (g *generator) attribute() string { return pick(g, "a", "b", "c", "d", "l", "m") }

// target returns an attribute that is not a target yet, with few exceptions.
func (g *generator) target() string {
	name := g.attribute()
	for g.targets[name] && len(g.targets) < 6 && !g.once(50) {
		name = g.attribute()
	}
	g.targets[name] = true
	return name
}

func (g *generator) operand(kinds string) string {
	if g.once(2) {
		return g.hold(g.of(kinds, 1))
	}
	return g.attribute()
}

const anyKind, orderedKinds = "S N BOOL L M", "S N"

func (g *generator) condition(depth int) string {
	if depth > 0 {
		switch g.IntN(8) {
		case 0:
			return g.condition(depth-1) + " AND " + g.condition(depth-1)
		case 1:
			return g.condition(depth-1) + " OR " + g.condition(depth-1)
		case 2:
			return "NOT " + g.condition(depth-1)
		case 3:
			return "(" + g.condition(depth-1) + ")"
		case 4:
			return "(" + g.condition(depth-1) + pick(g, " AND ", " OR ") + g.condition(depth-1) + ")"
		}
	}
	switch g.IntN(6) {
	case 0, 1:
		return pick(g, "attribute_exists(", "attribute_not_exists(") + pick(g, g.attribute(), "node_id") + ")"
	case 2:
		low, high := g.number(), g.number()
		return g.hold(g.of(orderedKinds, 0)) + " BETWEEN " + pick(g, g.attribute(), g.hold(low)) + " AND " + pick(g, g.attribute(), g.hold(high))
	case 3:
		return g.attribute() + pick(g, " = ", " <> ") + g.hold(g.of(anyKind, 1))
	case 4:
		return g.hold(g.of(orderedKinds, 0)) + pick(g, " = ", " <> ", " < ", " <= ", " > ", " >= ") + g.operand(orderedKinds)
	}
	return g.attribute() + pick(g, " < ", " <= ", " > ", " >= ") + g.hold(g.of(orderedKinds, 1))
}

// updated returns the value of an assignment. Where the kind of the value is known, it is
// one of kinds.
func (g *generator) updated(kinds string) string {
	switch {
	case g.once(4):
		return "if_not_exists(" + pick(g, "a", "b", "c") + ", " + pick(g, "d", g.hold(g.of(kinds, 2))) + ")"
	case g.once(8):
		return g.attribute()
	}
	return g.hold(g.of(kinds, 2))
}

func (g *generator) assignment() string {
	target := g.target() + " = "
	switch g.IntN(6) {
	case 0:
		return target + "list_append(" + g.updated("L") + ", " + g.updated("L") + ")"
	case 1, 2:
		return target + g.updated("N") + " + " + g.updated("N")
	}
	return target + g.updated(anyKind)
}

func (g *generator) update() string {
	several := func(make func() string) string {
		all := make()
		for g.once(2) {
			all += ", " + make()
		}
		return all
	}
	switch g.IntN(6) {
	case 0:
		return "REMOVE " + several(g.target)
	case 1:
		return "SET " + several(g.assignment) + " REMOVE " + several(g.target)
	case 2:
		return "REMOVE " + several(g.target) + " SET " + several(g.assignment)
	}
	return "SET " + several(g.assignment)
}

// broken returns an expression, sometimes damaged.
func (g *generator) broken(expression string) *string {
	if words := strings.Fields(expression); g.once(30) {
		at := g.IntN(len(words))
		words[at] = pick(g, "", words[g.IntN(len(words))], words[at]+" "+words[at], "!", "status", ")", ",", ":nope", "#nope")
		expression = strings.Join(words, " ")
	}
	return &expression
}

func (g *generator) maybe(n int, expression func() string) *string {
	if !g.once(n) {
		return nil
	}
	return g.broken(expression())
}

// used returns the values that are in the expressions, and sometimes all that were made.
func (g *generator) used(expressions ...*string) plain {
	keep := g.once(50) && slices.ContainsFunc(expressions, func(e *string) bool { return e != nil }) // without an expression: see notCompared
	values := plain{}
	for alias, v := range g.values {
		word := regexp.MustCompile(alias + `\b`)
		if keep || slices.ContainsFunc(expressions, func(e *string) bool { return e != nil && word.MatchString(*e) }) {
			values[alias] = v
		}
	}
	if len(values) == 0 {
		return nil
	}
	return values
}

// request makes the next request; its type is the SDK's input.
func (g *generator) request() any {
	g.values, g.targets = plain{}, map[string]bool{}
	onFailure := pick(g, "", types.ReturnValuesOnConditionCheckFailureNone, types.ReturnValuesOnConditionCheckFailureAllOld)
	switch kind := g.IntN(20); {
	case kind < 12:
		u := g.broken(g.update())
		c := g.maybe(2, func() string { return g.condition(2) })
		return &dynamodb.UpdateItemInput{Key: g.key(), UpdateExpression: u, ConditionExpression: c, ExpressionAttributeValues: g.used(u, c),
			ReturnValues: pick(g, "", types.ReturnValueNone, types.ReturnValueAllOld, types.ReturnValueAllNew, types.ReturnValueAllNew), ReturnValuesOnConditionCheckFailure: onFailure}
	case kind < 15:
		i := g.key()
		for _, name := range []string{"a", "b", "c", "d", "l", "m"} {
			if g.once(2) {
				i[name] = g.value(3)
			}
		}
		c := g.maybe(4, func() string { return g.condition(2) })
		return &dynamodb.PutItemInput{Item: i, ConditionExpression: c, ExpressionAttributeValues: g.used(c),
			ReturnValues: pick(g, "", types.ReturnValueAllOld), ReturnValuesOnConditionCheckFailure: onFailure}
	case kind < 17:
		return &dynamodb.GetItemInput{Key: g.key(), ConsistentRead: aws.Bool(g.once(2))}
	}
	k := "pool_group = " + g.hold(pick(g, str("p#0"), str("p#1"), str("é"), str("none"), g.value(1)))
	in := &dynamodb.QueryInput{KeyConditionExpression: &k, ExpressionAttributeValues: g.values, ConsistentRead: aws.Bool(g.once(2))}
	if g.once(3) {
		in.Limit = aws.Int32(int32(pick(g, 0, 1, 1, 2, 2, 2, 3, 3, 3, 10)))
	}
	if g.once(6) {
		in.ExclusiveStartKey = g.key()
	}
	return in
}
