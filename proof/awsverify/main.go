// Command awsverify tries the product on AWS, in the account of anyone who runs it (make aws-verify). It prints the resources that it
// will create and their costs, and asks for confirmation. It then deploys the plain template as a throw-away stack, and makes the checks
// that cannot be made on a laptop: the bootstrap function's seed, a claim with the real task role, a killed task and the reaper's schedule,
// an alarm that reaches a queue, a refused rename and its roll-back. Then it deletes everything and writes a dated report. Each check ends
// as seen, failed or not possible here.
//
// Everything that awsverify creates belongs to two CloudFormation stacks, which get the tag nodelease-verify=RUN in the requests that create
// them. So a run that is interrupted at any time, even by SIGKILL, can be found again:
//
//	go run . -left         lists the runs of this account and Region that have left something behind
//	go run . -clean RUN    deletes what carries the tag of that run, and nothing else
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

type options struct {
	template string // the directory that make template wrote
	report   string
	arch     string
	run      string
	clean    string
	skip     string
	left     bool
	yes      bool
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == taskArgument {
		os.Exit(taskMain())
	}
	var o options
	flag.StringVar(&o.template, "template", "../../dist/template", "`directory` that make template wrote")
	flag.StringVar(&o.report, "report", "", "`file` for the report (docs/verified/DATE-REGION.md; on an emulator dist/aws-verify/RUN.md)")
	flag.StringVar(&o.arch, "arch", "", "`architecture` of the functions: arm64 or x86_64 (arm64; on an emulator this machine's)")
	flag.StringVar(&o.run, "run", "", "`name` of the run (the time)")
	flag.StringVar(&o.clean, "clean", "", "only delete what the `run` left behind")
	flag.StringVar(&o.skip, "skip", "", "comma-separated `steps` to skip; their checks are reported as failed")
	flag.BoolVar(&o.left, "left", false, "list the runs that left something behind")
	flag.BoolVar(&o.yes, "yes", false, "do not ask")
	flag.Parse()

	ctx, stop := untilInterrupted()
	defer stop()
	if err := verify(ctx, o, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "aws-verify:", err)
		os.Exit(1)
	}
}

func verify(ctx context.Context, o options, in io.Reader, out io.Writer) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: see -h", flag.Arg(0))
	}
	a, err := openAccount(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "account %s, Region %s, as %s%s\n", a.id, a.region, a.caller, a.emulatorNote())
	switch {
	case o.left:
		return a.printLeft(ctx, out)
	case o.clean != "":
		return a.clean(ctx, o.clean, out)
	}

	if o.run == "" {
		o.run = newRunName(time.Now())
	}
	if err := checkRunName(o.run); err != nil {
		return err
	}
	steps, err := without(o.skip)
	if err != nil {
		return err
	}
	t, err := readTemplate(o.template, o.run)
	if err != nil {
		return err
	}
	if left, err := a.stacks(ctx, o.run); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("the run %s has %d stacks already: clean it (-clean %s), or choose another name", o.run, len(left), o.run))
	}
	fmt.Fprint(out, t.plan(o.run))
	if !o.yes && !confirmed(ctx, in, out) {
		return errors.New("nothing was created")
	}
	fmt.Fprintf(out, "If this is interrupted: make aws-verify CLEAN=%s\n", o.run)

	r := newRun(a, t, o, out)
	failed := r.do(ctx, steps)
	r.takeAway(context.WithoutCancel(ctx)) // created resources are deleted whatever the checks find, even after an interrupt
	path, err := r.writeReport(o.report)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "report:", path)
	if n := r.count(failedCheck); n > 0 || failed != nil {
		return errors.Join(failed, fmt.Errorf("%d of %d checks failed: see %s", n, len(checks), path))
	}
	return nil
}

// untilInterrupted returns a context that ends at the first interrupt. That ends the checks and begins the deletion of everything that was
// created. The second interrupt also ends the deletion.
func untilInterrupted() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	came := make(chan os.Signal, 1)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-came:
		case <-ctx.Done():
		}
		// INVARIANT: when the deletion begins, the next interrupt ends the process as usual. A context of signal.NotifyContext would keep it.
		signal.Stop(came)
		cancel()
	}()
	return ctx, cancel
}

// confirmed asks for confirmation. Its answer is no if ctx ends first. Then a read of the answer continues in the background, since nothing can
// end it.
func confirmed(ctx context.Context, in io.Reader, out io.Writer) bool {
	fmt.Fprint(out, "Create this? Type yes: ")
	answered := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(in).ReadString('\n') // on an error, the answer is not "yes"
		answered <- answer
	}()
	select {
	case answer := <-answered:
		return ctx.Err() == nil && strings.TrimSpace(answer) == "yes"
	case <-ctx.Done(): // INVARIANT: an interrupt ends the question too
		return false
	}
}
