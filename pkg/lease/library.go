package lease

import "runtime/debug"

// MetadataLibrary is the metadata name for the release of this module that the holder
// was built with, if there is room for it. It shows operators a fleet of mixed
// releases.
const MetadataLibrary = "lib"

// module is this module's path in the build information of a program.
const module = "github.com/nodelease/nodelease"

// release returns the version of this module in this program; empty for one by which
// two programs cannot be compared.
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
