//go:build race

package main

// The race detector's shadow memory is several times what the program uses.
func init() { raceMemory = 4 }
