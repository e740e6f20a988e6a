//go:build overlay

package main

import "time"

// step moves this process's wall clock: the time package is the overlay's.
func step(d time.Duration) { time.WallOffset.Add(int64(d)) }
