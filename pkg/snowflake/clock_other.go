//go:build !linux

package snowflake

import "time"

// Elsewhere a suspend is seen by the wall clock only: it is ahead afterwards.
func suspendedSinceStart() int64 { return 0 }

func preciseSleep(d time.Duration) { time.Sleep(d) }

// Elsewhere no device says that the machine was restored from a snapshot.
func machineGeneration() *uint64 { return nil }
