package conform

import (
	"maps"
	"regexp"
	"slices"
)

// awsWords: where DynamoDB Local words an error in its own way, the embedded one has the words of
// the service in AWS, which are what an application sees.
const awsWords = "the service's own words"

// A difference between the embedded DynamoDB and DynamoDB Local 2.6.1: patterns of what each of
// them answers.
type difference struct{ embedded, local, why string }

// differences are all that are known.
var differences = []difference{
	{`The provided key element does not match the schema$`, `(The number of conditions on the keys is invalid|One or more parameter values were invalid: Type mismatch for key)$`, awsWords},
	{`One or more parameter values were invalid: Missing the key \w+ in the item$`, `One of the required keys was not given a value$`, awsWords},
	{`One or more parameter values were invalid: Type mismatch for key \w+ expected: \w actual: \w+$`, `One or more parameter values were invalid: Type mismatch for key$`, awsWords},
	{`Requested resource not found: Table: `, `Cannot do operations on a non-existent table$`, awsWords},
	{`Table already exists: `, `Cannot create preexisting table$`, awsWords},
	{`The parameter cannot be converted to a numeric value: `, `A value provided cannot be converted into a number$`, awsWords},
	{`Attempting to store more than 38 significant digits in a Number$`, `DynamoDB only supports precision up to 38 digits$`, awsWords},
	{`1 validation error detected: Value '-?\d+' at 'limit' failed`, `Limit must be greater than or equal to 1$`, awsWords},
	{`Query condition missed key schema element: \w+$`, `Query condition missed key schema element$`, awsWords},
	{`Two document paths overlap with each other`, `Two document paths overlap with each other`, "of several pairs either may be named, and Local sometimes names two that do not overlap"},
	{`(starting key is outside query boundaries|provided key element does not match)`, `^ValidationException: The provided starting key does not match the range key predicate$`, awsWords},
	{`reserved keyword: (?i:convert|size)$`, `^$`, "Local lets these two of the 573 words pass"},
}

// notCompared is what the fuzzer leaves out, because the two differ in more than a text.
var notCompared = []string{
	"numbers of UpdateItem that are not spelled as DynamoDB spells them: Local gives back a 1.0 as it came and makes 3.0 of 1.5 + 1.5, but normalises those of PutItem",
	"what the embedded one refuses by name, see its TestRefusedByName",
	"REMOVE before SET, which the embedded one does not take, and values without any expression, which it calls unused",
}

// known is why two answers differ, if the table has it.
func known(embedded, local string) (why string, ok bool) {
	for _, d := range differences {
		if regexp.MustCompile(d.embedded).MatchString(embedded) && regexp.MustCompile(d.local).MatchString(local) {
			return d.why, true
		}
	}
	return "", false
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
