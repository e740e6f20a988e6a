//go:build !overlay

package main

import "time"

func step(time.Duration) { panic("built without the overlay of the time package") }
