package conform

import (
	"maps"
	"regexp"
	"slices"
)

// awsWords is the reason for a difference where DynamoDB Local has its own text for an error. The
// embedded DynamoDB has the text of the service in AWS, which applications see.
const awsWords = "the service's own words"

// A difference between the embedded DynamoDB and another one: patterns of the answers of each, and
// the reason.
type difference struct{ embedded, other, why string }

// differences has all known differences from DynamoDB Local 2.6.1.
var differences = []difference{
	{`The provided key element does not match the schema$`, `(The number of conditions on the keys is invalid|One or more parameter values were invalid: Type mismatch for key)$`, awsWords},
	{`One or more parameter values were invalid: Missing the key \w+ in the item$`, `One of the required keys was not given a value$`, awsWords},
	{`One or more parameter values were invalid: Type mismatch for key \w+ expected: \w actual: \w+$`, `One or more parameter values were invalid: Type mismatch for key$`, awsWords},
	{`Requested resource not found`, `Cannot do operations on a non-existent table$`, awsWords},
	{`Table already exists: `, `Cannot create preexisting table$`, awsWords},
	{`The parameter cannot be converted to a numeric value`, `A value provided cannot be converted into a number$`, awsWords},
	{`1 validation error detected: Value at 'Limit' failed`, `Limit must be greater than or equal to 1$`, awsWords},
	{`1 validation error detected: Value '\w+' at 'returnValues' failed`, `Return values set to invalid value$`, awsWords},
	{`ReturnValues can only be ALL_OLD or NONE$`, `Return values set to invalid value$`, awsWords},
	{`Number overflow`, `DynamoDB only supports precision up to 38 digits$`, "the service calls it an overflow when a sum has too many digits"},
	{`Number (over|under)flow`, `^$`, "the service judges a zero by the exponent that it is written with"},
	{`^ok UpdateItem \{\}$`, `^ok UpdateItem \{node_id:\S+ pool_group:\S+\}$`, "the service creates no item for a REMOVE of a missing one"},
	{`Attempting to store more than 38 significant digits in a Number$`, `DynamoDB only supports precision up to 38 digits$`, awsWords},
	{`1 validation error detected: Value '-?\d+' at 'limit' failed`, `Limit must be greater than or equal to 1$`, awsWords},
	{`Query condition missed key schema element: \w+$`, `Query condition missed key schema element$`, awsWords},
	{`Two document paths overlap with each other`, `Two document paths overlap with each other`, "of several pairs either may be named, and Local sometimes names two that do not overlap"},
	{`(starting key is outside query boundaries|provided key element does not match)`, `^ValidationException: The provided starting key does not match the range key predicate$`, awsWords},
	{`reserved keyword: (?i:convert|size)$`, `^$`, "Local accepts these two of the 573 words"},
}

// notCompared lists the requests that the fuzzer leaves out, because the answers differ in more than a text.
var notCompared = []string{
	"numbers of UpdateItem that are not written as DynamoDB writes them: Local returns a 1.0 unchanged and adds 1.5 + 1.5 to 3.0, but normalises those of PutItem",
	"features that the embedded server refuses by name, see its TestRefusedByName",
	"values without any expression",
}

// opinions has all known differences from dynoxide 3.2.0.
var opinions = []difference{
	{`AttributeValue for a key attribute cannot contain an empty string`, `^ok Query \[\] 0 0\{\}$`, "dynoxide searches for an empty key"},
	{`Incorrect operand type for operator or function; operator or function: ([<>]=?|BETWEEN), operand type: (BOOL|L|M)$`, `^(ok UpdateItem|ok PutItem|Conditional)`, "dynoxide compares unordered types; Local and Alternator's suite refuse that"},
	{`refers to an attribute that does not exist in the item$`, `^ok UpdateItem `, "dynoxide ignores the second operand of an if_not_exists that does not need it; Local and the embedded server check it"},
	{`Number overflow`, `more than 38 significant digits`, "the service calls it an overflow when a sum has too many digits"},
	{`Two document paths overlap`, `Two document paths overlap`, "of several pairs either may be named"},
	{`^ok UpdateItem \{\}$`, `^ok UpdateItem \{node_id:\S+ pool_group:\S+\}$`, "dynoxide creates an item for a REMOVE of a missing one, and returns a key as the old item; the service does not"},
}

// known returns the reason why two answers differ, if the table has such a difference.
func known(embedded, other string, local bool) (why string, ok bool) {
	table := opinions
	if local {
		table = differences
	}
	for _, d := range table {
		if regexp.MustCompile(d.embedded).MatchString(embedded) && regexp.MustCompile(d.other).MatchString(other) {
			return d.why, true
		}
	}
	return "", false
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
