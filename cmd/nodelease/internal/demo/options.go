package demo

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Options configure a demo. Begin with Defaults, because zero values are refused, not filled in.
type Options struct {
	Tasks    int           // size of the fleet: processes at a time, 1 to 200
	Size     int           // size of the pool, 1 to 1024
	Duration time.Duration // how long the fleet runs, at least 3 s
	TTL      time.Duration // length of the leases, 1 s to 24 h
	Wait     time.Duration // how long a task waits for a free node ID; 0 = not at all
	Outage   bool          // kill the DynamoDB process for longer than a short lease, and start it again; leases grow
	Page     bool          // show the pool on a page, too
	Seed     uint64        // the seed of the plan
	Port     int           // port of the DynamoDB process; 0 = a free port
	Table    string        // name of the table in that process
	Pool     string
}

// Defaults returns the options for a first run. The caller chooses the seed.
func Defaults() Options {
	return Options{
		Tasks: 8, Size: 12, Duration: 25 * time.Second, TTL: 3 * time.Second, Wait: time.Hour,
		Table: "demo", Pool: "demo",
	}
}

// OutageDefaults returns the options for a demo with an outage. It lasts long enough for
// leases to grow before the outage, and its pool has room for that.
func OutageDefaults() Options {
	o := Defaults()
	o.Outage, o.Size, o.Duration, o.TTL = true, 32, time.Minute, 2*time.Second
	return o
}

// Validate reports all invalid options at once.
func (o Options) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Tasks < 1 || o.Tasks > 200 {
		bad("--tasks %d: use 1 to 200; each is a process", o.Tasks)
	}
	if o.Size < 1 || o.Size > 1024 {
		bad("--size %d: use 1 to 1024, as many node IDs as fit the default ID layout", o.Size)
	}
	if o.Duration < 3*time.Second || o.Duration > 24*time.Hour {
		bad("--duration %v: use 3s to 24h", o.Duration)
	}
	if o.TTL < time.Second || o.TTL > 24*time.Hour || o.TTL%time.Millisecond != 0 {
		bad("--ttl %v: use 1s to 24h, in whole milliseconds", o.TTL)
	} else if o.Outage && o.outage() > o.Duration/2 {
		bad("--outage lasts longer than a lease of %v and does not fit into %v: use --duration %v or more, or a shorter --ttl", o.TTL, o.Duration, 2*o.outage())
	}
	if o.Wait < 0 {
		bad("--wait %v: use 0 or more", o.Wait)
	}
	if o.Port < 0 || o.Port > math.MaxUint16 {
		bad("--port %d: use 1 to 65535, or 0 for a free port", o.Port)
	}
	return errors.Join(errs...)
}

// The guards are an agent's defaults. They are set here because an agent with a TTL below
// 5 s requires them. Such short guards suffice on one machine, where only the clocks that
// the demo moves differ.
func (o Options) guard() time.Duration { return min(2*time.Second, o.TTL/5).Truncate(time.Millisecond) }
func (o Options) claimGuard() time.Duration {
	return min(time.Second, o.TTL/10).Truncate(time.Millisecond)
}

// skew is the largest clock error with which a task is allowed to start.
func (o Options) skew() time.Duration { return (o.guard() + o.claimGuard()) / 2 }

// reapAfter is how long the demo's reaper waits before it frees an expired lease. It is
// short, so that the reaper's work can be seen within the demo.
const reapAfter = time.Second

// outage returns how long the DynamoDB process stays dead: until every short lease has
// expired, and long enough to see which tasks continue without DynamoDB.
func (o Options) outage() time.Duration { return max(o.TTL+o.claimGuard()+time.Second, o.Duration/10) }

// grownTTL is the longest lease if leases grow: the default of an agent.
const grownTTL = 15 * time.Minute

// maxTTL returns how long leases may become. With --outage they grow, to show which tasks
// outlast the outage. Otherwise they stay short, so that the node ID of a task that was
// frozen or killed is soon claimed by another task.
func (o Options) maxTTL() time.Duration {
	if o.Outage {
		return max(o.TTL, grownTTL)
	}
	return o.TTL
}

// member reports whether the task of a slot takes part in the fleet's cluster, which keeps
// its lease short. If leases grow, only every fourth task takes part.
func (o Options) member(slot int) bool { return !o.Outage || slot%4 == 3 }

// comeBack returns how long the demo waits, on a slow machine, for tasks to resume before
// it continues without them.
func (o Options) comeBack() time.Duration { return 5 * o.TTL }
