//go:build unix

package pgcoordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nodelease/nodelease/pkg/cluster"
)

// wire counts events on the connections of a pool while it is armed, and ends a context
// at one of them. The events are: before a write, after a write, and after a read.
type wire struct {
	mu    sync.Mutex
	armed bool
	nth   int
	seen  int
	end   func()

	open sync.WaitGroup // connections
}

func (w *wire) arm(nth int, end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed, w.nth, w.seen, w.end = true, nth, 0, end
}

// disarm reports whether the event was reached.
func (w *wire) disarm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	return w.seen >= w.nth
}

func (w *wire) event() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed {
		if w.seen++; w.seen == w.nth {
			w.end()
		}
	}
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.event()
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	w.open.Add(1)
	return &wired{Conn: c, w: w}, nil
}

type wired struct {
	net.Conn
	w    *wire
	once sync.Once
}

func (c *wired) Write(b []byte) (int, error) {
	c.w.event()
	n, err := c.Conn.Write(b)
	c.w.event()
	return n, err
}

func (c *wired) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.w.event()
	return n, err
}

func (c *wired) Close() error {
	defer c.once.Do(c.w.open.Done)
	return c.Conn.Close()
}

// client is a coordinator with a pool of its own.
type client struct {
	*Coordinator
	wire
	db    *pgxpool.Pool
	admin *pgxpool.Pool // of the test
}

// clientName is the application name of a client's connections at the server.
const clientName = "canceled"

func newClient(t *testing.T, admin *pgxpool.Pool, change ...func(*pgxpool.Config)) *client {
	t.Helper()
	cfg := admin.Config()
	cfg.ConnConfig.RuntimeParams["application_name"] = clientName
	cfg.MaxConns = 2
	c := &client{admin: admin}
	cfg.ConnConfig.DialFunc = c.dial
	for _, f := range change {
		f(cfg)
	}
	var err error
	if c.db, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	c.Coordinator = New(c.db)
	return c
}

// none waits until no connection of a client meets a condition at the server.
func (c *client) none(t *testing.T, condition string) {
	t.Helper()
	c.backends(t, 0, condition)
}

func (c *client) backends(t *testing.T, want int, condition string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for got := -1; got != want; { // no pause: the query itself takes time
		if err := c.admin.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND "+condition, clientName).Scan(&got); err != nil {
			t.Fatalf("got %d connections with %s, want %d: %v", got, condition, want, err)
		}
	}
}

// close closes the pool, which waits for connections in use, and fails the test if a
// connection, and so a transaction or a lock, is left behind.
func (c *client) close(t *testing.T) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.db.Close()
		c.open.Wait()
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatalf("got %d connections in use, want none", c.db.Stat().AcquiredConns())
	}
	c.none(t, "true")
}

// calls are the coordinator's methods, each with a check of the call that follows a
// canceled call.
var calls = map[string]struct {
	call func(ctx context.Context, c *client) error
	good func(t *testing.T, c *client)
}{
	"Heartbeat": {
		func(ctx context.Context, c *client) error {
			snap, err := c.Heartbeat(ctx, cluster.Beat{Self: node("self"), Timeout: timeout})
			if (snap.Members == nil) == (err == nil) {
				return fmt.Errorf("got the members %v and the error %w, want one of them", snap.Members, err)
			}
			return err
		},
		func(t *testing.T, c *client) {
			look(t, New(c.admin), node("another"))
			if got, want := look(t, c.Coordinator, node("self")), look(t, New(c.admin), node("self")); len(want) != 3 || !slices.EqualFunc(got, want, equal) {
				t.Errorf("the next heartbeat: got %v, want the 3 of a full read: %v", got, want)
			}
		},
	},
	"Expire": {
		func(ctx context.Context, c *client) error { return c.Expire(ctx, "c", 24*time.Hour) },
		func(t *testing.T, c *client) {
			exec(t, c.admin, "UPDATE nodelease_members SET heartbeat = heartbeat - interval '25 hours' WHERE key = '@other'")
			if err := c.Expire(t.Context(), "c", 24*time.Hour); err != nil {
				t.Error(err)
			}
			if all, err := c.Known(t.Context(), "c"); len(all) != 0 || err != nil {
				t.Errorf("the next one: got %v, %v, want none", all, err)
			}
		},
	},
	"Publish": {
		func(ctx context.Context, c *client) error {
			return c.Publish(ctx, node("self"), 7, cluster.Versions{"@self": 7})
		},
		func(t *testing.T, c *client) {
			if err := c.Publish(t.Context(), node("self"), 8, cluster.Versions{"@self": 8}); err != nil {
				t.Error(err)
			}
			if all, err := c.Known(t.Context(), "c"); all["@self"]["@self"] != 8 || err != nil {
				t.Errorf("the next one: got %v, %v, want 8", all, err)
			}
		},
	},
	"Known": {
		func(ctx context.Context, c *client) error {
			_, err := c.Known(ctx, "c")
			return err
		},
		func(t *testing.T, c *client) {
			if all, err := c.Known(t.Context(), "c"); len(all) != 1 || all["@other"]["@other"] != 1 || err != nil {
				t.Errorf("the next one: got %v, %v, want what other knows", all, err)
			}
		},
	},
	"Schema": {
		func(ctx context.Context, c *client) error {
			if _, err := c.db.Exec(ctx, Schema); err != nil {
				return failed(ctx, "schema", err) // the error is the pool's
			}
			return nil
		},
		func(t *testing.T, c *client) { exec(t, c.db, Schema) },
	},
}

// prepare brings the tables to the state in which each call begins: they contain one
// member, which is not the client's.
func prepare(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	exec(t, db, "TRUNCATE nodelease_members, nodelease_known")
	look(t, New(db), node("other"))
	if err := New(db).Publish(t.Context(), node("other"), 1, cluster.Versions{"@other": 1}); err != nil {
		t.Fatal(err)
	}
}

// atMost is how long a canceled call may take, even on a busy machine.
const atMost = 30 * time.Second

// canceledAt runs a call with a context that begin cancels, at once or later, and checks
// the call's result.
func (c *client) canceledAt(t *testing.T, call func(ctx context.Context, c *client) error, begin func(ctx context.Context, cancel func()) context.Context) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended time.Time
	var once sync.Once
	err := call(begin(ctx, func() { once.Do(func() { ended = time.Now(); cancel() }) }), c)
	once.Do(func() { ended = time.Now() })
	if took := time.Since(ended); took > atMost {
		t.Errorf("it returned %v after the end of its context, want at most %v", took, atMost)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v or nil", err, context.Canceled)
	}
	return err
}

// Whenever the context of a call ends, the call returns, it leaves no connection,
// transaction or lock behind, and the next call works.
func TestCallsAreCanceledAnywhere(t *testing.T) {
	db := open(t)
	t.Run("a heartbeat arrives late", func(t *testing.T) { lateHeartbeat(t, db) })
	t.Run("the first heartbeat arrives late", func(t *testing.T) { lateFirstHeartbeat(t, db) })
	t.Run("a clock was set", func(t *testing.T) { steppedClock(t, db) })
	for name, c := range calls {
		for _, warm := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, connected %v", name, warm), func(t *testing.T) {
				for nth := 1; canceledAtEvent(t, db, c.call, c.good, warm, nth) && !t.Failed(); nth++ {
					if nth == 200 {
						t.Fatal("got 200 events on the connection, want fewer")
					}
				}
			})
		}
		t.Run(name+", no free connection", func(t *testing.T) { canceledWithoutConnection(t, db, c.call, c.good) })
		t.Run(name+", blocked", func(t *testing.T) { canceledWhileBlocked(t, db, c.call, c.good) })
		t.Run(name+", blocked, canceled by the pool", func(t *testing.T) {
			canceledWhileBlocked(t, db, c.call, c.good, func(cfg *pgxpool.Config) {
				cfg.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
					return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: atMost}
				}
			})
		})
	}
}

// canceledAtEvent cancels a call at the nth event on its connection, and reports whether
// there was an nth event.
func canceledAtEvent(t *testing.T, db *pgxpool.Pool, call func(ctx context.Context, c *client) error, good func(t *testing.T, c *client), warm bool, nth int) (again bool) {
	t.Helper()
	prepare(t, db)
	c := newClient(t, db)
	if warm {
		if err := call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	err := c.canceledAt(t, call, func(ctx context.Context, cancel func()) context.Context {
		c.arm(nth, cancel)
		return ctx
	})
	if again = c.disarm(); err != nil && !again {
		t.Errorf("without an end: got %v, want nil", err)
	}
	good(t, c)
	c.close(t)
	if t.Failed() {
		t.Logf("at event %d", nth)
	}
	return again
}

// waiting is a context that ends when Done is called for the nth time.
type waiting struct {
	context.Context
	mu     sync.Mutex
	left   int
	cancel func()
}

func (w *waiting) Done() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left--; w.left == 0 {
		w.cancel()
	}
	return w.Context.Done()
}

// canceledWithoutConnection cancels a call that waits for a connection of the pool.
func canceledWithoutConnection(t *testing.T, db *pgxpool.Pool, call func(ctx context.Context, c *client) error, good func(t *testing.T, c *client)) {
	prepare(t, db)
	c := newClient(t, db, func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	only, err := c.db.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	awaits := 1
	if strings.HasPrefix(t.Name(), "TestCallsAreCanceledAnywhere/Heartbeat") {
		awaits = 2 // the first one is the wait for other heartbeats
	}
	for nth := range awaits + 1 {
		if err := c.canceledAt(t, call, func(ctx context.Context, cancel func()) context.Context {
			if nth == 0 {
				cancel()
			}
			return &waiting{Context: ctx, left: nth, cancel: cancel}
		}); err == nil {
			t.Error("without a connection: got nil, want an error")
		}
		if got := c.db.Stat().AcquiredConns(); got != 1 {
			t.Errorf("got %d connections in use, want the test's", got)
		}
	}
	only.Release()
	good(t, c)
	c.close(t)
}

// canceledWhileBlocked cancels a call that waits for a lock. The server must stop the
// call's statement before the lock is free.
func canceledWhileBlocked(t *testing.T, db *pgxpool.Pool, call func(ctx context.Context, c *client) error, good func(t *testing.T, c *client), change ...func(*pgxpool.Config)) {
	prepare(t, db)
	c := newClient(t, db, change...)
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE nodelease_members, nodelease_known IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	if err := c.canceledAt(t, call, func(ctx context.Context, cancel func()) context.Context {
		wait.Go(func() {
			c.backends(t, 1, "wait_event_type = 'Lock'")
			cancel()
		})
		return ctx
	}); err == nil {
		t.Error("got nil while the tables are locked, want an error")
	}
	wait.Wait()
	c.none(t, "state <> 'idle'")
	c.none(t, "pid IN (SELECT pid FROM pg_locks WHERE locktype <> 'virtualxid')")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	good(t, c)
	c.close(t)
}

// stuck is a database that does not answer the first query before its context ends.
type stuck struct {
	DB
	began chan struct{}
	once  sync.Once
}

func (s *stuck) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	first := false
	s.once.Do(func() { first = true })
	if first {
		close(s.began)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.DB.Query(ctx, sql, args...)
}

// A heartbeat that waits for another heartbeat of the same member returns when its own
// context ends.
func TestHeartbeatIsCanceledWhileItWaits(t *testing.T) {
	s := &stuck{began: make(chan struct{})}
	c := New(s)
	beat := func(ctx context.Context) error {
		_, err := c.Heartbeat(ctx, cluster.Beat{Self: node("self"), Timeout: timeout})
		return err
	}
	first, end := context.WithCancel(t.Context())
	defer end()
	returned := make(chan error, 2)
	go func() { returned <- beat(first) }()
	<-s.began
	second, cancel := context.WithCancel(t.Context())
	go func() { returned <- beat(second) }()
	cancel()
	select {
	case err := <-returned:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	case <-time.After(10 * time.Second): // real time: a lock does not count as waiting in virtual time
		t.Error("got no return while another heartbeat hangs, want one")
	}
	end()
	if err := <-returned; !errors.Is(err, context.Canceled) {
		t.Errorf("the first: got %v, want %v", err, context.Canceled)
	}
}

// letter is a database that holds back the first heartbeat after hold is set. The heartbeat
// arrives when deliver is called, after its context has ended.
type letter struct {
	DB
	hold    bool
	deliver func() error
}

func (l *letter) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if !l.hold || sql != heartbeat {
		return l.DB.Query(ctx, sql, args...)
	}
	l.hold = false
	l.deliver = func() error {
		rows, err := l.DB.Query(context.WithoutCancel(ctx), sql, args...)
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		return err
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A heartbeat that arrives after its context has ended does not bring its session back,
// because the node has begun another session meanwhile.
func lateHeartbeat(t *testing.T, db *pgxpool.Pool) {
	exec(t, db, "TRUNCATE nodelease_members, nodelease_known")
	l := &letter{DB: db}
	c, first, second := New(l), node("a"), node("a")
	second.SessionID = "second"
	look(t, c, first)
	l.hold = true
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Heartbeat(ctx, cluster.Beat{Self: first, Timeout: timeout}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want %v", err, context.DeadlineExceeded)
	}
	look(t, c, second)
	if err := l.deliver(); err != nil {
		t.Fatal(err)
	}
	if got := look(t, New(db), node("other")); slices.ContainsFunc(got, first.Same) || !slices.ContainsFunc(got, second.Same) {
		t.Errorf("got %v, want the second session and not the first", got)
	}
	look(t, c, second)
}

// Nor does the first heartbeat of a process, which knows no time of the server's clock yet.
func lateFirstHeartbeat(t *testing.T, db *pgxpool.Pool) {
	exec(t, db, "TRUNCATE nodelease_members, nodelease_known")
	first, second := node("a"), node("a")
	second.SessionID = "second"
	l := &letter{DB: db}
	c := New(l)
	for wait := 50 * time.Millisecond; l.deliver == nil; wait *= 2 { // until a busy machine has time to send it
		l.hold = true
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		if _, err := c.Heartbeat(ctx, cluster.Beat{Self: first, Timeout: timeout}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want %v", err, context.DeadlineExceeded)
		}
		cancel()
	}
	look(t, c, second)
	if err := l.deliver(); err != nil {
		t.Fatal(err)
	}
	if got := look(t, New(db), node("other")); slices.ContainsFunc(got, first.Same) || !slices.ContainsFunc(got, second.Same) {
		t.Errorf("got %v, want the second session and not the first", got)
	}
}

// A node keeps its session if the server's clock is set forward, or if the process is
// suspended for a moment.
func steppedClock(t *testing.T, db *pgxpool.Pool) {
	exec(t, db, "TRUNCATE nodelease_members, nodelease_known")
	c := New(db)
	look(t, c, node("a"))
	v := c.viewOf(node("a"))
	v.now = v.now.Add(-time.Hour)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if snap, err := c.Heartbeat(ctx, cluster.Beat{Self: node("a"), Timeout: timeout}); err != nil || !has(snap.Members, "a") {
			t.Errorf("got %v, %v, want a", snap.Members, err)
		}
	}
}
