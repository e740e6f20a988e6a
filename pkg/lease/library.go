package lease

import (
	"maps"
	"runtime/debug"
)

// MetadataLibrary is the name under which a lease's metadata says which release
// of this module its holder was built with, where there is room for it: so that
// an operator sees two of them at work.
const MetadataLibrary = "lib"

// module is how this module is called in a program that was built with it.
const module = "github.com/nodelease/nodelease"

// withLibrary adds the release to metadata, unless the user has given that name
// or room, in bytes, is too small.
func withLibrary(metadata map[string]string, release string, room int) map[string]string {
	if _, given := metadata[MetadataLibrary]; given || release == "" || len(MetadataLibrary)+len(release) > room {
		return metadata
	}
	out := maps.Clone(metadata)
	if out == nil {
		out = map[string]string{}
	}
	out[MetadataLibrary] = release
	return out
}

// release is the version of this module in this program: empty where it is
// none that two programs could be compared by.
func release() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "(devel)" {
			return m.Version
		}
	}
	return ""
}
