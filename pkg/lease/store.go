package lease

import (
	"github.com/nodelease/nodelease/internal/protocol"
)

// Store is where the leases are. The one that counts is [NewDynamoDB];
// leasetest.NewMemory is for tests. Both pass one conformance suite. Its methods
// speak of the protocol's writes, which are this module's alone.
type Store = protocol.Store

// DynamoDB is the [Store] that counts. It is safe for concurrent use and has no
// state of its own.
type DynamoDB = protocol.DynamoDB

// Client is what a store needs of a *[dynamodb.Client].
type Client = protocol.Client

// NewDynamoDB keeps leases in a table, with the caller's own client. Every call
// is one attempt, whatever retries the client has: a retry that nobody sees could
// outlive the lease. [Open] makes a client from the environment.
func NewDynamoDB(client Client, table string) *DynamoDB { return protocol.NewDynamoDB(client, table) }
