package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// owner is where this process runs, as far as the platform tells.
type owner struct {
	task          string        // ECS task ARN; elsewhere host and pid
	cluster, zone string        // of an ECS task, where known
	clockError    time.Duration // how far off ECS says the clock may be; 0 = it does not say
	clockUnsynced bool          // ECS says that the clock is not synchronized
	clockAt       string        // the reference clock's time of that statement
	warning       error         // why less is known than could be; nil if all is well
}

// metadataLimit bounds the questions to the metadata endpoint: it only makes
// logs nicer and the clock's check earlier, so no start waits long for it.
const metadataLimit = 2 * time.Second

// identify finds out where the process runs. It never fails and never takes
// longer than metadataLimit: what cannot be found out is left to host and pid,
// with a warning.
//
// A host that freezes the process between its uses (AWS Lambda) must not hold a
// lease: it is suspended at each freeze and soon someone else's.
func identify(ctx context.Context) owner {
	host, err := os.Hostname()
	if err != nil || !printable(host, 128) {
		host = "unknown-host"
	}
	o := owner{task: fmt.Sprintf("%s/%d", host, os.Getpid())}
	if os.Getenv("AWS_LAMBDA_FUNCTION_NAME") != "" {
		o.warning = errors.New("lease: this is an AWS Lambda function, which is frozen between invocations and cannot keep a lease: hold it in a process that runs on, and ask that one for IDs")
	}
	base := os.Getenv("ECS_CONTAINER_METADATA_URI_V4")
	if base == "" {
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, metadataLimit)
	defer cancel()
	m, err := askECS(ctx, base)
	for n := 0; err != nil && n < 2 && protocol.Pause(ctx, protocol.Backoff(n)) == nil; n++ {
		m, err = askECS(ctx, base)
	}
	if err == nil {
		err = m.describe(&o)
	}
	if err != nil {
		o.warning = errors.Join(o.warning, fmt.Errorf("lease: ECS task metadata (ECS_CONTAINER_METADATA_URI_V4): %w; the lease goes by %q", err, o.task))
	}
	return o
}

// checkClock refuses a clock that by ECS's word is off by more than limit.
func (o owner) checkClock(now time.Time, limit time.Duration) error {
	switch {
	case o.clockUnsynced:
		return fmt.Errorf("%w: ECS says that this machine's clock is not synchronized; it says %s, ECS's reference said %s: let ECS place the task elsewhere",
			ErrClockSkew, protocol.Stamp(now), o.clockAt)
	case o.clockError > limit:
		return fmt.Errorf("%w: ECS says that this machine's clock may be off by %v; it says %s, ECS's reference said %s; tolerated are %v: let ECS place the task elsewhere, or set longer guards",
			ErrClockSkew, o.clockError, protocol.Stamp(now), o.clockAt, limit)
	}
	return nil
}

// askEvery is how often ECS is asked again how good the clock is.
const askEvery = 10 * time.Minute

// ecsWord is what ECS said last of the clock, and when.
type ecsWord struct {
	clockError time.Duration
	at         time.Duration // monotonic
}

func (w *ecsWord) took(o owner, at time.Duration) { w.clockError, w.at = o.clockError, at }

// askECSAgain keeps the clock's error bound in the events true, and warns of a
// clock that has become worse than the guards tolerate. It ends no lease: others
// have the guards too, and IDs stay unique. The answer is waited for apart from
// the loop, since it must delay no renewal.
func (a *Agent) askECSAgain(ctx context.Context) {
	if os.Getenv("ECS_CONTAINER_METADATA_URI_V4") == "" {
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
			return // what was said before stands
		}
		a.mu.Lock()
		a.ecs.took(me, now)
		a.mu.Unlock()
		if err := me.checkClock(a.clock.Wall(), a.cfg.maxSkew()); err != nil {
			a.emit(a.asOfNow(Event{Kind: EventWarning, Lease: a.lease(), Err: err}))
		}
	})
}

// addTo adds cluster and zone to a lease's metadata where there is room for
// them, in bytes, and the user did not give them.
func (o owner) addTo(metadata map[string]string, room int) map[string]string {
	out := maps.Clone(metadata)
	for _, kv := range [][2]string{{"zone", o.zone}, {"cluster", o.cluster}} {
		size := len(kv[0]) + len(kv[1])
		if _, given := out[kv[0]]; given || kv[1] == "" || size > room {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[kv[0]] = kv[1]
		room -= size
	}
	return out
}

// ecsMetadata is the part that is read of a task's metadata, version 4.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-fargate-response.html
type ecsMetadata struct {
	TaskARN, Cluster, AvailabilityZone string

	ClockDrift *ecsClock
	Containers []struct{ ClockDrift *ecsClock }
}

// ecsClock is what ECS knows of the clock; it stands at the task or at the
// containers, and nowhere on EC2.
type ecsClock struct {
	ClockErrorBound            float64 // ms
	ReferenceTimestamp         string
	ClockSynchronizationStatus string
}

var taskARN = regexp.MustCompile(`^arn:[a-z0-9-]{1,20}:ecs:[a-z0-9-]{1,32}:[0-9]{12}:task/[A-Za-z0-9_/-]{1,300}$`)

// describe takes over what is plausible, and tells what is not.
func (m ecsMetadata) describe(o *owner) (err error) {
	if taskARN.MatchString(m.TaskARN) {
		o.task = m.TaskARN
	} else {
		err = fmt.Errorf("TaskARN is %.80q, not a task's ARN", m.TaskARN)
	}
	if printable(m.Cluster, 300) {
		o.cluster = m.Cluster
	}
	if printable(m.AvailabilityZone, 64) {
		o.zone = m.AvailabilityZone
	}
	clocks := []*ecsClock{m.ClockDrift}
	for _, c := range m.Containers {
		clocks = append(clocks, c.ClockDrift)
	}
	for _, c := range clocks { // all of one machine: the worst word counts
		if c == nil {
			continue
		}
		if c.ClockErrorBound < 0 {
			err = errors.Join(err, fmt.Errorf("ClockErrorBound is %v ms", c.ClockErrorBound))
		}
		unsynced := c.ClockSynchronizationStatus == "NOT_SYNCHRONIZED"
		// Cut before the conversion: a float beyond int64 has no defined Duration.
		bound := time.Duration(min(c.ClockErrorBound, float64(protocol.MaxTTL.Milliseconds())) * float64(time.Millisecond))
		if bound > o.clockError || unsynced && !o.clockUnsynced {
			o.clockError, o.clockUnsynced, o.clockAt = max(bound, o.clockError), unsynced || o.clockUnsynced, "nothing"
			if printable(c.ReferenceTimestamp, 64) {
				o.clockAt = c.ReferenceTimestamp
			}
		}
	}
	return err
}

// askECS reads the task's metadata once. Only an address on this machine or its
// link is asked, directly and without following it elsewhere: whoever can set
// an environment variable must not be able to send requests through us.
func askECS(ctx context.Context, base string) (m ecsMetadata, err error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" {
		return m, fmt.Errorf("%.80q is not an http URL", base)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil || !ip.Unmap().IsLoopback() && !ip.Unmap().IsLinkLocalUnicast() {
		return m, fmt.Errorf("%.80q is not a link-local or loopback address", u.Host)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("task").String(), nil)
	if err != nil {
		return m, err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}, // and no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	if err != nil {
		return m, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return m, fmt.Errorf("the answer is %s", res.Status)
	}
	const most = 1 << 20 // a task of ten containers has about 20 KB
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err != nil {
		return m, err
	}
	if len(body) > most {
		return m, fmt.Errorf("the answer is longer than %d bytes", most)
	}
	return m, json.Unmarshal(body, &m)
}

// printable reports whether s is 1 to limit characters of printable ASCII: what
// may go into an item and a log line unchanged.
func printable(s string, limit int) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return s != "" && len(s) <= limit
}
