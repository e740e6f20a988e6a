//go:build unix

package pgcoordinator_test

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nodelease/nodelease/internal/postgrestest"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/clustertest"
	"github.com/nodelease/nodelease/pkg/cluster/pgcoordinator"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

func TestPostgreSQL(t *testing.T) {
	db, err := pgxpool.New(t.Context(), postgrestest.Start(t))
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
	exec(t, pgcoordinator.Schema)
	exec(t, pgcoordinator.Schema) // whoever comes second finds the tables there
	t.Run("conformance", func(t *testing.T) {
		clustertest.Conformance(t, func(t *testing.T) clustertest.Backend {
			exec(t, "TRUNCATE nodelease_members, nodelease_known")
			return clustertest.Backend{Coordinator: pgcoordinator.New(db), Age: func(t *testing.T, by time.Duration) {
				exec(t, "UPDATE nodelease_members SET heartbeat = heartbeat - $1::interval", by)
			}}
		})
	})
	t.Run("a lease's number and version", func(t *testing.T) {
		m := cluster.Member{Cluster: "leased", NodeID: "a", Number: 7, SessionID: "s", Version: 3}
		for _, version := range []int64{3, 9} {
			m.Version = version
			got, err := pgcoordinator.New(db).Heartbeat(t.Context(), cluster.Beat{Self: m, Timeout: time.Minute})
			if err != nil || len(got) != 1 || got[0].Number != 7 || got[0].Version != version {
				t.Errorf("%+v, %v", got, err)
			}
		}
	})
	t.Run("nodes", func(t *testing.T) { nodes(t, pgcoordinator.New(db)) })
}

// Real nodes on the real server: all see all, and each is told so.
func nodes(t *testing.T, c cluster.Coordinator) {
	const count = 5
	all := make(chan string, count)
	for i := range count {
		n, err := cluster.Start(t.Context(), cluster.Config{
			Cluster: "nodes", NodeID: fmt.Sprint("node ", i), Coordinator: c, Every: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		go func() {
			for e := range n.Changes(t.Context()) {
				if e.State.Len() == count {
					leader, _ := cluster.LowestSession(e.State)
					all <- leader.NodeID
					return
				}
			}
		}()
	}
	for range count {
		if leader := <-all; leader != "node 0" {
			t.Errorf("%s leads", leader)
		}
	}
}
