// Package pgcoordinator keeps a cluster's heartbeats in PostgreSQL. Use it in a program that
// has a PostgreSQL server and no lease table, or if membership must not depend on the
// members' clocks: all times are compared by the server's clock.
//
// A heartbeat is one statement, and the first heartbeat of a session two. It records the
// heartbeat, and reads the members that have joined, changed or fallen silent since the
// previous heartbeat. So its cost grows with the number of these changes, not with the size
// of the cluster. If a member also has a lease, each heartbeat is a write in addition to the
// renewals.
package pgcoordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/cluster"
)

// DB has the methods of a *pgxpool.Pool that the coordinator needs.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Coordinator is a [cluster.Coordinator] on PostgreSQL 12 or newer.
type Coordinator struct {
	db DB

	mu    sync.Mutex
	views map[string]*view // by cluster and cluster.Member.Key of the reading member
}

var _ cluster.Coordinator = (*Coordinator)(nil)

// Schema is the SQL that creates the two tables that a coordinator needs, if they do not
// exist, in the first schema of the connection's search path. All processes of a fleet may
// run it at once, each in one Exec without arguments: an advisory lock makes the processes
// take turns.
//
// A row's revision is the number of the last transaction that changed anything in the row
// besides its heartbeat. If you edit rows by hand, set the revision too: revision =
// txid_current().
const Schema = `
SELECT pg_advisory_xact_lock(5278920123347); -- for the rest of this one transaction
CREATE TABLE IF NOT EXISTS nodelease_members (
	cluster    text        NOT NULL,
	key        text        NOT NULL, -- cluster.Member.Key
	name       text        NOT NULL,
	node_id    integer     NOT NULL,
	session_id text        NOT NULL,
	version    bigint      NOT NULL,
	heartbeat  timestamptz NOT NULL,
	metadata   jsonb       NOT NULL,
	PRIMARY KEY (cluster, key)
);
ALTER TABLE nodelease_members ADD COLUMN IF NOT EXISTS revision bigint NOT NULL DEFAULT txid_current();
CREATE INDEX IF NOT EXISTS nodelease_members_changed ON nodelease_members (cluster, revision);
CREATE INDEX IF NOT EXISTS nodelease_members_silent ON nodelease_members (cluster, heartbeat);
CREATE TABLE IF NOT EXISTS nodelease_known (
	cluster      text        NOT NULL,
	key          text        NOT NULL,
	version      bigint      NOT NULL, -- of the member that published it
	revision     bigint      NOT NULL,
	published_at timestamptz NOT NULL,
	known        jsonb       NOT NULL,
	PRIMARY KEY (cluster, key)
);`

// New returns a coordinator on a pool, or on another DB that is safe for concurrent use.
// Schema must have been run in its database.
func New(db DB) *Coordinator { return &Coordinator{db: db, views: map[string]*view{}} }

// usable returns an error if there is no database or no context.
func (c *Coordinator) usable(ctx context.Context) error {
	if protocol.IsNil(c.db) || c.views == nil {
		return errors.New("pgcoordinator: there is no database: pgcoordinator.New needs a pool")
	}
	return protocol.CheckContext(ctx)
}

// failed returns the error of a call. If the context has ended, the error wraps the
// context's error. Otherwise the reason may be missing: if a pool is configured to cancel
// statements at the server (pgconn.CancelRequestContextWatcherHandler), the server's
// error does not contain it.
func failed(ctx context.Context, call string, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return fmt.Errorf("pgcoordinator: %s: %w", call, err)
}

// Expire implements [cluster.Coordinator].
func (c *Coordinator) Expire(ctx context.Context, clusterName string, age time.Duration) error {
	const sql = `
WITH gone AS (
	DELETE FROM nodelease_members WHERE cluster = $1 AND heartbeat < clock_timestamp() - $2::interval RETURNING key
)
DELETE FROM nodelease_known WHERE cluster = $1 AND key IN (SELECT key FROM gone)`
	if err := c.usable(ctx); err != nil {
		return err
	}
	if _, err := c.db.Exec(ctx, sql, clusterName, age); err != nil {
		return failed(ctx, "expire", err)
	}
	return nil
}

// Publish implements [cluster.Coordinator].
//
// Invariant (liveness): a publication with a higher version than the recorded member has is left
// over from before the pool was seeded again, and is replaced.
func (c *Coordinator) Publish(ctx context.Context, m cluster.Member, revision int64, known cluster.Versions) error {
	const sql = `
INSERT INTO nodelease_known AS k (cluster, key, version, revision, published_at, known) VALUES ($1, $2, $3, $4, clock_timestamp(), $5)
ON CONFLICT (cluster, key) DO UPDATE SET
	version = excluded.version, revision = excluded.revision, published_at = excluded.published_at, known = excluded.known
WHERE (k.version, k.revision) < (excluded.version, excluded.revision)
	OR k.version > excluded.version AND EXISTS (SELECT FROM nodelease_members AS m WHERE m.cluster = $1 AND m.key = $2 AND m.version = excluded.version)`
	if err := c.usable(ctx); err != nil {
		return err
	}
	if _, err := c.db.Exec(ctx, sql, m.Cluster, m.Key(), m.Version, revision, known); err != nil {
		return failed(ctx, "publish", err)
	}
	return nil
}

// Known implements [cluster.Coordinator].
func (c *Coordinator) Known(ctx context.Context, clusterName string) (map[string]cluster.Versions, error) {
	if err := c.usable(ctx); err != nil {
		return nil, err
	}
	rows, err := c.db.Query(ctx, `SELECT key, known FROM nodelease_known WHERE cluster = $1`, clusterName)
	if err != nil {
		return nil, failed(ctx, "known", err)
	}
	all := map[string]cluster.Versions{}
	var key string
	var text []byte
	_, err = pgx.ForEachRow(rows, []any{&key, &text}, func() error {
		// Invariant (liveness): the other rows are read despite a row that no node writes.
		var known cluster.Versions
		if json.Unmarshal(text, &known) == nil {
			all[key] = known
		}
		return nil
	})
	if err != nil {
		return nil, failed(ctx, "known", err)
	}
	return all, nil
}
