package embeddeddb

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

type request struct {
	TableName                 *string
	ExpressionAttributeValues Item
	used                      map[string]bool // the values that the expressions have used
}

// want refuses a value that the model of the API forbids, unless ok. DynamoDB lists all such values; this server names
// only the first.
func want(ok bool, at, value, must string) {
	if !ok {
		refuse("1 validation error detected: Value %s at '%s' failed to satisfy constraint: Member must %s", value, at, must)
	}
}

// wantOneOf refuses a value that is neither absent nor in the set. The set is in the order
// in which DynamoDB's error lists it.
func wantOneOf(value *string, at, set string) {
	if value != nil {
		want(slices.Contains(strings.Split(set, ", "), *value), at, "'"+*value+"'", "satisfy enum value set: ["+set+"]")
	}
}

var tableName = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

// tableARN matches the ARN of a table. All requests except CreateTable may use it as the table's name.
var tableARN = regexp.MustCompile(`^arn:aws:dynamodb:[a-z0-9-]+:[0-9]{12}:table/([a-zA-Z0-9_.-]{3,255})$`)

// named returns the name of the table that a request names by its name or ARN.
func named(table string) string {
	if !strings.HasPrefix(table, "arn:") {
		return table
	}
	return tableARN.ReplaceAllString(table, "$1")
}

func wantTable(name *string, shortest int) {
	want(name != nil, "tableName", "null", "not be null")
	if shortest == 1 && named(*name) != *name {
		return
	}
	quoted := "'" + *name + "'"
	want(len(*name) >= shortest, "tableName", quoted, "have length greater than or equal to "+strconv.Itoa(shortest))
	want(len(*name) <= 255, "tableName", quoted, "have length less than or equal to 255")
	want(tableName.MatchString(*name), "tableName", quoted, "satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
}

// checkUsable refuses values if no expression could use them.
func (r *request) checkUsable(kinds string, expressions ...*string) {
	if r.ExpressionAttributeValues != nil && cmp.Or(expressions...) == nil {
		refuse("ExpressionAttributeValues can only be specified when using expressions: %s null", kinds)
	}
}

// withValues refuses malformed values, reads expressions, and then refuses values that no expression has used, mostly because
// of a mistyped name.
func (r *request) withValues(read func()) {
	r.used = map[string]bool{}
	if r.ExpressionAttributeValues != nil && len(r.ExpressionAttributeValues) == 0 {
		refuse("ExpressionAttributeValues must not be empty")
	}
	for alias, v := range r.ExpressionAttributeValues {
		if len(alias) < 2 || alias[0] != ':' || len(tokens(alias)) != 2 {
			refuse("ExpressionAttributeValues contains invalid key: Syntax error; key: \"%s\"", alias)
		}
		if err := caught(v.check); err != nil {
			refuse("ExpressionAttributeValues contains invalid value: %s for key %s", err.Message, alias)
		}
	}
	read()
	given := slices.Sorted(maps.Keys(r.ExpressionAttributeValues))
	if unused := slices.DeleteFunc(given, func(alias string) bool { return r.used[alias] }); len(unused) > 0 {
		refuse("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", strings.Join(unused, ", "))
	}
}

type getInput struct {
	TableName      *string
	Key            Item
	ConsistentRead *bool // ignored: all reads are consistent
}

type getOutput struct {
	Item Item `json:",omitempty"`
}

func (s *Server) getItem(in *getInput) any {
	wantTable(in.TableName, 1)
	want(in.Key != nil, "key", "null", "not be null")
	in.Key.check()
	t := s.table(in.TableName, "")
	return getOutput{t.get(t.checkKey(in.Key))}
}

type pageInput struct {
	request
	ExclusiveStartKey Item
	Limit             *int
	ConsistentRead    *bool // ignored: all reads are consistent
}

type queryInput struct {
	pageInput
	KeyConditionExpression *string
	key                    *parser
}

type scanInput struct {
	pageInput
	FilterExpression *string
	filter           *parser
}

type pageOutput struct {
	Items            []Item
	Count            int
	ScannedCount     int
	LastEvaluatedKey Item `json:",omitempty"`
}

func (in *queryInput) know() {
	in.key = in.expression("KeyConditionExpression", in.KeyConditionExpression)
}

func (in *scanInput) know() { in.filter = in.expression("FilterExpression", in.FilterExpression) }

func (s *Server) query(in *queryInput) any {
	wantTable(in.TableName, 1)
	switch {
	case in.Limit != nil && *in.Limit < 1:
		refuse("1 validation error detected: Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1")
	case in.KeyConditionExpression == nil:
		refuse("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	where := parsed(&in.pageInput, in.key, (*parser).keyCondition)
	t := s.table(in.TableName, "")
	hash := t.KeySchema[0].AttributeName
	switch v := where[hash]; {
	case v.absent():
		refuse("Query condition missed key schema element: %s", hash)
	case v.kind() != t.keyType(hash):
		refuse("One or more parameter values were invalid: Condition parameter type does not match schema type")
	}
	t.checkPart(0, where[hash])
	if start := in.ExclusiveStartKey; start != nil && t.order(t.checkKey(start), where) != 0 {
		refuse("The provided starting key is outside query boundaries based on provided conditions")
	}
	from, _ := slices.BinarySearchFunc(t.rows, where, t.order)
	rows := t.rows[from:]
	end := sort.Search(len(rows), func(i int) bool { return t.order(rows[i], where) != 0 })
	return in.page(t, rows[:end], nil)
}

// keyCondition reads "attribute = :value" or ":value = attribute". No other condition is supported.
func (p *parser) keyCondition() Item {
	enclosed := p.accept("(")
	a := p.operand()
	p.expect("=")
	b := p.operand()
	if enclosed {
		p.expect(")")
	}
	if a.attribute == "" {
		a, b = b, a
	}
	switch {
	case a.attribute == "":
		refuse("Invalid condition in KeyConditionExpression: No key attribute specified")
	case b.attribute != "":
		refuse("Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition")
	}
	return Item{a.attribute: b.value}
}

// scan returns a page of the table in the order of its keys; DynamoDB promises no order.
func (s *Server) scan(in *scanInput) any {
	wantTable(in.TableName, 1)
	if in.Limit != nil {
		want(*in.Limit > 0, "limit", "'"+strconv.Itoa(*in.Limit)+"'", "have value greater than or equal to 1")
	}
	in.checkUsable("FilterExpression is", in.FilterExpression)
	holds := parsed(&in.pageInput, in.filter, (*parser).condition)
	t := s.table(in.TableName, "")
	return in.page(t, t.rows, holds)
}

func parsed[T any](in *pageInput, p *parser, read func(*parser) T) (result T) {
	if err := caught(in.ExclusiveStartKey.check); err != nil {
		refuse("The provided starting key is invalid: %s", err.Message)
	}
	in.withValues(func() { result = parse(p, read) })
	return result
}

const maxPage = 1 << 20

// page reads the first rows after the start, up to the limit and 1 MB, and returns those for which the condition holds. A page
// that ends at the limit has a LastEvaluatedKey even if no rows follow: DynamoDB does not read beyond the limit.
func (in *pageInput) page(t *table, rows []Item, holds condition) any {
	if in.ExclusiveStartKey != nil {
		start := t.checkKey(in.ExclusiveStartKey)
		rows = rows[sort.Search(len(rows), func(i int) bool { return t.order(rows[i], start) > 0 }):]
	}
	out, size, most := pageOutput{Items: []Item{}}, 0, len(rows)+1
	if in.Limit != nil {
		most = *in.Limit
	}
	for _, row := range rows {
		size += row.size()
		if n := out.ScannedCount; n == most || n > 0 && size > maxPage {
			most = n
			break
		}
		if out.ScannedCount++; holds.in(row) {
			out.Items = append(out.Items, row)
		}
	}
	if out.Count = len(out.Items); out.ScannedCount == most {
		out.LastEvaluatedKey = t.key(rows[most-1])
	}
	return out
}
