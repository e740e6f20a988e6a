//go:build nodelease_unsafe

package demo

import (
	"os"

	"github.com/nodelease/nodelease/internal/protocol/protocoltest"
	"github.com/nodelease/nodelease/pkg/lease"
)

// Unsafe reports whether this program breaks the protocol on purpose. This build does so if
// the environment requests it.
func Unsafe() bool { return os.Getenv("NODELEASE_UNSAFE_CLAIMS") == "1" }

func taskStore(s lease.Store) lease.Store {
	if Unsafe() {
		return protocoltest.NewUnsafe(s)
	}
	return s
}
