package main

import (
	"debug/elf"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/internal/testkit/sources"
)

func TestService(t *testing.T) {
	doc := template(t, stackOf(sample(t, nil), "NodeleaseService"))
	task := doc.one(t, "AWS::ECS::TaskDefinition").Properties
	container := task["ContainerDefinitions"].([]any)[0].(map[string]any)

	// A check on readiness would make ECS replace the whole fleet during an outage of DynamoDB.
	check := container["HealthCheck"].(map[string]any)["Command"].([]any)
	if !slices.Equal(check, []any{"CMD", "/service", "-healthcheck"}) {
		t.Errorf("the container is checked by %v", check)
	}
	if path := doc.one(t, "AWS::ElasticLoadBalancingV2::TargetGroup").Properties["HealthCheckPath"]; path != "/livez" {
		t.Errorf("the load balancer checks %v, want /livez", path)
	}
	if container["StopTimeout"] != 60.0 || container["ReadonlyRootFilesystem"] != true {
		t.Errorf("the container is %v", container)
	}
	env, _ := json.Marshal(container["Environment"])
	if !strings.Contains(string(env), "NODELEASE_TABLE") || !strings.Contains(string(env), `{"Name":"NODELEASE_POOL","Value":"orders"}`) {
		t.Errorf("the container is not attached: %s", env)
	}
	if internal := doc.one(t, "AWS::ElasticLoadBalancingV2::LoadBalancer").Properties["Scheme"]; internal != "internal" {
		t.Errorf("the load balancer is %v, want internal", internal)
	}
}

// The tasks have no route to the internet, but endpoints for everything that they need.
func TestServiceNetwork(t *testing.T) {
	doc := template(t, stackOf(sample(t, nil), "NodeleaseService"))
	for _, never := range []string{"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::Route"} {
		if found := doc.all(never); len(found) > 0 {
			t.Errorf("there is a way out: %v", found)
		}
	}
	endpoints := map[string]string{}
	for _, e := range doc.all("AWS::EC2::VPCEndpoint") {
		text, _ := json.Marshal(e.Properties["ServiceName"])
		name := regexp.MustCompile(`\.(dynamodb|s3|ecr\.api|ecr\.dkr|logs)"`).FindStringSubmatch(string(text))
		if name == nil {
			t.Fatalf("an endpoint for %s", text)
		}
		endpoints[name[1]] = e.Properties["VpcEndpointType"].(string)
	}
	want := map[string]string{"dynamodb": "Gateway", "s3": "Gateway", "ecr.api": "Interface", "ecr.dkr": "Interface", "logs": "Interface"}
	if !maps.Equal(endpoints, want) {
		t.Errorf("the endpoints are %v, want %v", endpoints, want)
	}
	subnets := doc.all("AWS::EC2::Subnet")
	if len(subnets) != 2 {
		t.Errorf("there are %d subnets", len(subnets))
	}
	for id, s := range subnets {
		if s.Properties["MapPublicIpOnLaunch"] != false {
			t.Errorf("%s is public", id)
		}
	}
	service, _ := json.Marshal(doc.one(t, "AWS::ECS::Service").Properties["NetworkConfiguration"])
	if !strings.Contains(string(service), `"AssignPublicIp":"DISABLED"`) {
		t.Errorf("the service's network is %s", service)
	}
}

var arch = flag.String("arch", runtime.GOARCH, "the `architecture` for which the build steps of the Dockerfiles run")

// The tests have no Docker. Instead, the build command of each Dockerfile is run unchanged
// on the files of the image, for one architecture.
func TestDockerfilesBuild(t *testing.T) {
	sources.Of(t, "../pkg", "../internal", "../examples/service", "../cmd/nodelease")
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for file, source := range map[string]string{"examples/service/Dockerfile": imageSource(t), "cmd/nodelease/Dockerfile": ".."} {
		dockerfile, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		step := regexp.MustCompile(`(?m)^RUN (.*go build.* -o )/(\w+)( .*)$`).FindStringSubmatch(string(dockerfile))
		if step == nil {
			t.Fatalf("%s has no build step", file)
		}
		binary := filepath.Join(t.TempDir(), step[2])
		build := exec.Command("sh", "-ec", step[1]+binary+step[3])
		build.Dir = source
		build.Env = append(os.Environ(), "TARGETARCH="+*arch, "GOOS=linux", "GOFLAGS=")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step[0], err, out)
		}
		if info, err := os.Stat(binary); err != nil || info.Size() > 30<<20 {
			t.Errorf("%s: the binary is %v bytes (%v)", file, info.Size(), err)
		}
		program, err := elf.Open(binary)
		if err != nil {
			t.Fatal(err)
		}
		if program.Machine != machines[*arch] {
			t.Errorf("%s for %s: the binary is for %v", file, *arch, program.Machine)
		}
		_ = program.Close()
	}
}

// imageSource returns the directory that CDK would pass to docker build.
func imageSource(t *testing.T) string {
	t.Helper()
	assembly := sample(t, nil).Synth(nil)
	found, err := filepath.Glob(filepath.Join(*assembly.Directory(), "asset.*", "go.mod"))
	if err != nil || len(found) != 1 {
		t.Fatalf("the image's source: got %v (%v), want 1", found, err)
	}
	dir := filepath.Dir(found[0])
	for _, never := range []string{".git", ".cache", "node_modules", "infra"} {
		if _, err := os.Stat(filepath.Join(dir, never)); err == nil {
			t.Errorf("the image is made of %s too", never)
		}
	}
	return dir
}
