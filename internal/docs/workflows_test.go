package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// pinned matches an action with the hash of a commit and with its version.
var pinned = regexp.MustCompile(`^([\w.-]+/[\w./-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$`)

// unpinned returns the actions below a node of a workflow that lack the hash or the
// version, or whose hash is not the one that seen has for the version.
func unpinned(node *yaml.Node, seen map[string]string) (wrong []string) {
	for i, child := range node.Content {
		wrong = append(wrong, unpinned(child, seen)...)
		if node.Kind != yaml.MappingNode || i%2 == 0 || node.Content[i-1].Value != "uses" {
			continue
		}
		action := strings.TrimSpace(child.Value + " " + child.LineComment)
		m := pinned.FindStringSubmatch(action)
		if m == nil {
			wrong = append(wrong, action)
			continue
		}
		version := m[1] + " " + m[3]
		if hash, ok := seen[version]; ok && hash != m[2] {
			wrong = append(wrong, action)
		}
		seen[version] = m[2]
	}
	return wrong
}

// A tag of an action can be moved, a hash cannot.
func TestActionsArePinned(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d workflows, %v", len(files), err)
	}
	seen := map[string]string{}
	for _, file := range files {
		file = strings.TrimPrefix(filepath.ToSlash(file), root+"/")
		var workflow yaml.Node
		if err := yaml.Unmarshal([]byte(read(t, file)), &workflow); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, action := range unpinned(&workflow, seen) {
			t.Errorf("%s: got uses: %s, want OWNER/NAME@HASH # vX.Y.Z, with one hash for each version; CONTRIBUTING.md explains how to read the hash", file, action)
		}
	}
	if len(seen) == 0 {
		t.Error("found no action in the workflows")
	}
}

func TestUnpinnedActionsAreFound(t *testing.T) {
	hash := strings.Repeat("0123456789", 4)
	for line, wrong := range map[string]bool{
		"uses: actions/checkout@" + hash + " # v7.0.1":     false,
		"uses: actions/cache/save@" + hash + " # v5.0.0":   false,
		"run: echo uses actions/checkout@v7":               false,
		"uses: actions/checkout@v7":                        true,
		"uses: actions/checkout@v7 # v7.0.1":               true,
		"uses: actions/checkout@" + hash:                   true,
		"uses: actions/checkout@" + hash + " # v7":         true,
		"uses: actions/checkout@" + hash[1:] + " # v7.0.1": true,
		`"uses": docker://alpine:3`:                        true,
		"uses: other/action@" + hash + " # v1.0.0":         true, // seen has another hash
	} {
		var workflow yaml.Node
		if err := yaml.Unmarshal(fmt.Appendf(nil, "jobs:\n  job:\n    steps:\n      - name: step\n        %s\n        with: {a: b}\n", line), &workflow); err != nil {
			t.Fatal(err)
		}
		seen := map[string]string{"other/action v1.0.0": strings.Repeat("a", 40)}
		if got := unpinned(&workflow, seen); (len(got) > 0) != wrong {
			t.Errorf("%s: got %q, want one: %v", line, got, wrong)
		}
	}
}
