//go:build nodelease_unsafe

package demo

import (
	"os"

	"github.com/nodelease/nodelease/internal/protocol/protocoltest"
	"github.com/nodelease/nodelease/pkg/lease"
)

// Unsafe says that this program was built to break the protocol on purpose, and
// is asked to.
func Unsafe() bool { return os.Getenv("NODELEASE_UNSAFE_CLAIMS") == "1" }

func taskStore(s lease.Store) lease.Store {
	if Unsafe() {
		return protocoltest.NewUnsafe(s)
	}
	return s
}
