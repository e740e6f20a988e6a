package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
)

var update = flag.Bool("update", false, "update the golden templates")

// hash matches the hash of an asset, which changes with every build of the functions and with every source file of the image.
var hash = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// A change of the template changes resources in users' accounts, so it fails this test until someone has reviewed it. Accept it with
//
//	go test ./infra -run Golden -update
func TestGolden(t *testing.T) {
	for _, name := range []string{"Nodelease", "NodeleaseService"} {
		tree := *assertions.Template_FromStack(stackOf(sample(t, nil), name), nil).ToJSON()
		text, err := json.MarshalIndent(tree, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got := hash.ReplaceAllString(string(text), "HASH") + "\n"
		path := filepath.Join("testdata", name+".golden.json")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got == string(want) {
			continue
		}
		gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range gotLines {
			if i >= len(wantLines) || gotLines[i] != wantLines[i] {
				t.Errorf("%s differs from line %d on:\n%s\nAccept it with: go test ./infra -run Golden -update", path, i+1, gotLines[i])
				break
			}
		}
	}
}
