package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// outcome is how a check ends.
type outcome string

const (
	seenCheck   outcome = "seen"
	failedCheck outcome = "failed"
	notHere     outcome = "not possible here"
)

// check is something that the run has to show.
type check struct {
	name string
	what string
	// emulator is the reason why an emulator may not be able to show it, or empty if an emulator must show it.
	emulator string
}

// result is the result of a check.
type result struct {
	outcome outcome
	detail  string
}

// checks lists all checks, in the report's order.
var checks = []check{
	{"deploy", "the plain template is deployed, and its custom resource answers", ""},
	{"bucket-tag", "the bucket carries the run's tag", ""},
	{"table-tag", "the table carries the run's tag", "a GlobalTable gets no tags"},
	{"seed", "the pool has its size before any task starts", ""},
	{"dashboard", "CloudWatch has the dashboard", "dashboards are accepted and ignored"},
	{"claim", "processes with only the task role's credentials hold every node ID, each once, and one more is refused", ""},
	{"access", "no request of the tasks gets AccessDenied once the role has propagated", ""},
	{"leading-keys", "the task role is denied other pools, and requests that agents never make", "IAM is stored, not enforced"},
	{"metrics", "poolmetric's schedule brings Utilization = 100 to CloudWatch without help", ""},
	{"alarm", "the alarm exhausted reaches the queue through the topic", ""},
	{"no-data", "the alarm no-data is OK after the first measurement", ""},
	{"metric-math", "the alarms running-out and table-throttled are evaluated", "alarms on metric math are never evaluated"},
	{"reaper", "a killed task's node ID is freed by the reaper's schedule without help, with its version kept", ""},
	{"grow", "an update of the stack grows the pool, and a task gets the new node ID", ""},
	{"freezes", "the clock of a frozen Lambda environment that advanced most shows each pause (an emulator freezes none)", ""},
	{"rename", "another pool name is refused by the bootstrap function, with the reason in the stack's events",
		"a failed update makes LocalStack forget the stack's resources, so it could not be deleted (localstack/test.sh changes shows the refusal)"},
	{"rollback", "the refused update is rolled back, and the old pool still works", "a failed update restores nothing"},
	{"release", "tasks that exit release their node IDs", ""},
	{"gone", "both stacks, the table and the bucket are deleted", ""},
}

func (r *run) record(name string, o outcome, detail string) {
	if _, known := r.results[name]; known {
		return // the first result counts
	}
	r.results[name] = result{o, strings.Join(strings.Fields(detail), " ")}
	fmt.Fprintf(r.out, "check: %s: %s: %s\n", name, o, r.results[name].detail)
}

// judge records a check as seen if err is nil, as not possible here if the run is on an emulator that is known not to show it, and
// otherwise as failed.
func (r *run) judge(name string, err error, seen string) {
	switch why := checkNamed(name).emulator; {
	case err == nil:
		r.record(name, seenCheck, seen)
	case r.account.emulator && why != "":
		r.record(name, notHere, why)
	default:
		r.record(name, failedCheck, err.Error())
	}
}

func checkNamed(name string) check {
	for _, c := range checks {
		if c.name == name {
			return c
		}
	}
	panic("no check is named " + name)
}

func (r *run) count(o outcome) (n int) {
	for _, c := range checks {
		if r.result(c.name).outcome == o {
			n++
		}
	}
	return n
}

// result returns the result of a check. A check that was never reached has failed.
func (r *run) result(name string) result {
	if got, ok := r.results[name]; ok {
		return got
	}
	return result{failedCheck, "not reached"}
}

// verifiedDir is the folder for reports about AWS. Reports about an emulator do not belong there.
const verifiedDir = "docs/verified"

func (r *run) writeReport(path string) (string, error) {
	if path == "" {
		path = filepath.Join(r.template.dir, "..", "..", verifiedDir, fmt.Sprintf("%s-%s.md", r.began.UTC().Format("2006-01-02"), r.account.region))
		if r.account.emulator {
			path = filepath.Join(r.template.dir, "..", "aws-verify", r.options.run+".md")
		}
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if r.account.emulator && strings.Contains(filepath.ToSlash(full), verifiedDir+"/") {
		return "", fmt.Errorf("the report of an emulator would be %s: %s is for AWS", path, verifiedDir)
	}
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		return "", err
	}
	return full, os.WriteFile(full, []byte(r.report()), 0o644)
}

func (r *run) report() string {
	var b strings.Builder
	where := "AWS"
	if r.account.emulator {
		where = "an emulator"
	}
	fmt.Fprintf(&b, "# Run on %s, %s\n\n", where, r.began.UTC().Format("2006-01-02"))
	fmt.Fprintf(&b, "| | |\n|---|---|\n| run | %s |\n| account | …%s |\n| Region | %s |\n| functions for | %s |\n| commit | %s |\n| began | %s |\n| took | %s |\n\n",
		r.options.run, r.account.id[max(0, len(r.account.id)-4):], r.account.region, r.arch, commit(), r.began.UTC().Format(time.RFC3339), r.now().Sub(r.began).Round(time.Second))
	fmt.Fprintf(&b, "%d checks seen, %d failed, %d not possible here.\n\n| check | shows | result | seen |\n|---|---|---|---|\n",
		r.count(seenCheck), r.count(failedCheck), r.count(notHere))
	for _, c := range checks {
		got := r.result(c.name)
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.name, c.what, got.outcome, strings.ReplaceAll(got.detail, "|", "¦"))
	}
	fmt.Fprintf(&b, "\nRequests of the tasks: %s.\n", r.calls())
	return b.String()
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// without returns all steps except those named in names, a list separated by commas.
func without(names string) (steps []step, err error) {
	skipped := map[string]bool{}
	for _, n := range strings.Split(names, ",") {
		if n != "" {
			skipped[n] = true
		}
	}
	all := make([]string, 0, len(allSteps))
	for _, s := range allSteps {
		all = append(all, s.name)
		if !skipped[s.name] {
			steps = append(steps, s)
		}
		delete(skipped, s.name)
	}
	for n := range skipped {
		err = errors.Join(err, fmt.Errorf("no step is named %q; the steps are: %s", n, strings.Join(all, ", ")))
	}
	return steps, err
}
