//go:build nodelease_unsafe

package protocoltest

import (
	"context"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Unsafe is a store that breaks the protocol on purpose: its claims ignore expires_at and
// reserved_until. A node ID may then have two holders, for the same milliseconds, until the
// first holder's next renewal. Unsafe shows whether a comparison of IDs detects this.
// Normal builds do not contain it.
type Unsafe struct{ protocol.Store }

// NewUnsafe wraps a store.
func NewUnsafe(s protocol.Store) Unsafe { return Unsafe{s} }

// Write implements [protocol.Store].
func (u Unsafe) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	claim, ok := w.(protocol.Claim)
	if !ok {
		return u.Store.Write(ctx, w)
	}
	// By a clock that is far ahead, every lease has expired and every span is over.
	claim.At = claim.At.Add(1000 * time.Hour)
	res, err := u.Store.Write(ctx, claim)
	if err == nil && res.Applied {
		l := *res.Lease
		l.NotBefore = time.Time{}
		res.Lease = &l
	}
	return res, err
}
