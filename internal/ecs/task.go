package ecs

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Task is ECS's metadata of a task; implausible values are left empty.
type Task struct {
	ARN           string
	Cluster, Zone string
	Clock         Clock
	// Doubt lists the implausible values; nil if there are none.
	Doubt error
}

// Clock is ECS's report on a machine's clock. Tasks on EC2 have no such report.
type Clock struct {
	// Error is how far off the clock may be, at most a day; 0 if not reported.
	Error time.Duration
	// Unsynchronized reports that the clock is not synchronized.
	Unsynchronized bool
	// Reference is the time by ECS's reference clock at the report, in ECS's format.
	Reference string
}

// mostError bounds a clock's error: a larger one makes no difference.
const mostError = 24 * time.Hour

// metadata is the part of a task's metadata, version 4, that is read.
// https://docs.aws.amazon.com/AmazonECS/latest/developerguide/task-metadata-endpoint-v4-fargate-response.html
type metadata struct {
	TaskARN, Cluster, AvailabilityZone string

	// ECS reports the clock for the task or for its containers.
	ClockDrift *drift
	Containers []struct{ ClockDrift *drift }
}

// drift is the report about the clock.
type drift struct {
	ClockErrorBound            float64 // ms
	ReferenceTimestamp         string
	ClockSynchronizationStatus string
}

var taskARN = regexp.MustCompile(`^arn:[a-z0-9-]{1,20}:ecs:[a-z0-9-]{1,32}:[0-9]{12}:task/[A-Za-z0-9_/-]{1,300}$`)

// task returns the plausible values and omits the others. Doubt describes an implausible
// ARN or clock report.
func (m metadata) task() (t Task) {
	if taskARN.MatchString(m.TaskARN) {
		t.ARN = m.TaskARN
	} else {
		t.Doubt = fmt.Errorf("TaskARN is %.80q, not a task's ARN", m.TaskARN)
	}
	if printable(m.Cluster, 300) {
		t.Cluster = m.Cluster
	}
	if printable(m.AvailabilityZone, 64) {
		t.Zone = m.AvailabilityZone
	}
	t.Doubt = errors.Join(t.Doubt, t.Clock.worst(m.ClockDrift))
	for _, c := range m.Containers {
		t.Doubt = errors.Join(t.Doubt, t.Clock.worst(c.ClockDrift))
	}
	return t
}

// worst takes over a report on the clock if it is worse than the previous ones, since
// all are about the same machine. The error describes an implausible report.
func (c *Clock) worst(d *drift) (doubt error) {
	if d == nil {
		return nil
	}
	if d.ClockErrorBound < 0 {
		doubt = fmt.Errorf("ClockErrorBound is %v ms", d.ClockErrorBound)
	}
	unsynchronized := d.ClockSynchronizationStatus == "NOT_SYNCHRONIZED"
	// Limited before the conversion, which is undefined for a float beyond int64.
	bound := time.Duration(min(d.ClockErrorBound, float64(mostError.Milliseconds())) * float64(time.Millisecond))
	if bound > c.Error || unsynchronized && !c.Unsynchronized {
		c.Error, c.Unsynchronized, c.Reference = max(bound, c.Error), unsynchronized || c.Unsynchronized, "nothing"
		if printable(d.ReferenceTimestamp, 64) {
			c.Reference = d.ReferenceTimestamp
		}
	}
	return doubt
}

// printable reports whether s is 1 to limit characters of printable ASCII: such
// text may go into an item and a log line unchanged.
func printable(s string, limit int) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return s != "" && len(s) <= limit
}
