//go:build race

package main

// The race detector's shadow memory is several times as large as the program's memory.
func init() { raceMemory = 4 }
