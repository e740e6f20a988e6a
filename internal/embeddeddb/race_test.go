//go:build race

package embeddeddb

// The race detector's shadow memory is several times as large as the program's own memory.
func init() { raceMemory = 4 }
