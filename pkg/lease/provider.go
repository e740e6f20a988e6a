package lease

import (
	"net/http"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Provider provides this process with a node ID. [*Agent] leases it; leasefixed.Node has
// it without a lease. Code that is given a Provider works with both.
type Provider interface {
	snowflake.Node
	http.Handler // reports whether the process should keep running, for checks that replace it

	// NodeID returns the node ID, from 0.
	NodeID() int
	// Lease returns the lease if the node ID may be relied on now. Compare Version at
	// the resource if Lease.Fenced is true; if it is false, there is no token.
	Lease() (Lease, error)
	// Ready reports whether IDs can be made now; see [Agent.Ready].
	Ready() http.Handler
	// Done is closed when the process no longer has the node ID; Err then returns why.
	Done() <-chan struct{}
	Err() error
	// Close ends ID making, and releases a leased node ID.
	Close() error
}

var _ Provider = (*Agent)(nil)
