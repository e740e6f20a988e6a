package lastaddress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/certificate"
)

// nameserver answers for every name with 127.0.0.1, or fails in the way that set selects.
type nameserver struct {
	mu   sync.Mutex
	fail string        // "", empty, no such name, server failure, silent, unreachable, slow
	slow chan struct{} // closed when a slow server answers
	test *testing.T
}

func (n *nameserver) set(fail string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = fail
}

// dial connects a resolver to the server without a network, by a stream in which each
// message follows its length.
func (n *nameserver) dial(context.Context, string, string) (net.Conn, error) {
	n.mu.Lock()
	fail := n.fail
	n.mu.Unlock()
	if fail == "unreachable" {
		return nil, errors.New("network is unreachable")
	}
	ours, theirs := net.Pipe()
	n.test.Cleanup(func() { ours.Close() })
	go n.serve(ours, fail)
	return theirs, nil
}

func (n *nameserver) serve(c net.Conn, fail string) {
	for {
		length := make([]byte, 2)
		if _, err := io.ReadFull(c, length); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(length))
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		if fail == "silent" {
			continue
		}
		if fail == "slow" {
			<-n.slow
			fail = ""
		}
		end := 12 // end of the question, which is a name in parts, its type and class
		for query[end] != 0 {
			end += 1 + int(query[end])
		}
		end += 5
		answer := append([]byte(nil), query[:end]...)
		rcode := map[string]byte{"no such name": 3, "server failure": 2}[fail]
		answer[2], answer[3] = 0x81, 0x80|rcode
		clear(answer[6:12])
		if isA := query[end-3] == 1; fail == "" && isA {
			answer[7] = 1
			answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// place is a server for example.com and a client that finds it by a name server.
type place struct {
	names     *nameserver
	server    *httptest.Server
	asked     atomic.Int64
	other     atomic.Bool // the server has another host's certificate
	transport *http.Transport
	client    http.Client
	port      string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{names: &nameserver{test: t, slow: make(chan struct{})}}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { p.asked.Add(1) }))
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	strangers := certificate.Of(t, "other.example")
	p.server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if p.other.Load() {
			return &tls.Config{Certificates: []tls.Certificate{strangers}}, nil
		}
		return nil, nil // the server's own
	}}
	p.server.StartTLS()
	t.Cleanup(p.server.Close)
	roots := x509.NewCertPool() // both are trusted: only the name tells them apart
	roots.AddCert(p.server.Certificate())
	roots.AddCert(strangers.Leaf)
	p.transport = &http.Transport{
		DialContext:     (&net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: p.names.dial}}).DialContext,
		TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true, // each request makes a connection
	}
	p.client.Transport = Remember(p.transport)
	_, p.port, _ = net.SplitHostPort(p.server.Listener.Addr().String())
	return p
}

func (p *place) get(t *testing.T, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := p.client.Do(r)
	if err == nil {
		res.Body.Close()
	}
	return err
}

// However the DNS fails, requests reach the server where it answered last.
func TestLastKnownAddresses(t *testing.T) {
	for _, fail := range []string{"empty", "no such name", "server failure", "unreachable", "silent"} {
		t.Run(fail, func(t *testing.T) {
			p := newPlace(t)
			url := "https://example.com:" + p.port
			if err := p.get(t, url); err != nil {
				t.Fatal(err)
			}
			p.names.set(fail)
			for range 2 {
				if err := p.get(t, url); err != nil {
					t.Error(err)
				}
			}
			if got := p.asked.Load(); got != 3 {
				t.Errorf("the server was asked %d times, want 3", got)
			}
		})
	}
}

// A known address must prove that it still belongs to the host: a server with another
// host's certificate gets no request, even though the client trusts that certificate.
func TestLastKnownAddressesMustProveTheName(t *testing.T) {
	p := newPlace(t)
	url := "https://example.com:" + p.port
	if err := p.get(t, url); err != nil {
		t.Fatal(err)
	}
	p.names.set("empty")
	p.other.Store(true)
	var name x509.HostnameError
	if err := p.get(t, url); !errors.As(err, &name) || name.Host != "example.com" {
		t.Errorf("got %v, want a certificate for another name", err)
	}
	p.other.Store(false)
	if err := p.get(t, url); err != nil || p.asked.Load() != 2 {
		t.Errorf("%v, asked %d times, want 2", err, p.asked.Load())
	}
}

// A host has no known addresses if its name never had one, if it was only used over http,
// or if its server never proved its name. The addresses of other hosts are not used for
// it.
func TestUnknownNamesStayUnknown(t *testing.T) {
	p := newPlace(t)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	_, port, _ := net.SplitHostPort(plain.Listener.Addr().String())
	if err := p.get(t, "https://example.com:"+p.port); err != nil {
		t.Fatal(err)
	}
	if err := p.get(t, "http://example.com:"+port); err != nil {
		t.Fatal(err)
	}
	if err := p.get(t, "https://stranger.example:"+p.port); err == nil {
		t.Fatal("a server with another certificate was accepted")
	}
	p.names.set("no such name")
	for _, url := range []string{"https://www.example.com:" + p.port, "https://example.com:1", "http://example.com:" + port, "https://stranger.example:" + p.port} {
		var name *net.DNSError
		if err := p.get(t, url); !errors.As(err, &name) {
			t.Errorf("%s: got %v, want no address", url, err)
		}
	}
}

// An address that no longer answers is skipped. While the DNS works, no known address is
// used.
func TestLastKnownAddressesAreTriedInTurn(t *testing.T) {
	p := newPlace(t)
	host := "example.com:" + p.port
	if err := p.get(t, "https://"+host); err != nil {
		t.Fatal(err)
	}
	a := p.client.Transport.(*Transport)
	gone := netip.MustParseAddrPort("127.0.0.1:0") // where nothing can listen
	a.answered(host, gone)
	if err := p.get(t, "https://"+host); err != nil {
		t.Error(err)
	}
	a.answered(host, gone)
	p.names.set("empty")
	if err := p.get(t, "https://"+host); err != nil {
		t.Error(err)
	}
	a.mu.Lock()
	a.hosts[host] = a.hosts[host][1:]
	a.mu.Unlock()
	var name *net.DNSError
	if err := p.get(t, "https://"+host); !errors.As(err, &name) || !strings.Contains(err.Error(), "example.com") {
		t.Errorf("no address answers: got %v, want the error of the name", err)
	}
}

// If no known address answers, dial waits for a slow DNS: the addresses may be old.
func TestSlowNamesAreWaitedFor(t *testing.T) {
	p := newPlace(t)
	host := "example.com:" + p.port
	a := p.client.Transport.(*Transport)
	a.answered(host, netip.MustParseAddrPort("127.0.0.1:0")) // where nothing can listen
	resolve := a.resolve
	a.resolve = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != host { // the known address was tried
			defer close(p.names.slow)
		}
		return resolve(ctx, network, address)
	}
	p.names.set("slow")
	if err := p.get(t, "https://"+host); err != nil {
		t.Error(err)
	}
	if known := a.known(host); len(known) != 2 || known[0].Port() == 0 {
		t.Errorf("got %v, want the first address that answered", known)
	}
}

// The memory is bounded, in hosts and in addresses of each.
func TestLastKnownAddressesAreFew(t *testing.T) {
	a := &Transport{hosts: map[string][]netip.AddrPort{}}
	for host := range 2 * mostHosts {
		for i := range 3 * mostAddresses {
			a.answered(string(rune('a'+host)), netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 443))
		}
	}
	if len(a.hosts) != mostHosts {
		t.Errorf("%d hosts, want %d", len(a.hosts), mostHosts)
	}
	for host, known := range a.hosts {
		if len(known) != mostAddresses || known[0].Addr().As4()[3] != 3*mostAddresses-1 {
			t.Errorf("%s: %v, want the last %d, the newest first", host, known, mostAddresses)
		}
	}
}

// The memory for addresses can be turned off.
func TestLastKnownAddressesTurnedOff(t *testing.T) {
	t.Setenv(Variable, "off")
	p := newPlace(t)
	url := "https://example.com:" + p.port
	if err := p.get(t, url); err != nil {
		t.Fatal(err)
	}
	p.names.set("empty")
	if err := p.get(t, url); err == nil {
		t.Error("an address was remembered although this is turned off")
	}
}
