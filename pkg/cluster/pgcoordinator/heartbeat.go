package pgcoordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/nodelease/nodelease/pkg/cluster"
)

// view is the data that a member has read so far. A heartbeat updates it with two
// ranges of rows:
//
//   - Rows that may have changed since the previous heartbeat. Their revision, which is
//     the number of the transaction that changed them, is not below the oldest
//     transaction that was still open at the previous heartbeat. It would not be enough
//     to read only the rows above the highest revision that was read before, since a
//     transaction with a lower number may commit later.
//   - Rows whose heartbeat has become older than the time-out since the previous one.
//
// All rows are read at the first heartbeat, when the time-out has changed, when no
// heartbeat has succeeded for a time-out (rows may have been deleted since), when another
// server answers or transaction numbers have become lower, and every ten minutes.
type view struct {
	reading chan struct{} // has room for one heartbeat at a time
	timeout time.Duration
	session string    // the last session that was recorded
	server  time.Time // when the server was started that answered the last heartbeat
	cursor  int64     // the oldest open transaction
	silent  time.Time // heartbeats before this time were too old, by the server's clock
	read    time.Time // when all rows were read
	now     time.Time // the server's clock at the last heartbeat; zero if unknown
	heard   time.Time // when the answer to that heartbeat came, by this process's clock
	alive   map[string]cluster.Member
	members []cluster.Member // alive, in the order of their sessions; never modified
}

// readAll is the time after which all rows are read again, in case someone edited a row
// by hand without setting its revision.
const readAll = 10 * time.Minute

// heartbeat is the statement of a heartbeat. The member's own row comes from the first
// part, which writes it, because the other parts see the table as it was before the
// write. A session that replaces another one gets the next version, unless it has a
// lease, which provides the version. If a session was silent for longer than the
// time-out, or has an older lease, it is not recorded again, and its own row is missing
// from the answer. A heartbeat that arrives after its sender has given up waiting for it
// is not recorded either: since then, the sender may have begun another session, and
// others may have dropped this one.
//
// Invariant (liveness): the row of a newer lease no longer keeps an older lease out once the row
// has had no heartbeat for MaxClockBack. In a pool that was seeded again, all versions are older.
//
// Invariant: the cursor of one server counts on no other one. A standby that replaces its
// server may lack the last transactions, and gives their numbers to others.
//
// Each part reads a range of an index. If since is 0, all live members are read.
const heartbeat = `
WITH beat AS (
	INSERT INTO nodelease_members AS m (cluster, key, name, node_id, session_id, version, heartbeat, metadata, revision)
	VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp(), $7, txid_current())
	ON CONFLICT (cluster, key) DO UPDATE SET
		name = excluded.name, node_id = excluded.node_id, session_id = excluded.session_id,
		heartbeat = excluded.heartbeat, metadata = excluded.metadata,
		version = CASE
			WHEN excluded.node_id >= 0 THEN excluded.version
			WHEN m.session_id = excluded.session_id THEN m.version
			ELSE m.version + 1
		END,
		revision = CASE
			WHEN (m.name, m.node_id, m.session_id, m.metadata) = (excluded.name, excluded.node_id, excluded.session_id, excluded.metadata)
				AND (excluded.node_id < 0 OR m.version = excluded.version)
				AND m.heartbeat > excluded.heartbeat - $8::interval / 2 -- nobody with half of the time-out has seen it fall silent
			THEN m.revision
			ELSE excluded.revision
		END
	WHERE NOT (m.session_id = excluded.session_id AND m.heartbeat < clock_timestamp() - $8::interval)
		AND NOT (excluded.node_id >= 0 AND excluded.version < m.version AND m.heartbeat >= clock_timestamp() - GREATEST($8::interval, $12::interval))
		AND ($11::timestamptz IS NULL OR clock_timestamp() <= $11)
	RETURNING m.key, m.name, m.node_id, m.session_id, m.version, m.metadata
), now AS MATERIALIZED (
	SELECT horizon, cursor, CASE WHEN $13 = pg_postmaster_start_time() AND $9 <= cursor AND $10 > horizon - $8::interval THEN $9 ELSE 0 END AS since FROM (
		SELECT clock_timestamp() - $8::interval AS horizon, txid_snapshot_xmin(txid_current_snapshot()) AS cursor
	) AS now
)
SELECT key, name, node_id, session_id, version, metadata, true, horizon, cursor, since, pg_postmaster_start_time() FROM beat, now
UNION ALL
SELECT key, name, node_id, session_id, version, metadata, m.heartbeat >= (SELECT horizon FROM now), NULL, 0, 0, NULL FROM nodelease_members AS m
WHERE cluster = $1 AND key <> $2 AND revision >= (SELECT since FROM now)
	AND ((SELECT since FROM now) > 0 OR m.heartbeat >= (SELECT horizon FROM now))
UNION ALL
SELECT key, '', 0, '', 0, NULL, false, NULL, 0, 0, NULL FROM nodelease_members AS m
WHERE cluster = $1 AND key <> $2 AND m.heartbeat >= $10 AND m.heartbeat < (SELECT horizon FROM now) AND (SELECT since FROM now) > 0`

// Heartbeat implements [cluster.Coordinator]. The Heartbeat of all members is a lower
// bound: the server's time minus the time-out.
func (c *Coordinator) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	if err := c.usable(ctx); err != nil {
		return cluster.Snapshot{}, err
	}
	v := c.viewOf(b.Self)
	select { // not a lock: the other heartbeat may hang for longer than ctx
	case v.reading <- struct{}{}:
		defer func() { <-v.reading }()
	case <-ctx.Done():
		return cluster.Snapshot{}, failed(ctx, "heartbeat", context.Cause(ctx))
	}
	return v.heartbeat(ctx, c.db, b)
}

// viewOf returns a member's view. A process has few members, so views are never removed.
func (c *Coordinator) viewOf(m cluster.Member) *view {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := m.Cluster + "#" + m.Key()
	if c.views[key] == nil {
		c.views[key] = &view{reading: make(chan struct{}, 1)}
	}
	return c.views[key]
}

// heartbeat sends a heartbeat, and the first heartbeat of a session twice.
//
// Invariant: a session is recorded before it reads the others. The statement that records it
// sees the table as it was before. So of two sessions that begin at once, one sees the other.
func (v *view) heartbeat(ctx context.Context, db DB, b cluster.Beat) (cluster.Snapshot, error) {
	snap, err := v.beat(ctx, db, b)
	if err == nil && v.session != b.Self.SessionID {
		v.session = b.Self.SessionID
		snap, err = v.beat(ctx, db, b)
	}
	return snap, err
}

// beat sends one statement, and returns its answer.
func (v *view) beat(ctx context.Context, db DB, b cluster.Beat) (cluster.Snapshot, error) {
	m := b.Self
	if m.NodeID == cluster.NoNodeID {
		m.Version = 1
	}
	if m.Metadata == nil {
		m.Metadata = map[string]string{}
	}
	if v.alive == nil || v.timeout != b.Timeout || time.Since(v.read) > readAll {
		v.cursor, v.timeout = 0, b.Timeout
	}
	known := !v.now.IsZero()
	changes, own, err := v.ask(ctx, db, m)
	if err == nil && own < 0 && known {
		v.now = time.Time{} // one of the clocks may have been set, or stood still
		changes, own, err = v.ask(ctx, db, m)
	}
	if err != nil {
		return cluster.Snapshot{}, failed(ctx, "heartbeat", err)
	}
	if own < 0 {
		return cluster.Snapshot{}, fmt.Errorf("pgcoordinator: %w: %q was silent for longer than %v, or its lease is older than the one recorded", cluster.ErrDropped, m.Name, b.Timeout)
	}
	v.take(changes, changes[own].since == 0)
	v.cursor, v.silent, v.server = changes[own].cursor, *changes[own].horizon, *changes[own].server
	v.now, v.heard = v.silent.Add(b.Timeout), time.Now()
	return cluster.Snapshot{Members: v.members, Heard: v.silent}, nil
}

// late returns the time by the server's clock, or an earlier time, at which ctx ends. It
// returns nil if ctx does not end.
//
// Invariant: no heartbeat is sent without the time at which its sender gives up, not even the
// first one of a process. So the server's clock is read first if it is unknown.
func (v *view) late(ctx context.Context, db DB) (*time.Time, error) {
	ends, ok := ctx.Deadline()
	if !ok {
		return nil, nil
	}
	if v.now.IsZero() {
		rows, err := db.Query(ctx, "SELECT clock_timestamp()")
		if err != nil {
			return nil, err
		}
		if v.now, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[time.Time]); err != nil {
			return nil, err
		}
		v.heard = time.Now()
	}
	at := v.now.Add(ends.Sub(v.heard))
	return &at, nil
}

// ask sends the statement. own is the index of the member's own row, or negative if the
// answer does not contain it.
func (v *view) ask(ctx context.Context, db DB, m cluster.Member) (changes []change, own int, err error) {
	late, err := v.late(ctx, db)
	if err != nil {
		return nil, -1, err
	}
	rows, err := db.Query(ctx, heartbeat, m.Cluster, m.Key(), m.Name, m.NodeID, m.SessionID, m.Version, m.Metadata, v.timeout, v.cursor, v.silent, late, cluster.MaxClockBack, v.server)
	if err != nil {
		return nil, -1, err
	}
	changes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (change, error) {
		o, metadata := change{Member: cluster.Member{Cluster: m.Cluster}}, []byte(nil)
		err := row.Scan(&o.key, &o.Name, &o.NodeID, &o.SessionID, &o.Version, &metadata, &o.alive, &o.horizon, &o.cursor, &o.since, &o.server)
		// Invariant (liveness): no heartbeat fails because of a row with metadata that no node
		// writes. The row is left out.
		o.alive = o.alive && json.Unmarshal(metadata, &o.Metadata) == nil
		return o, err
	})
	return changes, slices.IndexFunc(changes, func(o change) bool { return o.horizon != nil }), err
}

// change is a row of the answer.
type change struct {
	cluster.Member
	key           string
	alive         bool
	horizon       *time.Time // only in the member's own row, like server
	cursor, since int64
	server        *time.Time
}

// take updates the view. If nothing has changed, members stays the same slice, which shows
// the node that it can keep its state.
func (v *view) take(changes []change, all bool) {
	changed := all
	if all {
		v.alive, v.read = map[string]cluster.Member{}, time.Now()
	}
	for _, o := range changes {
		before, was := v.alive[o.key]
		// Invariant: a row that no node writes is no member. One without a session would lead.
		if o.alive = o.alive && o.Validate() == nil; o.alive {
			v.alive[o.key] = o.Member
		} else {
			delete(v.alive, o.key)
		}
		changed = changed || was != o.alive || o.alive && !equal(before, o.Member)
	}
	if changed {
		v.members = slices.SortedFunc(maps.Values(v.alive), func(a, b cluster.Member) int { return cmp.Compare(a.SessionID, b.SessionID) })
	}
}

func equal(a, b cluster.Member) bool {
	return a.Same(b) && a.Name == b.Name && a.NodeID == b.NodeID && a.Version == b.Version && maps.Equal(a.Metadata, b.Metadata)
}
