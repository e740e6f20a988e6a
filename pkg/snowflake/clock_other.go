//go:build !linux

package snowflake

import "time"

// suspendedSinceStart returns 0: on other systems, only the wall clock shows a
// suspend, by being ahead afterwards.
func suspendedSinceStart() int64 { return 0 }

func preciseSleep(d time.Duration) { time.Sleep(d) }

// machineGeneration returns nil: on other systems, no device reports that the
// machine was restored from a snapshot.
func machineGeneration() *uint64 { return nil }
