package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// clocks contains the readings of one invocation of the function in the folder clocks.
type clocks struct {
	Environment string
	Begin, End  struct{ Boot, Monotonic, Wall int64 }
	sent, got   time.Duration // by the caller's clock
}

// pauses returns the lengths of the pauses between two invocations, during which AWS freezes
// the environment. An emulator freezes nothing, but a run on it shows that the measurement
// works.
func (r *run) pauses() []time.Duration {
	if r.account.emulator {
		return []time.Duration{time.Second, 2 * time.Second}
	}
	return []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute}
}

// mayMiss returns how much of a pause even the clock that shows most of the pause may miss:
// two clocks drift apart by less than a thousandth, and a correction changes a clock by less
// than 50 ms. An on-demand agent tolerates more: the guards of its lease, which are 3 s.
func mayMiss(pause time.Duration) time.Duration { return pause/1000 + 50*time.Millisecond }

// measureFreezes compares the lengths of pauses with the times that each clock of a Lambda
// environment shows for them. The agents of Lambda functions rely on the clock that shows
// the longest time: see docs/guarantees.md.
func (r *run) measureFreezes(ctx context.Context) error {
	var said []string
	for _, pause := range r.pauses() {
		before, after, err := r.pauseBetween(ctx, pause)
		if err == nil {
			var text string
			text, err = shown(before, after)
			said = append(said, text)
		}
		if err != nil {
			r.judge("freezes", err, "")
			return nil
		}
	}
	r.judge("freezes", nil, strings.Join(said, "; "))
	return nil
}

// shown returns a text that compares the times that the clocks of an environment show
// between two invocations with the time from the answer to the first invocation to the
// request for the second, which is the least time between them. It returns an error if no
// clock shows enough of that time.
func shown(before, after clocks) (string, error) {
	least := after.sent - before.got
	boot, mono, wall := time.Duration(after.Begin.Boot-before.End.Boot), time.Duration(after.Begin.Monotonic-before.End.Monotonic), time.Duration(after.Begin.Wall-before.End.Wall)
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	text := fmt.Sprintf("of at least %v the boot clock shows %v, the monotonic clock %v, the wall clock %v", ms(least), ms(boot), ms(mono), ms(wall))
	if most := max(boot, mono, wall); most < least-mayMiss(least) {
		return text, fmt.Errorf("%s: no clock shows the freeze: an on-demand lease could be trusted for too long", text)
	}
	return text, nil
}

// pauseBetween invokes the function twice in one environment.
func (r *run) pauseBetween(ctx context.Context, pause time.Duration) (before, after clocks, err error) {
	for range 3 { // AWS may use another environment after the pause
		if before, err = r.invokeClocks(ctx); err != nil {
			return before, after, err
		}
		select {
		case <-ctx.Done():
			return before, after, context.Cause(ctx)
		case <-time.After(pause):
		}
		if after, err = r.invokeClocks(ctx); err != nil || after.Environment == before.Environment {
			return before, after, err
		}
	}
	return before, after, fmt.Errorf("after a pause of %v the environment was another one, three times", pause)
}

func (r *run) invokeClocks(ctx context.Context) (c clocks, err error) {
	c.sent = time.Since(r.began)
	out, err := lambda.NewFromConfig(r.account.cfg).Invoke(ctx, &lambda.InvokeInput{FunctionName: aws.String(r.outputs[clocksFunction]), Payload: []byte("{}")})
	if err != nil {
		return c, err
	}
	c.got = time.Since(r.began)
	if out.FunctionError != nil {
		return c, fmt.Errorf("the function that reads clocks fails: %s", out.Payload)
	}
	return c, json.Unmarshal(out.Payload, &c)
}

// clocksZip is the key of the zip of the function clocks in the bucket.
const clocksZip = "clocks.zip"

// uploadClocks builds the function clocks for the architecture of the run, and uploads it.
func (r *run) uploadClocks(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "nodelease-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "bootstrap")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "lambda.norpc", "-o", file, "./clocks")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+map[string]string{"arm64": "arm64", "x86_64": "amd64"}[r.arch], "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./clocks: %w: %s", err, out)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate}
	header.SetMode(0o755) // Lambda executes the file
	entry, err := w.CreateHeader(header)
	if err == nil {
		_, err = entry.Write(program)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return err
	}
	_, err = r.account.s3.PutObject(ctx, &s3.PutObjectInput{Bucket: &r.bucket, Key: aws.String(clocksZip), Body: bytes.NewReader(packed.Bytes())})
	return err
}
