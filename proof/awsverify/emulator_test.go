package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// program is the built command, and the emulator that it uses.
type program struct {
	binary  string
	account *account
}

func openEmulator(t *testing.T) *program {
	t.Helper()
	if os.Getenv("NODELEASE_LOCALSTACK_PORT") == "" {
		t.Skip("NOT TESTED on LocalStack: NODELEASE_LOCALSTACK_PORT is not set. To run this test: localstack/test.sh verify kills")
	}
	a, err := openAccount(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !a.emulator {
		t.Fatalf("the account is %s: this test is for an emulator", a.id)
	}
	p := &program{binary: filepath.Join(t.TempDir(), "awsverify"), account: a}
	if out, err := exec.Command("go", "build", "-o", p.binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return p
}

// command returns a command that runs the program with the given answer to the program's question.
func (p *program) command(t *testing.T, answer string, args ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), p.binary, args...)
	c.Stdin = strings.NewReader(answer)
	return c
}

func (p *program) run(t *testing.T, answer string, args ...string) (string, error) {
	t.Helper()
	out, err := p.command(t, answer, args...).CombinedOutput()
	return string(out), err
}

// In a whole run on an emulator, no check fails, and the checks that end as not possible here are exactly those in the committed list.
func TestVerify(t *testing.T) {
	p := openEmulator(t)
	out, err := p.run(t, "no\n", "-run", "whole")
	if err == nil || !strings.Contains(out, "nothing was created") || !strings.Contains(out, "AWS::DynamoDB::GlobalTable") || !strings.Contains(out, "a month") {
		t.Fatalf("the answer no: %v\n%s", err, out)
	}
	p.wantStacks(t, "whole", 0)

	report := filepath.Join(t.TempDir(), "report.md")
	out, err = p.run(t, "yes\n", "-run", "whole", "-report", report)
	t.Log(out)
	if err != nil {
		t.Fatal(err)
	}
	p.wantStacks(t, "whole", 0)
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, c := range checks {
		switch {
		case strings.Contains(string(text), fmt.Sprintf("| %s | %s | %s |", c.name, c.what, notHere)):
			missing = append(missing, c.name)
		case !strings.Contains(string(text), fmt.Sprintf("| %s | %s | %s |", c.name, c.what, seenCheck)):
			t.Errorf("the report does not say that %s was seen:\n%s", c.name, text)
		}
	}
	list, err := os.ReadFile("testdata/localstack.txt")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Fields(string(list)); !slices.Equal(missing, want) {
		t.Errorf("not possible here: %q; testdata/localstack.txt has %q", missing, want)
	}
}

var (
	drawn = flag.Int("moments", 0, "kill at this many random moments; 0 for all")
	seed  = flag.Uint64("seed", 0, "seed of the moments; 0 for a new one, which the test prints")
)

// moment is a moment at which a run is killed.
type moment struct {
	line   string // the run is killed when it prints this line
	during string // if set, the run is killed later: once the pool's stack is in this state, or at the next line
	skip   string
}

// draw draws n of the moments, and returns them in their order. If n is 0 or too large, it returns all.
func draw(all []moment, n int, seed uint64) []moment {
	if n <= 0 || n >= len(all) {
		return all
	}
	places := rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:n]
	slices.Sort(places)
	some := make([]moment, 0, n)
	for _, i := range places {
		some = append(some, all[i])
	}
	return some
}

// A run that was killed at any step is found by its tag, and resources without its tag are not deleted.
func TestKilledAtEachStep(t *testing.T) {
	p := openEmulator(t)
	b := p.bystanders(t)
	var moments []moment
	for _, s := range allSteps {
		m := moment{line: "step: " + s.name, skip: "watch,kill"} // these two wait for schedules, which takes long
		switch s.name {
		case "watch":
			m.skip = "kill"
		case "kill":
			m.skip = "watch"
		}
		moments = append(moments, m)
	}
	moments = append(moments,
		moment{"step: deploy", "CREATE_IN_PROGRESS", ""},
		moment{"step: grow", "UPDATE_IN_PROGRESS", "watch,kill"},
		moment{"step: delete ", "", "inspect,role,claim,keys,watch,kill,grow,freezes,release,rename"},
		moment{"step: delete ", "DELETE_IN_PROGRESS", "inspect,role,claim,keys,watch,kill,grow,freezes,release,rename"},
		moment{"step: empty ", "", "inspect,role,claim,keys,watch,kill,grow,freezes,release,rename"},
		moment{"check: gone", "", "inspect,role,claim,keys,watch,kill,grow,freezes,release,rename"},
	)
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	if *drawn > 0 {
		t.Logf("%d of %d moments; repeat with -args -moments %d -seed %d", *drawn, len(moments), *drawn, *seed)
	}
	for i, m := range draw(moments, *drawn, *seed) {
		t.Run(strings.TrimSpace(m.line+" "+m.during), func(t *testing.T) {
			run := fmt.Sprintf("killed-%d", i)
			began := time.Now()
			p.killAt(t, run, m.line, m.during, m.skip)
			out, err := p.run(t, "", "-clean", run)
			if err != nil {
				t.Fatalf("-clean: %v\n%s", err, out)
			}
			p.wantStacks(t, run, 0)
			p.wantNothingBut(t, b)
			t.Logf("%v: %s", time.Since(began).Round(time.Second), lastLine(out))
		})
	}
	out, err := p.run(t, "", "-left")
	if err != nil || !strings.Contains(out, "CLEAN="+b.otherRun) || strings.Count(out, "CLEAN=") != 1 {
		t.Errorf("-left: %v\n%s\nwant only the run %s", err, out, b.otherRun)
	}
}

// -clean copes with a deletion in progress that it has not requested, such as that of a run that was killed while it deleted its stack. In this
// test, the run is killed earlier, and the test requests the deletion, because LocalStack takes only a second for a deletion, and a program cannot
// be killed reliably within that time.
func TestDeletionGoesOn(t *testing.T) {
	p := openEmulator(t)
	b := p.bystanders(t)
	const run = "killed-before"
	p.killAt(t, run, "step: deploy", "CREATE_IN_PROGRESS", "")
	s, err := p.account.settled(t.Context(), stackPrefix+run)
	if err != nil || s.StackStatus != cfntypes.StackStatusCreateComplete {
		t.Fatalf("the stack: %+v, %v", s, err)
	}
	if _, err := p.account.cfn.DeleteStack(t.Context(), &cloudformation.DeleteStackInput{StackName: s.StackId}); err != nil {
		t.Fatal(err)
	}
	if out, err := p.run(t, "", "-clean", run); err != nil {
		t.Fatalf("-clean: %v\n%s", err, out)
	}
	p.wantStacks(t, run, 0)
	p.wantNothingBut(t, b)
}

// One interrupt ends the checks, and everything that the run has created is deleted.
func TestInterrupted(t *testing.T) {
	p := openEmulator(t)
	c := p.command(t, "", "-yes", "-run", "interrupted", "-report", filepath.Join(t.TempDir(), "report.md"))
	lines := p.start(t, c)
	for line := range lines {
		if strings.HasPrefix(line, "step: inspect") {
			if err := c.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Wait(); err == nil {
		t.Error("an interrupted run ends without an error")
	}
	p.wantStacks(t, "interrupted", 0)
}

// killAt runs the program until it prints the line and, if during is set, until the stack is in that state. Then it kills the program.
func (p *program) killAt(t *testing.T, run, line, during, skip string) {
	t.Helper()
	c := p.command(t, "", "-yes", "-run", run, "-skip", skip, "-report", filepath.Join(t.TempDir(), "report.md"))
	var seen []string
	lines := p.start(t, c)
	for l := range lines {
		seen = append(seen, l)
		if strings.HasPrefix(l, line) {
			if during != "" {
				p.awaitState(t, run, during, lines)
			}
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	_ = c.Wait()
	if during != "" && c.ProcessState.Exited() {
		t.Logf("the run ended before %s was seen", during)
		return
	}
	if c.ProcessState.Success() || !strings.HasPrefix(seen[len(seen)-1], line) {
		t.Fatalf("the run was not killed at %q but printed\n%s", line, strings.Join(seen, "\n"))
	}
	if status := c.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the run ended as %v, want killed", c.ProcessState)
	}
}

// awaitState returns when the pool's stack is in the state, or when the run has printed another line. In the second case, the stack may have left
// the state already, but that moment is as good as any other.
func (p *program) awaitState(t *testing.T, run, state string, lines <-chan string) {
	t.Helper()
	for {
		select {
		case <-lines:
			t.Logf("killed after %s: the run ended before that was seen", state)
			return
		case <-time.After(20 * time.Millisecond): // CloudFormation sends no notice of the state
		}
		got, err := p.account.cfn.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: aws.String(stackPrefix + run)})
		if err == nil && len(got.Stacks) == 1 && string(got.Stacks[0].StackStatus) == state {
			return
		}
	}
}

// start starts the program, and returns a channel with its lines.
func (p *program) start(t *testing.T, c *exec.Cmd) <-chan string {
	t.Helper()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	c.Stderr = &complaints
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(complaints.String())
		}
	})
	return lines
}

func (p *program) wantStacks(t *testing.T, run string, want int) {
	t.Helper()
	found, err := p.account.stacks(t.Context(), run)
	if err != nil || len(found) != want {
		t.Errorf("the run %s has %d stacks (%v), want %d", run, len(found), err, want)
	}
}

// bystanders are resources that -clean must not touch.
type bystanders struct {
	otherRun        string
	stacks          []string
	buckets, tables []string
}

// bystanders makes a stack without a tag that is named like a run's, a stack of another run, and a bucket and a table with similar names.
func (p *program) bystanders(t *testing.T) bystanders {
	t.Helper()
	b := bystanders{otherRun: "of-somebody-else"}
	wait := func(name string, tags []cfntypes.Tag) {
		body := zipsStack("not-a-run")
		made, err := p.account.cfn.CreateStack(t.Context(), &cloudformation.CreateStackInput{StackName: &name, TemplateBody: &body, Tags: tags})
		if err == nil {
			_, err = p.account.wantStatus(t.Context(), aws.ToString(made.StackId), cfntypes.StackStatusCreateComplete)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_, _ = p.account.cfn.DeleteStack(context.Background(), &cloudformation.DeleteStackInput{StackName: &name})
			_, _ = p.account.settled(context.Background(), aws.ToString(made.StackId))
		})
	}
	wait(stackPrefix+"killed-1-without-a-tag", nil)
	wait(stackPrefix+b.otherRun, []cfntypes.Tag{{Key: aws.String(tag), Value: &b.otherRun}})
	b.stacks, b.buckets, b.tables = p.present(t)
	return b
}

// present lists the existing resources.
func (p *program) present(t *testing.T) (stacks, buckets, tables []string) {
	t.Helper()
	pages := cloudformation.NewDescribeStacksPaginator(p.account.cfn, &cloudformation.DescribeStacksInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Stacks {
			if s.StackStatus != cfntypes.StackStatusDeleteComplete {
				stacks = append(stacks, aws.ToString(s.StackId))
			}
		}
	}
	all, err := p.account.s3.ListBuckets(t.Context(), &s3.ListBucketsInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all.Buckets {
		buckets = append(buckets, aws.ToString(b.Name))
	}
	got, err := p.account.dynamo.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(stacks)
	slices.Sort(buckets)
	slices.Sort(got.TableNames)
	return stacks, buckets, got.TableNames
}

// wantNothingBut checks that all bystanders, and no other resources, exist.
func (p *program) wantNothingBut(t *testing.T, b bystanders) {
	t.Helper()
	stacks, buckets, tables := p.present(t)
	if !slices.Equal(stacks, b.stacks) || !slices.Equal(buckets, b.buckets) || !slices.Equal(tables, b.tables) {
		t.Errorf("there are the stacks %q, buckets %q and tables %q,\nwant %q, %q and %q", stacks, buckets, tables, b.stacks, b.buckets, b.tables)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
