package lease

import (
	"maps"
	"testing"
)

// The release goes into a lease's metadata where there is room for it, and the
// user's own map stays as it is.
func TestWithLibrary(t *testing.T) {
	mine := map[string]string{"zone": "a"}
	for _, test := range []struct {
		metadata map[string]string
		release  string
		room     int
		want     map[string]string
	}{
		{nil, "v1.2.3", 100, map[string]string{"lib": "v1.2.3"}},
		{mine, "v1.2.3", 9, map[string]string{"zone": "a", "lib": "v1.2.3"}},
		{mine, "v1.2.3", 8, mine},
		{mine, "", 100, mine},
		{map[string]string{"lib": "own"}, "v1.2.3", 100, map[string]string{"lib": "own"}},
	} {
		if got := withLibrary(test.metadata, test.release, test.room); !maps.Equal(got, test.want) {
			t.Errorf("%+v: %v", test, got)
		}
	}
	if len(mine) != 1 {
		t.Errorf("the user's metadata became %v", mine)
	}
}
