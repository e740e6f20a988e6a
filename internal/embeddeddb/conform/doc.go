// Package conform holds the tests that keep the embedded DynamoDB honest: one suite of cases that it
// and Amazon's DynamoDB Local must both pass through the real SDK client, and a differential fuzzer
// that sends random requests to both and compares every answer. All known differences are in one
// table, each with its reason. A third opinion is dynoxide, an emulator that is held to recordings of
// AWS. Facts of three other suites, one of them recorded, are in cases.txt, each with a verdict.
//
//	scripts/dynamodb-local.sh run -- go test ./internal/embeddeddb/conform
//	scripts/test.sh differential
package conform
