package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"

	"github.com/nodelease/nodelease/infra/nodepool"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/sources"
)

// cfn-lint and parliament check templates of every shape that the construct can have.
func TestLint(t *testing.T) {
	tools, err := filepath.Abs("../.cache/lint/bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(tools); err != nil {
		dynamotest.Missing(t, "NOT LINTED by cfn-lint and parliament: they are not installed. To install them: infra/lint/install.sh")
	}

	sources.Of(t, "lint")
	construct := func(edit func(*nodepool.Props)) awscdk.Stack {
		stack := newStack(t, "us-east-1")
		nodes := twoPools(stack, edit)
		task := newTask(stack, "Task")
		addContainer(task, "app", 0)
		nodes.Pool("orders").Attach(task)
		return stack
	}
	app := sample(t, nil)
	var files []string
	for name, stack := range map[string]awscdk.Stack{
		"nodelease": stackOf(app, "Nodelease"),
		"service":   stackOf(app, "NodeleaseService"),
		"amd64":     stackOf(sample(t, map[string]any{"arch": "amd64"}), "Nodelease"),
		"two-pools": construct(nil),
		"replicas": construct(func(p *nodepool.Props) {
			p.Replicas, p.Consistency = []string{"us-east-2", "us-west-2"}, awsdynamodb.MultiRegionConsistency_STRONG
		}),
		"witness": construct(func(p *nodepool.Props) {
			p.Replicas, p.Witness, p.Consistency = []string{"us-east-2"}, "us-west-2", awsdynamodb.MultiRegionConsistency_STRONG
		}),
	} {
		text, err := json.MarshalIndent(assertions.Template_FromStack(stack, nil).ToJSON(), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name+".template.json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}

	plain, err := plainTemplate(newApp(t, nil), zips)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plain.template.json")
	if err := os.WriteFile(file, plain, 0o600); err != nil {
		t.Fatal(err)
	}
	files = append(files, file)

	for name, command := range map[string][]string{
		// W3005 reports a DependsOn that is not needed; CDK writes many of those. The script cfn-lint starts with an absolute path to
		// Python, which pip wrote, and .cache may have been moved or be shared. So Python is called with the script.
		"cfn-lint":   append([]string{filepath.Join(tools, "python"), filepath.Join(tools, "cfn-lint"), "--ignore-checks", "W3005", "--"}, files...),
		"parliament": append([]string{filepath.Join(tools, "python"), "lint/policies.py"}, files...),
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		} else {
			t.Logf("%s: %s", name, out)
		}
	}
}
