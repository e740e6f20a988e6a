package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/ecs"
	"github.com/nodelease/nodelease/internal/protocol"
)

// owner describes where this process runs, as far as the platform reveals it.
type owner struct {
	name    string      // ECS task ARN, or host and pid outside ECS
	task    ecs.Task    // empty outside ECS
	warning error       // why some facts are missing; nil if all are known
	facts   [][2]string // for the metadata; the user has set no entries of these names
}

// metadataLimit is how long all requests to ECS together may take. A start does not wait
// longer, since the answers only improve the logs and help to detect a wrong clock
// earlier.
const metadataLimit = 2 * time.Second

// hostName matches names that can be written to an item and a log line unchanged.
var hostName = regexp.MustCompile(`^[ -~]{1,128}$`)

// errSleeps is the warning of an agent that renews on a schedule, in a process that the
// platform freezes.
var errSleeps = errors.New("lease: this is an AWS Lambda function, which is frozen between invocations and cannot renew on a schedule: use leaselambda.Wrap, whose agent renews when it is used")

// identify finds out where the process runs. It never fails and never takes longer than
// metadataLimit. If ECS does not answer, it falls back to host and pid, and returns a
// warning.
//
// In AWS Lambda it also returns a warning. Lambda freezes a process between its uses, so
// the process cannot renew on a schedule: its lease would be suspended at each freeze,
// and its node ID soon taken by others. OnDemand renews when it is used.
func identify(ctx context.Context) owner {
	host, err := os.Hostname()
	if err != nil || !hostName.MatchString(host) {
		host = "unknown-host"
	}
	o := owner{name: fmt.Sprintf("%s/%d", host, os.Getpid())}
	if function := os.Getenv("AWS_LAMBDA_FUNCTION_NAME"); function != "" {
		o.warning = errSleeps
		if name := "lambda:" + function + "/" + os.Getenv("AWS_LAMBDA_LOG_STREAM_NAME"); hostName.MatchString(name) {
			o.name = name
		}
	}
	if !ecs.Here() {
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, metadataLimit)
	defer cancel()
	task, err := ecs.Ask(ctx)
	for n := 0; err != nil && n < 2 && protocol.Pause(ctx, protocol.Backoff(n)) == nil; n++ {
		task, err = ecs.Ask(ctx)
	}
	if err == nil {
		o.task, err = task, task.Doubt
	}
	if o.task.ARN != "" {
		o.name = o.task.ARN
	}
	if err != nil {
		o.warning = errors.Join(o.warning, fmt.Errorf("lease: ECS task metadata (%s): %w; the lease goes by %q", ecs.Variable, err, o.name))
	}
	return o
}

// introduce returns c with facts about the process added to its metadata, as far as they
// fit, and keeps those facts in o. If c has no Task, introduce also sets Task to the name of
// this process.
func (o *owner) introduce(c Config) Config {
	o.facts = [][2]string{{MetadataLibrary, release()}}
	if c.Task == "" {
		c.Task = o.name
		o.facts = [][2]string{{"zone", o.task.Zone}, {"cluster", o.task.Cluster}, o.facts[0]}
	}
	o.facts = slices.DeleteFunc(o.facts, func(fact [2]string) bool {
		_, given := c.Metadata[fact[0]]
		return given
	})
	c.Metadata = withFacts(c.Metadata, maxText-c.text(), o.facts)
	return c
}

// checkClock returns an error if ECS reports that the clock is off by more than limit.
func (o owner) checkClock(now time.Time, limit time.Duration) error {
	switch clock := o.task.Clock; {
	case clock.Unsynchronized:
		return fmt.Errorf("%w: ECS says that this machine's clock is not synchronized; it says %s, ECS's reference said %s: let ECS place the task elsewhere",
			ErrClockSkew, protocol.Stamp(now), clock.Reference)
	case clock.Error > limit:
		return fmt.Errorf("%w: ECS says that this machine's clock may be off by %v; it says %s, ECS's reference said %s; tolerated are %v: let ECS place the task elsewhere, or set longer guards",
			ErrClockSkew, clock.Error, protocol.Stamp(now), clock.Reference, limit)
	}
	return nil
}

// askEvery is the time between two requests to ECS for the clock's error.
const askEvery = 10 * time.Minute

// ecsWord is ECS's last report about the clock, and the time of that report.
type ecsWord struct {
	clockError time.Duration
	at         time.Duration // monotonic
}

// askECSAgain updates the bound on the clock's error that events contain, and emits a
// warning if the error exceeds what the guards tolerate. It does not end the lease: other
// agents have guards too, and IDs stay unique. The request runs in the background, so
// that waiting for ECS does not delay a renewal.
func (a *Agent) askECSAgain(ctx context.Context) {
	if !ecs.Here() {
		return
	}
	now := a.clock.Monotonic()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing || now-a.ecs.at < askEvery {
		return
	}
	a.ecs.at = now
	a.background.Go(func() {
		me := identify(ctx)
		if me.warning != nil || ctx.Err() != nil {
			return // keep the last report
		}
		a.mu.Lock()
		a.ecs.clockError = me.task.Clock.Error
		a.mu.Unlock()
		if err := me.checkClock(a.clock.Wall(), a.cfg.timings().MaxSkew()); err != nil {
			a.emitNow(Event{Kind: EventWarning, Lease: a.lease(), Err: err})
		}
	})
}

// MetadataLibrary is the name of the metadata entry for the release of this module that
// the agent's program was built with. The agent adds the entry if there is room. It shows
// operators whether a fleet runs different releases.
const MetadataLibrary = "lib"

// module is the path under which a program's build information lists this module.
const module = "github.com/nodelease/nodelease"

// release returns the version of this module in this program, or "" if the version is
// unknown. The version of a development build is also treated as unknown, since it is the
// same in different builds.
var release = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "(devel)" {
			return m.Version
		}
	}
	return ""
})
