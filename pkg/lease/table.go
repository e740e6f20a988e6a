package lease

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Lease is the right of one session to one node ID for a span of milliseconds.
// A free number is a Lease without a Holder. Version is the fencing token. Times
// are whole milliseconds of the Unix epoch.
type Lease = protocol.Lease

// State is what a number is at a moment: free, held, expired, cooling or retired.
type State = protocol.State

// The states of a number; [Lease.State] tells which.
const (
	Free    = protocol.Free
	Held    = protocol.Held
	Expired = protocol.Expired
	Cooling = protocol.Cooling
	Retired = protocol.Retired
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

// Open makes a store with the client of [OpenClient].
func Open(ctx context.Context, table, endpoint string) (*DynamoDB, error) {
	return protocol.Open(ctx, table, endpoint)
}

// OpenClient makes a client with the SDK's default configuration: Region,
// credentials and proxies from the environment, the shared files or the task's
// role. An endpoint of "" is the one of the environment
// (AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL), else AWS's own. An endpoint on
// the loopback interface (an emulator) needs neither Region nor credentials.
func OpenClient(ctx context.Context, endpoint string) (*dynamodb.Client, error) {
	return protocol.OpenClient(ctx, endpoint)
}
