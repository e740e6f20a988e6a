//go:build unix

package pgcoordinator_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nodelease/nodelease/internal/testkit/postgrestest"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
	"github.com/nodelease/nodelease/pkg/cluster/pgcoordinator"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

func TestPostgreSQL(t *testing.T) {
	db, err := pgxpool.New(t.Context(), postgrestest.Start(t)+"&pool_max_conns=16")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	exec := func(t *testing.T, sql string, args ...any) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("schema by a fleet", func(t *testing.T) { schemaByAFleet(t, db) })
	t.Run("conformance", func(t *testing.T) {
		clustertest.Conformance(t, func(t *testing.T) clustertest.Backend {
			exec(t, "TRUNCATE nodelease_members, nodelease_known")
			return clustertest.Backend{Coordinator: pgcoordinator.New(db), Age: func(t *testing.T, by time.Duration) {
				exec(t, "UPDATE nodelease_members SET heartbeat = heartbeat - $1::interval, revision = txid_current()", by)
				exec(t, "UPDATE nodelease_known SET published_at = published_at - $1::interval", by)
			}}
		})
	})
	t.Run("a lease's node ID and version", func(t *testing.T) {
		m := cluster.Member{Cluster: "leased", Name: "a", NodeID: 7, SessionID: "s", Version: 3}
		for _, version := range []int64{3, 9} {
			m.Version = version
			snap, err := pgcoordinator.New(db).Heartbeat(t.Context(), cluster.Beat{Self: m, Timeout: time.Minute})
			if got := snap.Members; err != nil || len(got) != 1 || got[0].NodeID != 7 || got[0].Version != version {
				t.Errorf("%+v, %v, want version %d", got, err, version)
			}
		}
		c := pgcoordinator.New(db)
		publish := func(m cluster.Member, want int64) {
			t.Helper()
			if err := c.Publish(t.Context(), m, 1, cluster.Versions{"0": m.Version}); err != nil {
				t.Error(err)
			}
			if known, err := c.Known(t.Context(), "leased"); err != nil || known["7"]["0"] != want {
				t.Errorf("got the known versions %v, %v, want those that version %d published", known, err, want)
			}
		}
		publish(m, 9)
		m.Version = 8 // a late heartbeat of the previous holder
		publish(m, 9)
		if snap, err := pgcoordinator.New(db).Heartbeat(t.Context(), cluster.Beat{Self: m, Timeout: time.Minute}); !errors.Is(err, cluster.ErrDropped) {
			t.Errorf("the heartbeat of an older lease: got %+v, %v, want ErrDropped", snap, err)
		}
		// After the pool was seeded again, all leases have lower versions.
		exec(t, "UPDATE nodelease_members SET heartbeat = heartbeat - $1::interval, revision = txid_current() WHERE cluster = 'leased'", cluster.MaxClockBack)
		m.SessionID = "of the pool that was seeded again"
		if snap, err := pgcoordinator.New(db).Heartbeat(t.Context(), cluster.Beat{Self: m, Timeout: time.Minute}); err != nil || len(snap.Members) != 1 || !snap.Members[0].Same(m) {
			t.Errorf("the heartbeat of an older lease, beside a record without a heartbeat for %v: got %+v, %v, want a member", cluster.MaxClockBack, snap, err)
		}
		publish(m, 8)
	})
	t.Run("nodes", func(t *testing.T) { nodes(t, pgcoordinator.New(db)) })
}

// A whole fleet can run Schema at once at its first start.
func schemaByAFleet(t *testing.T, db *pgxpool.Pool) {
	for range 5 {
		if _, err := db.Exec(t.Context(), "DROP TABLE IF EXISTS nodelease_members, nodelease_known"); err != nil {
			t.Fatal(err)
		}
		var fleet sync.WaitGroup
		for range 16 {
			fleet.Go(func() {
				if _, err := db.Exec(t.Context(), pgcoordinator.Schema); err != nil {
					t.Error(err)
				}
			})
		}
		fleet.Wait()
	}
}

// Real nodes on a real server all see each other, and the listener of each node is
// called.
func nodes(t *testing.T, c cluster.Coordinator) {
	const count = 5
	all := make(chan string, count)
	for i := range count {
		n, err := cluster.Start(t.Context(), cluster.Config{
			Cluster: "nodes", Name: fmt.Sprint("node ", i), Coordinator: c, Every: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		go func() {
			for e := range n.Changes(t.Context()) {
				if e.State.Len() == count {
					leader, _ := cluster.LowestSession(e.State)
					all <- leader.Name
					return
				}
			}
		}()
	}
	for range count {
		if leader := <-all; leader != "node 0" {
			t.Errorf("got leader %s, want node 0", leader)
		}
	}
}
