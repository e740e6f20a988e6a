//go:build !linux

package snowflake

import "time"

// suspendedSinceStart returns 0: on systems other than Linux, a suspend shows
// only in the wall clock, which is ahead afterwards.
func suspendedSinceStart() int64 { return 0 }

func preciseSleep(d time.Duration) { time.Sleep(d) }

// machineGeneration returns nil: on systems other than Linux, no device
// reports that the machine was restored from a snapshot.
func machineGeneration() *uint64 { return nil }
