// Package conform has tests that compare the embedded DynamoDB with others: a suite of cases that the
// embedded DynamoDB and Amazon's DynamoDB Local must both pass through the real SDK client, and a
// differential fuzzer that sends random requests to both and compares every answer. All known
// differences are in one table, each with its reason. A third opinion is dynoxide, an emulator whose
// makers compare it with recordings of AWS. The file cases.txt has facts from three other suites, one
// of them recorded, each with a verdict.
//
//	scripts/dynamodb-local.sh run -- go test ./internal/embeddeddb/conform
//	scripts/test.sh differential
package conform
