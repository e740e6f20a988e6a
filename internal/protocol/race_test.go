//go:build race

package protocol

func init() { slowdown = 20 }
