// Package protocol is the lease protocol on a table: the items, the conditional
// writes that change them, and the store that does these in DynamoDB. It knows no
// agent and no loop. [Write] and [PoolWrite] are all that can happen to an item;
// each has its meaning twice, as an expression for DynamoDB and as Apply in Go,
// and protocoltest.Conformance holds the two together.
//
// Whoever changes a condition here changes what the specification in proof/spec
// says, and the mutants in proof/cmd/mutants, which remove each condition in turn.
package protocol
