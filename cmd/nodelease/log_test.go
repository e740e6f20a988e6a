package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/pkg/lease"
)

// An agent's log names command-line flags, not the options of the Go API.
func TestLogIsForShells(t *testing.T) {
	for name, attr := range map[string]slog.Attr{
		"error": slog.Any("error", &lease.ExhaustedError{Pool: "orders", Size: 3}),
		"text":  slog.String("error", (&lease.ExhaustedError{Pool: "orders", Size: 1}).Error()),
	} {
		var b bytes.Buffer
		slog.New(newLog(&b, slog.LevelInfo)).Warn("lease waiting", attr)
		if got := b.String(); strings.Contains(got, "Config.") || !strings.Contains(got, "--wait") {
			t.Errorf("%s: got %s, want flags and no fields of Config", name, got)
		}
	}
}
