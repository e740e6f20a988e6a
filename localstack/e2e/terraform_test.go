package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// The Terraform example cannot be applied here. So the test parses it, and compares it with the template that it
// applies.
func TestTerraformExample(t *testing.T) {
	if os.Getenv("NODELEASE_LOCALSTACK_PORT") == "" {
		t.Skip("NOT TESTED: the template comes from localstack/test.sh page, which runs this test, too")
	}
	template, err := os.ReadFile("../../dist/template/nodelease.template.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Parameters, Outputs map[string]map[string]any }
	if err := json.Unmarshal(template, &doc); err != nil {
		t.Fatal(err)
	}
	file, problems := hclparse.NewParser().ParseHCLFile("../../examples/terraform/main.tf")
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	given := map[string]bool{}
	outputs := 0
	for _, block := range file.Body.(*hclsyntax.Body).Blocks {
		switch {
		case block.Type == "resource" && block.Labels[0] == "aws_cloudformation_stack":
			value := block.Body.Attributes["parameters"].Expr.(*hclsyntax.ObjectConsExpr)
			for _, item := range value.Items {
				name, problems := item.KeyExpr.Value(nil)
				if problems.HasErrors() {
					t.Fatal(problems)
				}
				given[name.AsString()] = true
			}
		case block.Type == "output":
			outputs++
			text := string(block.Body.Attributes["value"].Expr.Range().SliceBytes(file.Bytes))
			found := false
			for name := range doc.Outputs {
				found = found || text == `aws_cloudformation_stack.nodelease.outputs["`+name+`"]`
			}
			if !found {
				t.Errorf("the output %s is %s, which is not an output of the template", block.Labels[0], text)
			}
		}
	}
	for name := range given {
		if doc.Parameters[name] == nil {
			t.Errorf("the example sets %s, which is not a parameter of the template", name)
		}
	}
	for name, p := range doc.Parameters {
		if p["Default"] == nil && !given[name] {
			t.Errorf("the example does not set %s, which has no default", name)
		}
	}
	if len(given) == 0 || outputs == 0 {
		t.Errorf("found %d parameters and %d outputs in the example", len(given), outputs)
	}
	// Terraform's own check, if it is installed.
	if terraform, err := exec.LookPath("terraform"); err == nil {
		if out, err := exec.Command(terraform, "fmt", "-check", "-diff", filepath.Clean("../../examples/terraform")).CombinedOutput(); err != nil {
			t.Errorf("terraform fmt: %v\n%s", err, out)
		}
	}
}
