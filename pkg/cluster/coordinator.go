package cluster

import (
	"context"
	"time"
)

// Coordinator is a backend: where heartbeats are recorded. There are [Table],
// [Memory] and pgcoordinator's; all pass clustertest.Conformance. A node ID has
// one record: a newer session of it replaces the older one. It is safe for
// concurrent use.
type Coordinator interface {
	// Heartbeat records that a session is alive and gives the sessions whose last
	// heartbeat is inside the time-out, as seen with it, in any order.
	Heartbeat(ctx context.Context, b Beat) ([]Member, error)
	// Expire forgets what has had no heartbeat for longer than age. Membership
	// never needs it; records of nodes that do not come back do.
	Expire(ctx context.Context, cluster string, age time.Duration) error
	// Publish replaces the versions that a member knows.
	Publish(ctx context.Context, m Member, known Versions) error
	// Known gives what each member published last, by Member.Key.
	Known(ctx context.Context, cluster string) (map[string]Versions, error)
}

// Beat is one heartbeat.
type Beat struct {
	// Self is who is alive. Its Heartbeat is the backend's to say, and so is its
	// Version without a lease.
	Self Member
	// Timeout is how old a heartbeat may be.
	Timeout time.Duration
	// Oldest says that Self has the lowest session that it saw last: the one that
	// looks on behalf of all, where a backend has use for that.
	Oldest bool
}

// Versions tells, by Member.Key, which version of each member someone knows.
type Versions map[string]int64
