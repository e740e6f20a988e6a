package lease

import (
	"github.com/nodelease/nodelease/internal/protocol"
)

// Store keeps the leases. NewDynamoDB is the production store; leasetest.NewMemory is
// for tests. Both pass one conformance suite. Store is sealed: its methods take the
// protocol's writes, which only this module has.
type Store = protocol.Store

// DynamoDB is the production [Store]. It is safe for concurrent use and has no state
// of its own.
type DynamoDB = protocol.DynamoDB

// Client has the methods of a *[dynamodb.Client] that a store needs.
type Client = protocol.Client

// NewDynamoDB returns a store that keeps leases in a table, with the caller's own
// client. Every call is one attempt, whatever retries the client has: a hidden retry
// could outlive the lease. [Open] makes a client from the environment.
func NewDynamoDB(client Client, table string) *DynamoDB { return protocol.NewDynamoDB(client, table) }
