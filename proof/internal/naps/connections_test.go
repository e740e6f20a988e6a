package naps_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// death is what happens to a connection while its process is frozen.
type death int32

const (
	alive  death = iota
	closed       // the peer closes the connection: FIN
	reset        // the next packet is answered with RST
	hole         // packets vanish, and nothing answers
)

// gateway forwards connections, and counts the requests that its clients send.
type gateway struct {
	address, server string
	requests        atomic.Int64
	lost            atomic.Int64 // requests that were lost with their connection
	midway          atomic.Int32 // how the next request's connection dies, once the server has answered

	mu    sync.Mutex
	lines []*line
}

// line is one connection through the gateway.
type line struct {
	client, server net.Conn
	death          atomic.Int32
}

func newGateway(t *testing.T, server string) *gateway {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{address: "http://" + l.Addr().String(), server: server}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", server)
			if err != nil {
				_ = c.Close()
				continue
			}
			n := &line{client: c, server: s}
			g.mu.Lock()
			g.lines = append(g.lines, n)
			g.mu.Unlock()
			running.Go(func() { g.up(n) })
			running.Go(func() { g.down(n) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		g.mu.Lock()
		for _, n := range g.lines {
			n.end(closed)
			_ = n.client.Close()
		}
		g.mu.Unlock()
		running.Wait()
	})
	return g
}

// end makes a connection die.
func (n *line) end(how death) {
	switch how {
	case closed:
		_ = n.client.Close()
	case reset:
		_ = n.client.(*net.TCPConn).SetLinger(0)
		_ = n.client.Close()
	case hole:
		n.death.Store(int32(hole))
	}
	_ = n.server.Close()
}

// up carries requests to the server.
func (g *gateway) up(n *line) {
	buffer := make([]byte, 64<<10)
	for {
		size, err := n.client.Read(buffer)
		if err != nil {
			_ = n.server.Close()
			return
		}
		if bytes.HasPrefix(buffer[:size], []byte("POST ")) {
			g.requests.Add(1)
		}
		switch death(n.death.Load()) {
		case reset:
			g.lost.Add(1)
			n.end(reset)
			return
		case hole:
			g.lost.Add(1)
			continue
		}
		_, _ = n.server.Write(buffer[:size])
	}
}

// down carries answers to the client.
func (g *gateway) down(n *line) {
	buffer := make([]byte, 64<<10)
	for {
		size, err := n.server.Read(buffer)
		if err != nil {
			if death(n.death.Load()) == alive {
				_ = n.client.Close()
			}
			return
		}
		if how := death(g.midway.Swap(0)); how != alive {
			g.lost.Add(1)
			n.end(how)
			return
		}
		_, _ = n.client.Write(buffer[:size])
	}
}

// kill makes all current connections die.
func (g *gateway) kill(how death) (lines int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.lines {
		if how == reset {
			n.death.Store(int32(reset))
		} else {
			n.end(how)
		}
	}
	return len(g.lines)
}

// embeddedPool starts a server with a pool, behind a gateway.
func embeddedPool(t *testing.T) (g *gateway, table string) {
	t.Helper()
	direct := dynamotest.Embedded(t)
	table = dynamotest.CreateTable(t, direct)
	if _, err := leasepool.Open(lease.NewDynamoDB(direct, table), "orders").Seed(t.Context(), leasepool.Spec{Size: 8}); err != nil {
		t.Fatal(err)
	}
	endpoint, err := url.Parse(aws.ToString(direct.Options().BaseEndpoint))
	if err != nil {
		t.Fatal(err)
	}
	return newGateway(t, endpoint.Host), table
}

// If a freeze kills a connection, that costs one retry, and the invocation does not fail.
// This is so for an idle connection and for a connection whose answer was not read yet,
// with the agent's own client and with the user's client.
func TestFreezeKillsConnection(t *testing.T) {
	for name, how := range map[string]death{"closed": closed, "reset": reset, "hole": hole} {
		for _, own := range []bool{true, false} {
			for _, midway := range []bool{false, true} {
				title := name + map[bool]string{true: "/agent's client", false: "/user's client"}[own] + map[bool]string{true: "/midway", false: "/idle"}[midway]
				t.Run(title, func(t *testing.T) { freezeKills(t, how, own, midway) })
			}
		}
	}
}

func freezeKills(t *testing.T, how death, own, midway bool) {
	g, table := embeddedPool(t)
	var user *dynamodb.Client
	if own {
		t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", g.address)
	} else {
		user = userClient(t, g.address)
	}
	o, clock := fixture.OnDemand(t, nil, func(c *lease.Config) {
		if c.Table = table; user != nil {
			c.Store = lease.NewDynamoDB(user, table)
		}
	})
	fixture.Refresh(t, o)
	ids, err := snowflake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	first := next(t, o, ids)
	node := o.NodeID()
	if user != nil { // the handler's own concurrent requests leave more connections behind
		together(t, user, table, 8)
	}

	clock.Jump(time.Hour)
	if midway {
		g.midway.Store(int32(how))
	} else if g.kill(how) == 0 {
		t.Fatal("no connection was there to kill")
	}
	g.requests.Store(0)
	began := time.Now()
	id := next(t, o, ids)
	t.Logf("the invocation after the freeze: %d requests, %v", g.requests.Load(), time.Since(began).Round(time.Millisecond))
	// Only requests that were lost are counted, since on a machine under load, a slow
	// request may be repeated.
	if got := g.lost.Load(); got > 1 {
		t.Errorf("requests that died with their connection: got %d, want 1 at most, for one retry", got)
	}
	if o.NodeID() != node || id <= first {
		t.Errorf("after the freeze: got node ID %d and ID %d, want %d again and an ID above %d", o.NodeID(), id, node, first)
	}
}

// whole sends bodies without their WriteTo method, since that method sometimes breaks
// connections (aws-sdk-go-v2 issue 1825).
type whole struct{ *http.Transport }

func (w whole) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r = r.WithContext(r.Context())
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return w.Transport.RoundTrip(r)
}

// userClient returns a client that the user's handler shares with the agent.
func userClient(t *testing.T, endpoint string) *dynamodb.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 10}
	t.Cleanup(transport.CloseIdleConnections)
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint), HTTPClient: &http.Client{Transport: whole{transport}},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), Retryer: aws.NopRetryer{},
	})
}

// together sends the given number of requests at the same time, and waits until their
// connections are idle.
func together(t *testing.T, client *dynamodb.Client, table string, requests int) {
	t.Helper()
	idle := make(chan error, requests)
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{PutIdleConn: func(err error) { idle <- err }})
	fixture.Together(requests, func(int) {
		if _, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table}); err != nil {
			t.Error(err)
		}
	})
	for range requests {
		if err := <-idle; err != nil {
			t.Error(err)
		}
	}
}
