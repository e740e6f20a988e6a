// Sbom writes the software bill of materials of a Go binary, as CycloneDX JSON. It reads the records that the Go linker wrote into the
// binary, so it lists exactly the modules in the binary.
//
//	sbom BINARY FILE.cdx.json
package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	if len(args) != 2 {
		return errors.New("usage: sbom BINARY FILE")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	bom := cdx.NewBOM()
	main := component(cdx.ComponentTypeApplication, info.Main.Path, info.Main.Version)
	bom.Metadata = &cdx.Metadata{Component: &main}
	components := []cdx.Component{component(cdx.ComponentTypeLibrary, "stdlib", info.GoVersion)}
	direct := []string{components[0].BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(cdx.ComponentTypeLibrary, m.Path, m.Version)
		if m.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}
		}
		components, direct = append(components, c), append(direct, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &direct}}
	file, err := os.Create(args[1]) //nolint:gosec // its user names the file
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

func component(kind cdx.ComponentType, name, version string) cdx.Component {
	purl := "pkg:golang/" + name + "@" + version
	return cdx.Component{BOMRef: purl, Type: kind, Name: name, Version: version, PackageURL: purl}
}
