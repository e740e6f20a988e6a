package outages_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/lastaddress"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/certificate"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// IDsUntil is right: without the table, a holder makes IDs until that time, and, by its
// own clock, for at most the length of the guards longer.
func TestIDsUntilIsTrue(t *testing.T) {
	for name, c := range map[string]struct {
		lives time.Duration
		least time.Duration
	}{"a short lease": {time.Minute, 0}, "a grown lease": {8 * time.Hour, 3 * time.Hour}} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(64)
				fixture.Measuring(t, s, fixture.One)
				events := make(chan lease.Event, 1)
				cfg := fixture.Config(s)
				cfg.OnEvent = func(e lease.Event) {
					select {
					case <-events:
					default:
					}
					events <- e
				}
				a := fixture.Start(t, cfg)
				g := fixture.IDs(t, a)
				fixture.Wait(c.lives)
				s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
					return fixture.Hang(ctx)
				})
				until := fixture.Item(t, s, a.NodeID()).IDsUntil()
				left := time.Until(until)
				if left < c.least || left > a.IDsLeft() || a.IDsLeft()-left > 3*time.Second {
					t.Errorf("the table says %v, the holder %v", left, a.IDsLeft())
				}
				fixture.Wait(left - time.Millisecond)
				if _, err := g.Next(); err != nil {
					t.Errorf("a moment before %v: %v", left, err)
				}
				if e := <-events; e.IDsLeft <= 0 || e.IDsLeft > left+3*time.Second {
					t.Errorf("the last event, %s, says %v, want more than 0 and at most %v", e.Kind, e.IDsLeft, left)
				}
				fixture.Wait(a.IDsLeft() + time.Millisecond)
				if id, err := g.TryNext(); err == nil {
					t.Errorf("made %v after the time that it said", id)
				}
				if got := a.IDsLeft(); got > 0 {
					t.Errorf("IDsLeft: got %v after the last ID, want none", got)
				}
			})
		})
	}
}

// away is a store that can be unavailable to everybody, as in an outage of a Region.
// While it is gone, it answers no requests, and does not execute requests in flight.
type away struct {
	*leasetest.Memory
	gone atomic.Bool
}

func (a *away) lost(ctx context.Context) error {
	if !a.gone.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (a *away) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	if err := a.lost(ctx); err != nil {
		return protocol.PoolItem{}, err
	}
	return a.Memory.PoolItem(ctx, pool)
}

func (a *away) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	if err := a.lost(ctx); err != nil {
		return protocol.Group{}, err
	}
	return a.Memory.Group(ctx, pool, n)
}

func (a *away) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	if err := a.lost(ctx); err != nil {
		return protocol.Result{}, err
	}
	return a.Memory.Write(ctx, w)
}

func (a *away) Note(ctx context.Context, pool string) (protocol.Note, error) {
	if err := a.lost(ctx); err != nil {
		return protocol.Note{}, err
	}
	return a.Memory.Note(ctx, pool)
}

func (a *away) Get(ctx context.Context, pool string, node int) (*protocol.Lease, error) {
	if err := a.lost(ctx); err != nil {
		return nil, err
	}
	return a.Memory.Get(ctx, pool, node)
}

// The processes of a fleet hold all node IDs of their pool. Other processes wait for node
// IDs, some of them from before an outage, and some since the outage began. When the
// outage is over, every live holder resumes. The node ID of a process that died during
// the outage is claimed soon afterwards.
func TestOutageOfAFullPool(t *testing.T) {
	for _, size := range []int{1, 8, 40} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := &away{Memory: leasetest.NewMemory("orders", size+1)}
				dies := &away{Memory: s.Memory}
				dead := fixture.Start(t, fixture.Config(dies))
				var holders []*lease.Agent
				for range size {
					holders = append(holders, fixture.Start(t, fixture.Config(s)))
				}
				ctx, cancel := context.WithCancel(t.Context())
				claimed := make(chan int, 2*size+1)
				var waiting sync.WaitGroup
				wait := func() {
					waiting.Go(func() {
						cfg := fixture.Config(s)
						cfg.Wait = time.Hour
						a, err := lease.Start(ctx, cfg)
						if err != nil {
							return
						}
						claimed <- a.NodeID()
						_ = a.Close()
					})
				}
				for range size {
					wait()
				}
				fixture.Wait(time.Minute)
				s.gone.Store(true)
				dies.gone.Store(true) // this store never comes back
				fixture.Wait(2 * time.Minute)
				for range size {
					wait()
				}
				fixture.Wait(time.Minute)
				s.gone.Store(false)
				fixture.Wait(5 * time.Second)
				for _, a := range holders {
					if _, err := a.Lease(); err != nil {
						t.Errorf("node ID %d after an outage that all had: got %v, want that its holder has resumed", a.NodeID(), err)
					}
				}
				if len(claimed) > 0 {
					t.Fatalf("%d of those who waited have node IDs, the first %d: nobody can know yet who resumes", len(claimed), <-claimed)
				}
				fixture.Wait(15 * time.Second) // a request that hangs is given up after 5 s
				if len(claimed) == 0 {
					t.Error("the node ID of a process that died in the outage is free still")
				} else if n := <-claimed; n != dead.NodeID() {
					t.Errorf("got node ID %d, want %d, whose holder died", n, dead.NodeID())
				}
				cancel()
				waiting.Wait()
			})
		})
	}
}

const oldPool = 20

// oldFleet is a group of holders that are eight hours old, in a pool of 20.
type oldFleet struct {
	agents   []*lease.Agent
	makers   []*snowflake.Generator
	versions []int64
	seen     map[snowflake.ID]bool
}

// start starts the given number of holders, each with its own store, and waits until they
// are old.
func (f *oldFleet) start(t *testing.T, holders int, store func() lease.Store) {
	f.seen = map[snowflake.ID]bool{}
	for range holders {
		a := fixture.Start(t, fixture.Config(store()))
		f.agents, f.makers = append(f.agents, a), append(f.makers, fixture.IDs(t, a))
	}
	fixture.Wait(8 * time.Hour)
	for i, a := range f.agents {
		l, err := a.Lease()
		if err != nil || f.make(t, i) != nil {
			t.Fatalf("holder %d before the outage: %v", i, err)
		}
		f.versions = append(f.versions, l.Version)
	}
}

// make makes an ID with holder i.
func (f *oldFleet) make(t *testing.T, i int) error {
	id, err := f.makers[i].Next()
	if err == nil && f.seen[id] {
		t.Fatalf("%v was made twice", id)
	}
	f.seen[id] = err == nil
	return err
}

// ready reports whether holder i is ready.
func (f *oldFleet) ready(i int) bool {
	w := httptest.NewRecorder()
	f.agents[i].Ready().ServeHTTP(w, nil)
	return w.Code == http.StatusOK
}

// outlasts lets three hours pass, and checks that every holder can make IDs and is ready
// all the time.
func (f *oldFleet) outlasts(t *testing.T) {
	for end := time.Now().Add(3 * time.Hour); time.Now().Before(end); fixture.Wait(time.Minute) {
		for i := range f.agents {
			if err := f.make(t, i); err != nil || !f.ready(i) {
				t.Fatalf("holder %d, %v before the outage ends: %v, ready %v", i, time.Until(end), err, f.ready(i))
			}
		}
	}
}

// hasAll checks that ten seconds after the outage, every holder has its node ID again.
func (f *oldFleet) hasAll(t *testing.T) {
	fixture.Wait(10 * time.Second)
	for i, a := range f.agents {
		if l, err := a.Lease(); err != nil || l.Version != f.versions[i] || f.make(t, i) != nil || !f.ready(i) {
			t.Errorf("holder %d after the outage: %+v, %v, want version %d again", i, l, err, f.versions[i])
		}
	}
}

// In an outage of three hours, no request is answered. If 30 % of the pool is held,
// holders that are eight hours old continue to make IDs and stay ready, but a holder that
// has just started stops making IDs. If 90 % of the pool is held, leases are short, and
// all holders stop after 16 s. In both cases all holders keep their node IDs, and no ID
// is made twice.
func TestOutageOfHours(t *testing.T) {
	for name, c := range map[string]struct {
		holders int
		grown   bool
	}{"30 % of the pool": {6, true}, "90 % of the pool": {18, false}} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(oldPool)
				fixture.Measuring(t, s, func() int { return c.holders })
				var f oldFleet
				f.start(t, c.holders, func() lease.Store { return s })
				young := fixture.Start(t, fixture.Config(s))
				maker := fixture.IDs(t, young)
				s.On(func(ctx context.Context, _ protocol.Write, _ func() (protocol.Result, error)) (protocol.Result, error) {
					return fixture.Hang(ctx)
				})
				if c.grown {
					f.outlasts(t)
				} else {
					fixture.Wait(16 * time.Second)
					for i := range f.agents {
						if err := f.make(t, i); err == nil || f.ready(i) {
							t.Fatalf("holder %d makes IDs 16 s after the outage began, or is ready", i)
						}
					}
					fixture.Wait(3 * time.Hour)
				}
				if id, err := maker.TryNext(); err == nil {
					t.Errorf("a holder that had just begun has made %v", id)
				}
				if _, err := f.agents[0].Lease(); !errors.Is(err, lease.ErrSuspended) {
					t.Errorf("exclusivity after 3 h: %v, want suspended", err)
				}
				s.On(nil)
				f.hasAll(t)
			})
		})
	}
}

// In an outage of three hours, the name of DynamoDB's endpoint has no address, as in
// us-east-1 in October 2025, and each renewal needs a new connection. If 30 % of the pool
// is held, holders can renew all the time through the address that answered last. If that
// address does not answer either, the holders' reservations last longer than the outage.
func TestOutageOfTheName(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_REGION", "us-east-1")
	for name, unreachable := range map[string]bool{"the servers go on": false, "the servers are gone too": true} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				region := newRegion(t)
				region.poolmetric(t)
				var f oldFleet
				f.start(t, 6, func() lease.Store { return lease.NewDynamoDB(region.client(t), "leases") })
				dials := region.dialed.Load()
				region.nameless.Store(true)
				region.gone.Store(unreachable)
				f.outlasts(t)
				for i, a := range f.agents {
					if _, err := a.Lease(); (err == nil) == unreachable {
						t.Errorf("holder %d at the end: %v", i, err)
					}
				}
				if n := region.dialed.Load() - dials; !unreachable && n < 6*20 {
					t.Errorf("%d connections to the last address in 3 h, want more than 20 of each holder", n)
				}
				region.nameless.Store(false)
				region.gone.Store(false)
				f.hasAll(t)
			})
		})
	}
}

// region is an in-memory DynamoDB behind a host name.
type region struct {
	conns    chan net.Conn
	done     chan struct{}
	once     sync.Once
	roots    *x509.CertPool
	nameless atomic.Bool // the host name has no address
	gone     atomic.Bool // no address answers
	dialed   atomic.Int64
}

const regionName, regionAddress = "dynamodb.us-east-1.amazonaws.com", "192.0.2.1:443"

func newRegion(t *testing.T) *region {
	t.Helper()
	r := &region{conns: make(chan net.Conn), done: make(chan struct{}), roots: x509.NewCertPool()}
	db, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own := certificate.Of(t, regionName)
	r.roots.AddCert(own.Leaf)
	server := &http.Server{Handler: db, TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(tls.NewListener(r, server.TLSConfig))
	}()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return r
}

// client returns a client from OpenClient whose connections lead to this region.
func (r *region) client(t *testing.T) *dynamodb.Client {
	t.Helper()
	c, err := lease.OpenClient(t.Context(), "https://"+regionName)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: r.dial, TLSClientConfig: &tls.Config{RootCAs: r.roots}, IdleConnTimeout: 90 * time.Second}
	t.Cleanup(transport.CloseIdleConnections)
	return dynamodb.New(c.Options(), func(o *dynamodb.Options) {
		o.HTTPClient = &http.Client{Transport: lastaddress.Remember(transport)}
	})
}

// poolmetric creates the pool, and counts its node IDs every minute.
func (r *region) poolmetric(t *testing.T) {
	t.Helper()
	client := r.client(t)
	if _, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("leases"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pool_group"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("node_id"), AttributeType: types.ScalarAttributeTypeN},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pool_group"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("node_id"), KeyType: types.KeyTypeRange},
		},
	}); err != nil {
		t.Fatal(err)
	}
	pool := leasepool.Open(lease.NewDynamoDB(client, "leases"), "orders")
	if _, err := pool.Seed(t.Context(), leasepool.Spec{Size: oldPool}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			at := time.Now()
			if stats, err := pool.Stats(ctx); err == nil {
				_ = pool.Measure(ctx, stats, at)
			}
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func (r *region) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if address != regionAddress && r.nameless.Load() {
		return nil, &net.DNSError{Err: "no such host", Name: regionName, IsNotFound: true}
	}
	if r.gone.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r.dialed.Add(1)
	ours, theirs := net.Pipe()
	select {
	case r.conns <- theirs:
		return &cable{Conn: ours, of: r}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (r *region) Accept() (net.Conn, error) {
	select {
	case c := <-r.conns:
		return c, nil
	case <-r.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (r *region) Close() error {
	r.once.Do(func() { close(r.done) })
	return nil
}

// Addr implements [net.Listener].
func (r *region) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 443} }

// cable is a connection to the region. While the region is gone, everything that is sent
// over the cable is lost.
type cable struct {
	net.Conn
	of *region
}

func (l *cable) RemoteAddr() net.Addr { return l.of.Addr() }

func (l *cable) Write(b []byte) (int, error) {
	if l.of.gone.Load() {
		return len(b), nil
	}
	return l.Conn.Write(b)
}

// In an outage, a process is frozen for five seconds after each short call. After the outage,
// its calls leave the lease that expired in it to its holder, which resumes.
func TestSparseCallsNoticeAnOutage(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := &away{Memory: leasetest.NewMemory("orders", 1)}
		a := fixture.Start(t, fixture.Config(s))
		o, _ := fixture.OnDemand(t, s)
		if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrPoolExhausted) {
			t.Fatalf("before the outage: got %v, want %v", err, lease.ErrPoolExhausted)
		}
		s.gone.Store(true)
		fixture.Wait(time.Second)
		for range 60 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := o.Refresh(ctx); !errors.Is(err, lease.ErrSuspended) {
				t.Errorf("in the outage: got %v, want %v", err, lease.ErrSuspended)
			}
			cancel()
			fixture.Wait(5 * time.Second)
		}
		s.gone.Store(false)
		if err := o.Refresh(t.Context()); !errors.Is(err, lease.ErrPoolExhausted) {
			t.Errorf("after the outage: got %v, want %v", err, lease.ErrPoolExhausted)
		}
		fixture.Wait(3 * time.Second)
		if _, err := a.Lease(); err != nil {
			t.Errorf("the holder: got %v, want its lease after the outage", err)
		}
	})
}
