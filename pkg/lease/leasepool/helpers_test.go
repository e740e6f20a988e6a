package leasepool_test

import (
	"log/slog"
	"testing"

	"github.com/nodelease/nodelease/pkg/lease"
)

// config is a Config on a store, silent.
func config(s lease.Store) lease.Config {
	return lease.Config{Store: s, Pool: "orders", Task: "test", Logger: slog.New(slog.DiscardHandler)}
}

// start starts an agent and closes it when the test ends.
func start(t *testing.T, cfg lease.Config) *lease.Agent {
	t.Helper()
	a, err := lease.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}
