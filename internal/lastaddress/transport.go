// Package lastaddress lets a client of a server outlast an outage of the DNS: it connects
// to the addresses that answered last.
package lastaddress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// mostHosts and mostAddresses bound the memory. A client uses one host, or two if
	// the SDK has learned the account's own endpoint.
	mostHosts, mostAddresses = 4, 8
	// slowName is how long resolving the name may take while addresses are known: a
	// renewal that waits longer for a hanging DNS has no time left for its request.
	slowName = 300 * time.Millisecond
	// slowAddress is how long connecting to each of the known addresses may take.
	slowAddress = time.Second
)

// Variable is the environment variable that turns off the last known addresses.
const Variable = "NODELEASE_LAST_ADDRESSES"

// Transport is a transport that remembers the addresses at which the hosts of its
// requests answered, and connects to them when a name cannot be resolved: during an
// outage of the DNS, or one that empties a record, the servers usually keep running.
//
// An address is used for a host only if it has answered an https request to that host, so
// the host's certificate was checked there before. The transport checks the certificate
// on each new connection as always. Addresses are not remembered for requests through a
// proxy, since such requests resolve the proxy's name.
type Transport struct {
	*http.Transport
	resolve func(ctx context.Context, network, address string) (net.Conn, error) // dials a name

	mu    sync.Mutex
	hosts map[string][]netip.AddrPort // by host and port, the last to answer first
}

// Remember returns t with a memory for addresses, or only t if [Variable] is off.
func Remember(t *http.Transport) http.RoundTripper {
	if os.Getenv(Variable) == "off" {
		return t
	}
	a := &Transport{Transport: t, resolve: t.DialContext, hosts: map[string][]netip.AddrPort{}}
	if a.resolve == nil {
		a.resolve = new(net.Dialer).DialContext
	}
	t.DialContext = a.dial
	return a
}

// RoundTrip implements [http.RoundTripper].
func (a *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	host := a.teaches(r)
	if host == "" {
		return a.Transport.RoundTrip(r)
	}
	var at netip.AddrPort
	var mu sync.Mutex
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		mu.Lock()
		defer mu.Unlock()
		if tcp, ok := c.Conn.RemoteAddr().(*net.TCPAddr); ok {
			at = netip.AddrPortFrom(tcp.AddrPort().Addr().Unmap(), tcp.AddrPort().Port())
		}
	}}
	res, err := a.Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err == nil {
		mu.Lock()
		defer mu.Unlock()
		a.answered(host, at)
	}
	return res, err
}

// teaches returns the host and port of a request if its answer will show that an address
// belongs to that host; empty if it will not.
func (a *Transport) teaches(r *http.Request) string {
	if r.URL.Scheme != "https" || net.ParseIP(r.URL.Hostname()) != nil {
		return ""
	}
	if a.Proxy != nil {
		if proxy, err := a.Proxy(r); err != nil || proxy != nil {
			return ""
		}
	}
	port := r.URL.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(r.URL.Hostname(), port)
}

// answered remembers that a host has answered at an address.
func (a *Transport) answered(host string, at netip.AddrPort) {
	if !at.IsValid() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.hosts[host]
	if len(known) > 0 && known[0] == at || known == nil && len(a.hosts) >= mostHosts {
		return
	}
	known = slices.DeleteFunc(slices.Clone(known), func(other netip.AddrPort) bool { return other == at })
	known = slices.Insert(known, 0, at)
	a.hosts[host] = known[:min(len(known), mostAddresses)]
}

// known returns the addresses at which a host has answered, the last one first.
func (a *Transport) known(host string) []netip.AddrPort {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hosts[host]
}

// dial connects to a host by its name. If the name has no address, or is not resolved
// soon, dial connects to the known addresses. If none of them answers, dial waits until
// the name is resolved, since the addresses may be old and the DNS only slow.
func (a *Transport) dial(ctx context.Context, network, host string) (net.Conn, error) {
	known := a.known(host)
	if len(known) == 0 {
		return a.resolve(ctx, network, host)
	}
	named, cancel := context.WithCancel(ctx)
	byName, resolved := a.resolving(named, network, host)
	slow := time.NewTimer(slowName)
	defer slow.Stop()
	var name dialed
	select {
	case <-slow.C:
	case <-resolved:
		if name = <-byName; name.err == nil || !nameless(name.err) || ctx.Err() != nil {
			cancel()
			return name.conn, name.err
		}
	}
	for _, at := range known {
		one, done := context.WithTimeout(ctx, slowAddress)
		conn, err := a.resolve(one, network, at.String())
		done()
		if err == nil {
			cancel()
			if name.err == nil {
				go func() { (<-byName).close() }()
			}
			return conn, nil
		}
	}
	if name.err == nil {
		name = <-byName
	}
	cancel()
	return name.conn, name.err
}

// dialed is the result of a dial.
type dialed struct {
	conn net.Conn
	err  error
}

func (d dialed) close() {
	if d.conn != nil {
		_ = d.conn.Close()
	}
}

// resolving dials a name, and sends the result to the first channel. The second channel
// is closed when the name's addresses are known, or when there is a result, whichever
// comes first.
func (a *Transport) resolving(ctx context.Context, network, host string) (<-chan dialed, <-chan struct{}) {
	byName, resolved := make(chan dialed, 1), make(chan struct{})
	var once sync.Once
	done := func() { once.Do(func() { close(resolved) }) }
	go func() {
		trace := &httptrace.ClientTrace{DNSDone: func(httptrace.DNSDoneInfo) { done() }}
		conn, err := a.resolve(httptrace.WithClientTrace(ctx, trace), network, host)
		byName <- dialed{conn, err}
		done()
	}()
	return byName, resolved
}

// nameless reports whether a connection failed because its name currently has no address.
func nameless(err error) bool {
	var name *net.DNSError
	return errors.As(err, &name)
}
