//go:build unix

package pgcoordinator

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nodelease/nodelease/internal/testkit/postgrestest"
	"github.com/nodelease/nodelease/pkg/cluster"
)

// counted is a database that counts the rows of its answers.
type counted struct {
	DB
	rows int
}

func (c *counted) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := c.DB.Query(ctx, sql, args...)
	return &countedRows{rows, c}, err
}

type countedRows struct {
	pgx.Rows
	c *counted
}

func (r *countedRows) Next() bool {
	next := r.Rows.Next()
	if next {
		r.c.rows++
	}
	return next
}

func open(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	db, err := pgxpool.New(tb.Context(), postgrestest.Start(tb)+"&pool_max_conns=16")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	exec(tb, db, Schema)
	return db
}

func exec(tb testing.TB, db DB, sql string, args ...any) {
	tb.Helper()
	if _, err := db.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatal(err)
	}
}

// begin begins a transaction that ends with the test at the latest, since closing the
// pool waits for its connection.
func begin(t *testing.T, db *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

const timeout = time.Minute

func node(name string) cluster.Member {
	return cluster.Member{Cluster: "c", Name: name, NodeID: cluster.NoNodeID, SessionID: "session of " + name, Metadata: map[string]string{"zone": "a"}}
}

// look sends a heartbeat and returns the members that it sees.
func look(tb testing.TB, c *Coordinator, m cluster.Member) []cluster.Member {
	tb.Helper()
	snap, err := c.Heartbeat(tb.Context(), cluster.Beat{Self: m, Timeout: timeout})
	if err != nil {
		tb.Fatal(err)
	}
	return snap.Members
}

func has(members []cluster.Member, name string) bool {
	return slices.ContainsFunc(members, func(m cluster.Member) bool { return m.Name == name })
}

// fill records n members, in one statement.
func fill(tb testing.TB, db DB, n int) {
	tb.Helper()
	exec(tb, db, `INSERT INTO nodelease_members (cluster, key, name, node_id, session_id, version, heartbeat, metadata)
		SELECT 'c', '@node ' || i, 'node ' || i, -1, 'session of node ' || i, 1, clock_timestamp(), '{"zone": "a", "address": "10.0.0.1:8080"}' FROM generate_series(1, $1) AS i`, n)
	exec(tb, db, "ANALYZE nodelease_members")
}

var seed = flag.Uint64("seed", rand.Uint64(), "of the random heartbeats")

// A heartbeat brings a member's view up to date.
func TestHeartbeat(t *testing.T) {
	db := open(t)
	for name, test := range map[string]func(*testing.T, *pgxpool.Pool){
		"reads changes": readsChanges, "sees a late commit": seesALateCommit, "notices silence": noticesSilence, "reads all again": readsAllAgain, "is the first read": isALook,
		"passes broken rows": passesBrokenRows, "joins before it reads": joinsBeforeItReads,
	} {
		t.Run(name, func(t *testing.T) {
			exec(t, db, "TRUNCATE nodelease_members")
			test(t, db)
		})
	}
}

// Of two sessions that begin at once, one sees the other. Otherwise both could see the
// other's predecessor, and WaitKnown would return although one of them still does.
func joinsBeforeItReads(t *testing.T, db *pgxpool.Pool) {
	look(t, New(db), node("restarted")) // the predecessor
	exec(t, db, "CREATE FUNCTION wait_for_lock() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$")
	exec(t, db, "CREATE TRIGGER wait BEFORE INSERT ON nodelease_members FOR EACH ROW WHEN (NEW.key = '@new') EXECUTE FUNCTION wait_for_lock()")
	t.Cleanup(func() {
		_, _ = db.Exec(context.WithoutCancel(t.Context()), "DROP FUNCTION wait_for_lock() CASCADE")
	})
	lock := begin(t, db)
	exec(t, lock, "SELECT pg_advisory_xact_lock(7)")
	c := newClient(t, db)
	fresh := make(chan cluster.Snapshot, 1)
	go func() {
		snap, err := c.Heartbeat(t.Context(), cluster.Beat{Self: node("new"), Timeout: timeout})
		if err != nil {
			t.Error(err)
		}
		fresh <- snap
	}()
	c.backends(t, 1, "wait_event = 'advisory'") // it has begun to read, and is not recorded yet
	again := node("restarted")
	again.SessionID = "session after the restart"
	mine := look(t, New(db), again)
	if err := lock.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := (<-fresh).Members; !has(mine, "new") && !slices.ContainsFunc(got, again.Same) {
		t.Errorf("the new member sees %v, and the restarted one %v: want one to see the other", got, mine)
	}
	c.close(t)
}

// Rows whose JSON was broken by hand end no heartbeat, and no read of the known versions.
// They are left out.
func passesBrokenRows(t *testing.T, db *pgxpool.Pool) {
	c := New(db)
	look(t, c, node("a"))
	for i, metadata := range []string{`[]`, `7`, `"x"`, `{"zone": 7}`, `{"zone": {}}`} {
		exec(t, db, `INSERT INTO nodelease_members (cluster, key, name, node_id, session_id, version, heartbeat, metadata)
			VALUES ('c', $1, $1, -1, $1, 1, clock_timestamp(), $2)`, fmt.Sprint("@broken ", i), metadata)
		exec(t, db, `INSERT INTO nodelease_known (cluster, key, version, revision, published_at, known)
			VALUES ('c', $1, 1, 1, clock_timestamp(), $2)`, fmt.Sprint("@broken ", i), strings.ReplaceAll(metadata, "7", "7.5"))
	}
	if err := c.Publish(t.Context(), node("a"), 1, cluster.Versions{"@a": 1}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*Coordinator{"changes": c, "all": New(db)} {
		if members := look(t, c, node("a")); len(members) != 1 || !has(members, "a") {
			t.Errorf("%s: got %+v, want a only", name, members)
		}
	}
	if known, err := c.Known(t.Context(), "c"); err != nil || len(known) != 1 || known["@a"]["@a"] != 1 {
		t.Errorf("got the known versions %v, %v, want those of a only", known, err)
	}
}

// A member of a large cluster reads only the changes.
func readsChanges(t *testing.T, db *pgxpool.Pool) {
	rows := &counted{DB: db}
	c, self := New(rows), node("self")
	fill(t, db, 8192)
	for _, step := range []struct {
		what    string
		do      func()
		rows    int // including the member's own row
		members int
		same    bool // the list is the same slice as before
	}{
		{"the first read, and the read after it was recorded", func() {}, 8193 + 1, 8193, false},
		// When self read the rows, the transaction that recorded self had not ended. So
		// the next read begins at the revision of this transaction. It leaves out self's
		// own row.
		{"nothing", func() {}, 1, 8193, true},
		{"heartbeats of all", func() {
			exec(t, db, "UPDATE nodelease_members SET heartbeat = clock_timestamp() WHERE key <> '@self'")
		}, 1, 8193, true},
		{"a new member", func() { look(t, New(db), node("new")) }, 2, 8194, false},
		{"two are silent", func() {
			exec(t, db, "UPDATE nodelease_members SET heartbeat = clock_timestamp() - 2 * $1::interval, revision = txid_current() WHERE key IN ('@node 1', '@node 2')", timeout)
		}, 3, 8192, false},
		{"another session", func() { m := node("node 3"); m.SessionID = "another"; look(t, New(db), m) }, 2, 8192, false},
	} {
		step.do()
		before := c.viewOf(self).members
		rows.rows = 0
		began := time.Now()
		got := look(t, c, self)
		took := time.Since(began)
		if same := len(before) > 0 && len(got) > 0 && &before[0] == &got[0]; len(got) != step.members || rows.rows != step.rows || same != step.same {
			t.Errorf("%s: got %d rows, %d members, the previous list: %v; want %d, %d, %v", step.what, rows.rows, len(got), same, step.rows, step.members, step.same)
		}
		t.Logf("%s: %d rows in %v", step.what, rows.rows, took.Round(10*time.Microsecond))
	}
}

// The changes of a transaction that began before others and ends after them are not
// overlooked.
func seesALateCommit(t *testing.T, db *pgxpool.Pool) {
	c, self := New(db), node("self")
	look(t, c, self)
	late := begin(t, db)
	look(t, New(late), node("late"))
	for i := range 3 {
		look(t, New(db), node("early "+strconv.Itoa(i)))
		if got := look(t, c, self); has(got, "late") || len(got) != i+2 {
			t.Errorf("before it ended: got %v, want all but late", got)
		}
	}
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := look(t, c, self); !has(got, "late") {
		t.Errorf("after it ended: got %v, want late in it", got)
	}
}

// If a member falls silent, only the age of its heartbeat shows this: its row is not
// written again.
func noticesSilence(t *testing.T, db *pgxpool.Pool) {
	c, self := New(db), node("self")
	look(t, New(db), node("other"))
	if got := look(t, c, self); !has(got, "other") {
		t.Fatalf("before it was silent for long: %v", got)
	}
	// Move the other member's last heartbeat and this member's last read into the past.
	exec(t, db, "UPDATE nodelease_members SET heartbeat = clock_timestamp() - $1::interval - '1 second'::interval WHERE key = '@other'", timeout)
	c.viewOf(self).silent = c.viewOf(self).silent.Add(-timeout / 2)
	if got := look(t, c, self); has(got, "other") {
		t.Errorf("after it was silent for too long: %v", got)
	}
}

// A member reads all rows again if it was suspended, if the server was replaced, or if
// its view is old.
func readsAllAgain(t *testing.T, db *pgxpool.Pool) {
	for what, disturb := range map[string]func(v *view){
		"suspended":      func(v *view) { v.silent = v.silent.Add(-timeout - time.Second) },
		"another server": func(v *view) { v.cursor += 1 << 40 },
		"ten minutes":    func(v *view) { v.read = v.read.Add(-readAll) },
		"a time-out":     func(v *view) { v.timeout *= 2 },
	} {
		t.Run(what, func(t *testing.T) {
			exec(t, db, "TRUNCATE nodelease_members")
			c, self := New(db), node("self")
			look(t, New(db), node("forgotten"))
			look(t, New(db), node("edited"))
			if got := look(t, c, self); len(got) != 3 {
				t.Fatal(got)
			}
			exec(t, db, "DELETE FROM nodelease_members WHERE key = '@forgotten'")
			exec(t, db, "UPDATE nodelease_members SET session_id = 'by hand' WHERE key = '@edited'")
			disturb(c.viewOf(self))
			got := look(t, c, self)
			if has(got, "forgotten") || !slices.ContainsFunc(got, func(m cluster.Member) bool { return m.SessionID == "by hand" }) {
				t.Errorf("got %v", got)
			}
		})
	}
}

// moved is a database that another server replaces.
type moved struct{ DB }

// A server that replaces another one may lack its last transactions, and may have given their
// numbers to others. So a member reads all rows again when another server answers, also if
// that one has counted further.
func TestFailover(t *testing.T) {
	first, second := open(t), open(t)
	db := &moved{first}
	c, self := New(db), node("self")
	look(t, New(first), node("lost"))
	if got := look(t, c, self); !has(got, "lost") {
		t.Fatalf("got %v, want lost in it", got)
	}
	look(t, New(second), node("new"))
	exec(t, second, `DO $$ BEGIN
		FOR i IN 1..(SELECT 100 + GREATEST(0, `+strconv.FormatInt(c.viewOf(self).cursor, 10)+` - txid_current())) LOOP PERFORM txid_current(); COMMIT; END LOOP;
	END $$`)
	db.DB = second
	if got := look(t, c, self); !has(got, "new") || has(got, "lost") {
		t.Errorf("after the server was replaced: got %v, want self and new", got)
	}
}

// Whatever happens, a view that was updated step by step is equal to the result of a full
// read.
func isALook(t *testing.T, db *pgxpool.Pool) {
	t.Logf("go test -run 'TestHeartbeat$' ./pkg/cluster/pgcoordinator -args -seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	c, self := New(db), node("self")
	pick := func() string { return fmt.Sprint("n", random.IntN(12)) }
	var late []pgx.Tx // transactions that have not ended yet
	for step := range 400 {
		switch random.IntN(7) {
		case 0, 1: // a heartbeat, perhaps of a new session
			m := node(pick())
			m.SessionID = fmt.Sprint(m.Name, random.IntN(2))
			m.Metadata = map[string]string{"n": fmt.Sprint(random.IntN(2))}
			_, _ = New(db).Heartbeat(t.Context(), cluster.Beat{Self: m, Timeout: timeout}) // may be refused
		case 2: // silence
			exec(t, db, "UPDATE nodelease_members SET heartbeat = heartbeat - $2::interval, revision = txid_current() WHERE key = $1", "@"+pick(), timeout*3/4)
		case 3: // a transaction that ends later, with names of its own
			tx := begin(t, db)
			look(t, New(tx), node(fmt.Sprint("late ", step)))
			late = append(late, tx)
		case 4:
			if len(late) > 0 {
				i := random.IntN(len(late))
				if err := late[i].Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				late = slices.Delete(late, i, i+1)
			}
		case 5: // before a row is deleted, it is silent for a time-out, in which a view notices the silence or, later, reads all rows again
			look(t, c, self)
			if err := c.Expire(t.Context(), "c", 2*timeout); err != nil {
				t.Fatal(err)
			}
		}
		if len(late) > 8 {
			_ = late[0].Rollback(t.Context())
			late = late[1:]
		}
		if random.IntN(3) > 0 {
			continue
		}
		got, want := look(t, c, self), look(t, New(db), self)
		if !slices.EqualFunc(got, want, equal) {
			t.Fatalf("step %d: got %v\nwant %v", step, got, want)
		}
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	for _, n := range []int{1024, 8192, 65536} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			db := open(b)
			exec(b, db, "TRUNCATE nodelease_members")
			fill(b, db, n)
			c, self := New(db), node("self")
			b.Run("first read", func(b *testing.B) {
				for b.Loop() {
					look(b, New(db), self)
				}
			})
			look(b, c, self)
			b.Run("nothing changed", func(b *testing.B) {
				for b.Loop() {
					look(b, c, self)
				}
			})
		})
	}
}
