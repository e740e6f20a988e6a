package leasepool_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// Releases are sorted by their numbers, as in semantic versioning.
func TestCountReleasesOldestFirst(t *testing.T) {
	want := []string{"", "(devel)", "1.0.0", "v1", "v1.2.x", "v0.0.0-20260101000000-0123456789ab", "v0.9.0", "v1.9.0-rc.1", "v1.9.0", "v1.10.0-alpha", "v1.10.0", "v2.0.0+meta"}
	var got []string
	for _, r := range leasepool.CountReleases(want) {
		got = append(got, r.Release)
	}
	if !slices.Equal(got, want) {
		t.Errorf("oldest first: %q, want %q", got, want)
	}
}

// The counts stay small, whatever releases holders report.
func TestCountReleasesIsBounded(t *testing.T) {
	var holders []string
	for i := range 1000 {
		holders = append(holders, fmt.Sprintf("v1.%d.0-%s", i, strings.Repeat("x", 500)))
	}
	got := leasepool.CountReleases(holders)
	if len(got) != 32 || len(got[0].Release) > 64 || !strings.HasPrefix(got[0].Release, "v1.0.0-x") {
		t.Errorf("%d releases, the oldest is %q; want 32 of at most 64 bytes, v1.0.0 first", len(got), got[0].Release)
	}
}

// Stats lists the releases of live agents only, oldest first.
func TestStatsCountReleases(t *testing.T) {
	s := leasetest.NewMemory("orders", 8)
	start := func(release string) *lease.Agent {
		t.Helper()
		metadata := map[string]string{}
		if release != "" {
			metadata[lease.MetadataLibrary] = release
		}
		a, err := lease.Start(t.Context(), lease.Config{Store: s, Pool: "orders", Metadata: metadata})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.Close() })
		return a
	}
	for _, release := range []string{"v1.10.0", "v1.9.0", "v1.10.0"} {
		start(release)
	}
	if err := start("v1.2.0").Close(); err != nil {
		t.Fatal(err)
	}
	stats, err := leasepool.Open(s, "orders").Stats(t.Context())
	if want := []leasepool.Release{{Release: "v1.9.0", Held: 1}, {Release: "v1.10.0", Held: 2}}; err != nil || !slices.Equal(stats.Releases, want) {
		t.Errorf("%+v, %v, want %+v", stats.Releases, err, want)
	}
}
