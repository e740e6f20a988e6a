//go:build !nodelease_unsafe

package demo

import "github.com/nodelease/nodelease/pkg/lease"

// Unsafe says that this program was built to break the protocol on purpose.
func Unsafe() bool { return false }

func taskStore(s lease.Store) lease.Store { return s }
