//go:build !nodelease_unsafe

package demo

import "github.com/nodelease/nodelease/pkg/lease"

// Unsafe reports whether this program breaks the protocol on purpose. This build never does.
func Unsafe() bool { return false }

func taskStore(s lease.Store) lease.Store { return s }
