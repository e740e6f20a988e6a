// Package pgcoordinator keeps a cluster's heartbeats in PostgreSQL, for those who
// have one and no lease table, or who want the server's clock to decide: all times
// are compared by it, and no machine's clock matters.
//
// A heartbeat is one statement, which records it and reads the members. Members
// may have leases all the same; the heartbeat is then a write beside the renewal.
package pgcoordinator

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nodelease/nodelease/pkg/cluster"
)

// DB is what the coordinator needs of a *pgxpool.Pool.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Coordinator is a [cluster.Coordinator] on PostgreSQL 12 or newer.
type Coordinator struct{ db DB }

var _ cluster.Coordinator = (*Coordinator)(nil)

// Schema makes the two tables that a coordinator needs, where they are not there.
// They go into the first schema of the connection's search path. A whole fleet may
// run it at once, in one Exec without arguments: they take turns.
//
// Every heartbeat is an update of its row in place, for which half of each page is
// left free.
const Schema = `
SELECT pg_advisory_xact_lock(5278920123347); -- for the rest of this one transaction
CREATE TABLE IF NOT EXISTS nodelease_members (
	cluster    text        NOT NULL,
	key        text        NOT NULL, -- cluster.Member.Key
	name    text        NOT NULL,
	node_id     integer     NOT NULL,
	session_id text        NOT NULL,
	version    bigint      NOT NULL,
	heartbeat  timestamptz NOT NULL,
	metadata   jsonb       NOT NULL,
	PRIMARY KEY (cluster, key)
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS nodelease_known (
	cluster      text        NOT NULL,
	key          text        NOT NULL,
	version      bigint      NOT NULL, -- of the member that published it
	revision     bigint      NOT NULL,
	published_at timestamptz NOT NULL,
	known        jsonb       NOT NULL,
	PRIMARY KEY (cluster, key)
);`

// New uses a pool, or any other connection that may be used concurrently, in which
// someone has run Schema.
func New(db DB) *Coordinator { return &Coordinator{db: db} }

// The statement's own row comes from the first part, since the second sees the
// table as it was before. A session that replaces another one has the next version,
// unless a lease gives it. A session that was silent for longer than the time-out
// is not recorded again, and neither is an older lease: then no own row comes back.
const heartbeat = `
WITH beat AS (
	INSERT INTO nodelease_members AS m (cluster, key, name, node_id, session_id, version, heartbeat, metadata)
	VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp(), $7)
	ON CONFLICT (cluster, key) DO UPDATE SET
		name = excluded.name, node_id = excluded.node_id, session_id = excluded.session_id,
		heartbeat = excluded.heartbeat, metadata = excluded.metadata,
		version = CASE
			WHEN excluded.node_id >= 0 THEN excluded.version
			WHEN m.session_id = excluded.session_id THEN m.version
			ELSE m.version + 1
		END
	WHERE NOT (m.session_id = excluded.session_id AND m.heartbeat < clock_timestamp() - $8::interval)
		AND NOT (excluded.node_id >= 0 AND excluded.version < m.version)
	RETURNING m.name, m.node_id, m.session_id, m.version, m.heartbeat, m.metadata
)
SELECT * FROM beat
UNION ALL
SELECT name, node_id, session_id, version, heartbeat, metadata FROM nodelease_members
WHERE cluster = $1 AND key <> $2 AND heartbeat >= clock_timestamp() - $8::interval`

// Heartbeat implements [cluster.Coordinator].
func (c *Coordinator) Heartbeat(ctx context.Context, b cluster.Beat) (cluster.Snapshot, error) {
	m := b.Self
	if m.NodeID == cluster.NoNodeID {
		m.Version = 1
	}
	if m.Metadata == nil {
		m.Metadata = map[string]string{}
	}
	rows, err := c.db.Query(ctx, heartbeat, m.Cluster, m.Key(), m.Name, m.NodeID, m.SessionID, m.Version, m.Metadata, b.Timeout)
	if err != nil {
		return cluster.Snapshot{}, fmt.Errorf("pgcoordinator: heartbeat: %w", err)
	}
	members, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (cluster.Member, error) {
		o := cluster.Member{Cluster: m.Cluster}
		err := row.Scan(&o.Name, &o.NodeID, &o.SessionID, &o.Version, &o.Heartbeat, &o.Metadata)
		return o, err
	})
	if err != nil {
		return cluster.Snapshot{}, fmt.Errorf("pgcoordinator: heartbeat: %w", err)
	}
	if !slices.ContainsFunc(members, m.Same) {
		return cluster.Snapshot{}, fmt.Errorf("pgcoordinator: %w: %q was silent for longer than %v, or its lease is older than the one recorded", cluster.ErrDropped, m.Name, b.Timeout)
	}
	return cluster.Snapshot{Members: members}, nil
}

// Expire implements [cluster.Coordinator].
func (c *Coordinator) Expire(ctx context.Context, clusterName string, age time.Duration) error {
	const sql = `
WITH gone AS (
	DELETE FROM nodelease_members WHERE cluster = $1 AND heartbeat < clock_timestamp() - $2::interval RETURNING key
)
DELETE FROM nodelease_known WHERE cluster = $1 AND key IN (SELECT key FROM gone)`
	if _, err := c.db.Exec(ctx, sql, clusterName, age); err != nil {
		return fmt.Errorf("pgcoordinator: expire: %w", err)
	}
	return nil
}

// Publish implements [cluster.Coordinator].
func (c *Coordinator) Publish(ctx context.Context, m cluster.Member, revision int64, known cluster.Versions) error {
	const sql = `
INSERT INTO nodelease_known AS k (cluster, key, version, revision, published_at, known) VALUES ($1, $2, $3, $4, clock_timestamp(), $5)
ON CONFLICT (cluster, key) DO UPDATE SET
	version = excluded.version, revision = excluded.revision, published_at = excluded.published_at, known = excluded.known
WHERE (k.version, k.revision) < (excluded.version, excluded.revision)`
	if _, err := c.db.Exec(ctx, sql, m.Cluster, m.Key(), m.Version, revision, known); err != nil {
		return fmt.Errorf("pgcoordinator: publish: %w", err)
	}
	return nil
}

// Known implements [cluster.Coordinator].
func (c *Coordinator) Known(ctx context.Context, clusterName string) (map[string]cluster.Versions, error) {
	rows, err := c.db.Query(ctx, `SELECT key, known FROM nodelease_known WHERE cluster = $1`, clusterName)
	if err != nil {
		return nil, fmt.Errorf("pgcoordinator: known: %w", err)
	}
	all := map[string]cluster.Versions{}
	var key string
	var known cluster.Versions
	_, err = pgx.ForEachRow(rows, []any{&key, &known}, func() error {
		all[key], known = known, nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pgcoordinator: known: %w", err)
	}
	return all, nil
}
