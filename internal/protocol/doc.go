// Package protocol is the lease protocol on a table: the items, the conditional writes
// that change them, and the store that executes these writes in DynamoDB. It has no agent
// and no loop. The items of node IDs and pools change only by a [Write] or a [PoolWrite].
// Each of these writes is defined twice, as an expression for DynamoDB and as Apply in
// Go, and protocoltest.Conformance checks that the two agree.
//
// A change of a condition here requires a change of the specification in proof/spec, and
// of the mutants in proof/cmd/mutants, which remove each condition in turn.
package protocol
