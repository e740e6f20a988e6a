package leasepool

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Release contains one release of this module and the number of held node IDs whose
// agents run it.
type Release struct {
	// Release is a version of the module, such as v1.4.0. It is empty for agents that do not
	// report their release. Holders write the release themselves, so it may be wrong.
	Release string `json:"release"`
	Held    int    `json:"held"`
}

// releaseKey is the metadata name under which agents write their release.
const releaseKey = "lib"

const (
	// mostReleases limits the number of separate counts. Holders can write any text as their
	// release, and reports must not grow without limit.
	mostReleases = 32
	// longestRelease is the maximum length of a release in bytes. It is long enough for the
	// version of a commit between two releases.
	longestRelease = 64
)

// CountReleases counts the holders that report each release, oldest release first.
// Holders that report no release come first. If there are more than 32 different
// releases, the newest are left out.
func CountReleases(holders []string) []Release {
	count := map[string]int{}
	for _, release := range holders {
		count[release[:min(len(release), longestRelease)]]++
	}
	var all []Release
	for release, n := range count {
		all = append(all, Release{release, n})
	}
	slices.SortFunc(all, func(a, b Release) int { return compareReleases(a.Release, b.Release) })
	return all[:min(len(all), mostReleases)]
}

// compareReleases compares two versions by their numbers, as semantic versioning does:
// v1.10.0 is newer than v1.9.0, and v1.9.0 newer than v1.9.0-rc.1. A text that is not
// a version is older than every version.
func compareReleases(a, b string) int {
	x, pre, isA := numbers(a)
	y, preB, isB := numbers(b)
	switch {
	case !isA || !isB:
		return cmp.Or(cmp.Compare(truth(isA), truth(isB)), strings.Compare(a, b))
	case x != y:
		return slices.Compare(x[:], y[:])
	case (pre == "") != (preB == ""):
		return cmp.Compare(truth(pre == ""), truth(preB == ""))
	}
	return strings.Compare(pre, preB)
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// numbers parses vMAJOR.MINOR.PATCH and the text after a hyphen.
func numbers(version string) (n [3]uint64, pre string, ok bool) {
	version, _, _ = strings.Cut(version, "+")
	version, pre, _ = strings.Cut(version, "-")
	text, ok := strings.CutPrefix(version, "v")
	parts := strings.Split(text, ".")
	if !ok || len(parts) != len(n) {
		return n, "", false
	}
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(parts[i], 10, 32); err != nil {
			return n, "", false
		}
	}
	return n, pre, true
}
