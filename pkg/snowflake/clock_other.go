//go:build !linux

package snowflake

import "time"

// On other systems, only the wall clock shows a suspend: it is ahead afterwards.
func suspendedSinceStart() int64 { return 0 }

func preciseSleep(d time.Duration) { time.Sleep(d) }

// On other systems, no device reports that the machine was restored from a
// snapshot.
func machineGeneration() *uint64 { return nil }
