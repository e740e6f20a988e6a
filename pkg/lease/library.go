package lease

import "runtime/debug"

// MetadataLibrary is the name under which a lease's metadata says which release
// of this module its holder was built with, where there is room for it: so that
// an operator sees two of them at work.
const MetadataLibrary = "lib"

// module is how this module is called in a program that was built with it.
const module = "github.com/nodelease/nodelease"

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
