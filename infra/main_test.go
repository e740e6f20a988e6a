package main

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/infra/nodepool"
	"github.com/nodelease/nodelease/internal/testkit/iampolicy"
)

// All tests of the infrastructure are in this one package and run one after the other, because each package would start a jsii kernel (a
// Node.js process) of its own, and a kernel serves one caller at a time.

// zips and amdZips are directories with fakes of the zips that `make functions` builds, for arm64 and x86_64. A fake contains only the header of an
// executable, because templates depend only on the hashes of the zips.
var zips, amdZips string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		defer jsii.Close()
		dir, err := os.MkdirTemp("", "zips")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		zips, amdZips = filepath.Join(dir, "arm64"), filepath.Join(dir, "amd64")
		for dir, machine := range map[string]elf.Machine{zips: elf.EM_AARCH64, amdZips: elf.EM_X86_64} {
			if err := os.Mkdir(dir, 0o700); err != nil {
				panic(err)
			}
			for _, name := range []string{"bootstrap", "reaper", "poolmetric"} {
				if err := os.WriteFile(filepath.Join(dir, name+".zip"), zipOf("bootstrap", 0o755, program(machine)), 0o600); err != nil {
					panic(err)
				}
			}
		}
		return m.Run()
	}())
}

// program returns the header of an executable for the machine.
func program(machine elf.Machine) []byte {
	var b bytes.Buffer
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	if err := binary.Write(&b, binary.LittleEndian, head); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// zipOf returns a zip of one file.
func zipOf(name string, mode os.FileMode, text []byte) []byte {
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	head := &zip.FileHeader{Name: name, Method: zip.Deflate}
	head.SetMode(mode)
	w, err := archive.CreateHeader(head)
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, archive.Close()); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// flags returns the feature flags of cdk.json. Without them the tests would see a template that differs from the CLI's.
func flags(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("../cdk.json")
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Context map[string]any }
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	return config.Context
}

func newApp(t *testing.T, context map[string]any) awscdk.App {
	t.Helper()
	all := flags(t)
	for k, v := range context {
		all[k] = v
	}
	return awscdk.NewApp(&awscdk.AppProps{Context: &all, Outdir: jsii.String(t.TempDir())})
}

// newStack returns an empty stack in the Region, or, if region is empty, one that is not tied to a Region.
func newStack(t *testing.T, region string) awscdk.Stack {
	t.Helper()
	props := &awscdk.StackProps{}
	if region != "" {
		props.Env = &awscdk.Environment{Region: jsii.String(region), Account: jsii.String("111111111111")}
	}
	return awscdk.NewStack(newApp(t, nil), jsii.String("Test"), props)
}

// orders returns the properties of the smallest useful construct, as changed by edit.
func orders(edit func(*nodepool.Props)) *nodepool.Props {
	p := &nodepool.Props{Pools: []nodepool.PoolProps{{Name: "orders", Size: 1024}}, FunctionsDir: zips}
	if edit != nil {
		edit(p)
	}
	return p
}

// sample returns the app as main builds it.
func sample(t *testing.T, context map[string]any) awscdk.App {
	t.Helper()
	all := map[string]any{"functions": zips}
	if context["arch"] == "amd64" || context["arch"] == "x86_64" {
		all["functions"] = amdZips
	}
	for k, v := range context {
		all[k] = v
	}
	app := newApp(t, all)
	if err := build(app, ".."); err != nil {
		t.Fatal(err)
	}
	return app
}

func stackOf(app awscdk.App, name string) awscdk.Stack {
	return app.Node().FindChild(jsii.String(name)).(awscdk.Stack)
}

// template returns the template of a stack.
func template(t *testing.T, stack awscdk.Stack) document {
	t.Helper()
	text, err := json.Marshal(assertions.Template_FromStack(stack, nil).ToJSON())
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

type document struct {
	Outputs map[string]struct {
		Value       any
		Description string
	}
	Resources map[string]resource
}

type resource struct {
	Type           string
	Properties     map[string]any
	DependsOn      []string
	DeletionPolicy string
}

// all returns all resources of a type, by their logical IDs.
func (d document) all(kind string) map[string]resource {
	found := map[string]resource{}
	for id, r := range d.Resources {
		if r.Type == kind {
			found[id] = r
		}
	}
	return found
}

// one returns the only resource of a type; the test fails unless there is exactly one.
func (d document) one(t *testing.T, kind string) resource {
	t.Helper()
	found := d.all(kind)
	if len(found) != 1 {
		t.Fatalf("there are %d of %s, want 1", len(found), kind)
	}
	for _, r := range found {
		return r
	}
	panic("unreachable")
}

// tableARN is the ARN, in requests and policies, of a template's only table.
const tableARN = "arn:aws:dynamodb:us-east-1:111111111111:table/example"

// policies returns the policies whose logical ID begins with prefix, the logical ID of their role.
func (d document) policies(prefix string) map[string]resource {
	found := d.all("AWS::IAM::Policy")
	maps.DeleteFunc(found, func(id string, _ resource) bool { return !strings.HasPrefix(id, prefix) })
	return found
}

// policyOf returns one policy that allows everything that the policies with that prefix allow.
func policyOf(t *testing.T, d document, prefix string) iampolicy.Policy {
	t.Helper()
	found := d.policies(prefix)
	if len(found) == 0 {
		t.Fatalf("no role %s… has a policy", prefix)
	}
	var all []iampolicy.Policy
	for _, r := range found {
		document := r.Properties["PolicyDocument"].(map[string]any)
		for _, s := range document["Statement"].([]any) {
			statement := s.(map[string]any)
			var arns []string
			for _, name := range names(statement["Resource"]) {
				if name == "NodesTable" {
					name = tableARN
				}
				arns = append(arns, name)
			}
			statement["Resource"] = arns
		}
		text, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		p, err := iampolicy.Parse(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		all = append(all, p)
	}
	return iampolicy.Join(all...)
}
