package ui

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

func get(s *Server, method, path, host string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func TestEveryAnswerHasItsHeaders(t *testing.T) {
	s := New(Options{Source: leasetest.NewMemory("orders", 4), Pool: "orders", Every: time.Second})
	for path, kind := range map[string]string{
		"/": "text/html", "/app.js": "text/javascript", "/look.css": "text/css", "/icon.svg": "image/svg+xml",
		"/vendor/uplot/uPlot.iife.min.js": "text/javascript", "/find?q=a": "application/json", "/nothing": "text/plain",
	} {
		res := get(s, http.MethodGet, path, "127.0.0.1:4711")
		if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, kind) {
			t.Errorf("%s: got Content-Type %s", path, got)
		}
		csp := res.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: got %s, want default-src and frame-ancestors 'none', and nothing unsafe", path, csp)
		}
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s: %s: got %q, want %q", path, name, got, want)
			}
		}
		if res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s may be read by other sites", path)
		}
	}
}

func TestOnlyLooking(t *testing.T) {
	s := New(Options{Source: leasetest.NewMemory("orders", 4), Pool: "orders", Every: time.Second})
	for _, path := range []string{"/", "/events", "/find"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "CLAIM"} {
			res := get(s, method, path, "localhost")
			if res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %s, want StatusCode MethodNotAllowed and GET, HEAD", method, path, res.Status)
			}
		}
		if res := get(s, http.MethodHead, path, "localhost"); res.StatusCode != http.StatusOK {
			t.Errorf("HEAD %s: %s, want StatusCode OK", path, res.Status)
		}
	}
}

// Requests for other hosts are refused. If a site's name was rebound to 127.0.0.1, the
// browser sends that name as the host.
func TestOtherHostsAreRefused(t *testing.T) {
	s := New(Options{Source: leasetest.NewMemory("orders", 4), Pool: "orders", Every: time.Second})
	for _, host := range []string{"evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1:80", "0.0.0.0", "", "[2001:db8::1]:80"} {
		for _, path := range []string{"/", "/events", "/find"} {
			if res := get(s, http.MethodGet, path, host); res.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("%s of host %q: %s, want StatusCode MisdirectedRequest", path, host, res.Status)
			}
		}
	}
	for _, host := range []string{"localhost", "localhost:80", "127.0.0.1:4711", "127.1.2.3", "[::1]:80", "[::1]"} {
		if res := get(s, http.MethodGet, "/", host); res.StatusCode != http.StatusOK {
			t.Errorf("host %q: %s, want StatusCode OK", host, res.Status)
		}
	}
}

func TestListenRefusesOtherAddresses(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0", "127.0.0.1"} {
		if l, err := Listen(addr); err == nil {
			l.Close()
			t.Errorf("%q was opened", addr)
		}
	}
}

// Over a real connection, the page receives the whole pool, a change, and the end of the
// server.
func TestEventsOverHTTP(t *testing.T) {
	store := &table{Memory: leasetest.NewMemory("orders", 4)}
	s := New(Options{Source: store, Pool: "orders", Every: 10 * time.Millisecond})
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	url := "http://" + l.Addr().String()

	res, err := http.Get(url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("got %s, want text/event-stream", got)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	until := func(what func(line string) bool) {
		for lines.Scan() {
			if what(lines.Text()) {
				return
			}
		}
		t.Fatal("the stream ended", lines.Err())
	}
	until(func(line string) bool { return line == "event: all" })
	store.claim(t, 2, "api/2", time.Hour)
	until(func(line string) bool { return strings.Contains(line, `"task":"api/2"`) })

	found, err := http.Get(url + "/find?q=API")
	if err != nil {
		t.Fatal(err)
	}
	defer found.Body.Close()
	var m foundMessage
	if err := json.NewDecoder(found.Body).Decode(&m); err != nil || m.Total != 1 || m.First[0].ID != 2 || m.Groups[0] != 1 {
		t.Errorf("got %+v, %v, want node ID 2 in one group", m, err)
	}

	cancel()
	until(func(line string) bool { return line == "event: end" })
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	m := model{pool: protocol.PoolItem{Size: 4}}
	at := time.Unix(1_700_000_000, 0)
	m.read(0, protocol.Group{Leases: []protocol.Lease{
		{NodeID: 0, ReservedUntil: at},
		{NodeID: 1, Holder: "s-1", Task: "arn:aws:ecs:task/API-2", ExpiresAt: at.Add(time.Minute), Metadata: map[string]string{"zone": "eu-1b"}},
		{NodeID: 2, Holder: "s-2", Task: "worker", ExpiresAt: at.Add(time.Minute)},
	}}, at, newChange())
	for query, want := range map[string][]int{
		"": {1, 2}, "api": {1}, "s-": nil, "s-2": {2}, "session=s-1": {1}, "ZONE=EU": {1}, "state=held zone=eu": {1}, "task=worker": {2}, "node=2": {2}, "free": {0}, "missing": {3}, "2": {2, 1}, "no match": nil, " worker ": {2},
	} {
		var got []int
		for _, n := range m.find(query) {
			got = append(got, n.ID)
		}
		if len(got) != len(want) {
			t.Errorf("%q: got %v, want %v", query, got, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: got %v, want %v", query, got, want)
				break
			}
		}
	}
}

func TestSinceIsWhenTheSessionBegan(t *testing.T) {
	for session, want := range map[string]int64{
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398f": 1645557742000, // the example of RFC 9562
		"f47ac10b-58cc-4372-a567-0e02b2c3d479": 0,             // a random one
		"somebody":                             0,
	} {
		if got := began(session); got != want {
			t.Errorf("%s: got the time %d, want %d", session, got, want)
		}
	}
}

// weight returns how many bytes a browser loads for the page.
func weight(t *testing.T) (sum int) {
	t.Helper()
	for name := range packed() {
		if strings.HasSuffix(name, "/LICENSE") {
			continue
		}
		r := httptest.NewRequest(http.MethodGet, name, nil)
		r.Host = "127.0.0.1:4711"
		r.Header.Set("Accept-Encoding", "gzip, deflate, br")
		w := httptest.NewRecorder()
		New(Options{Pool: "orders"}).ServeHTTP(w, r)
		res := w.Result()
		if got := res.Header.Get("Content-Encoding"); got != "gzip" || w.Code != http.StatusOK {
			t.Errorf("%s: status %d, encoding %q, want 200 and gzip", name, w.Code, got)
		}
		sum += w.Body.Len()
		unpacked, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(unpacked)
		want, wrong := fs.ReadFile(static(), name[1:])
		if err != nil || wrong != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d (%v, %v)", name, len(got), len(want), err, wrong)
		}
	}
	return sum
}

// Requests from other sites are refused, except for a link to the page. Browsers send which
// site a request comes from.
func TestOtherSitesAreRefused(t *testing.T) {
	s := New(Options{Source: leasetest.NewMemory("orders", 4), Pool: "orders", Every: time.Second})
	for _, c := range []struct {
		path   string
		header map[string]string
		want   int
	}{
		{"/find", nil, http.StatusOK}, // from a program, not a browser
		{"/find", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:80"}, http.StatusOK},
		{"/", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, http.StatusOK},
		{"/", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, http.StatusOK},
		{"/", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, http.StatusForbidden},
		{"/find", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, http.StatusForbidden},
		{"/events", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, http.StatusForbidden},
		{"/history", map[string]string{"Sec-Fetch-Site": "same-site"}, http.StatusForbidden},
		{"/find", map[string]string{"Origin": "http://localhost:8080"}, http.StatusForbidden},
		{"/find", map[string]string{"Origin": "null"}, http.StatusForbidden},
		{"/app.js", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, http.StatusForbidden},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Host = "localhost:80"
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r.WithContext(ended()))
		if w.Code != c.want {
			t.Errorf("%s with %v: got %d, want %d", c.path, c.header, w.Code, c.want)
		}
	}
}

// ended returns the context of a page that was closed.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A holder's texts are cut and escaped before they are shown, and
// its session cannot be guessed by searching for parts of it.
func TestForeignText(t *testing.T) {
	m := model{pool: protocol.PoolItem{Size: 1}}
	at := time.Unix(1_700_000_000, 0)
	const session = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
	metadata := map[string]string{"evil\x1b[2J": "\u202e" + strings.Repeat("x", 100_000)}
	for i := range 1000 {
		metadata["k"+strconv.Itoa(i)] = "v"
	}
	m.read(0, protocol.Group{Leases: []protocol.Lease{
		{NodeID: 0, Holder: session, Task: strings.Repeat("t", 100_000) + "\n", ExpiresAt: at.Add(time.Minute), Metadata: metadata},
	}}, at, newChange())
	body, err := json.Marshal(m.groups[0].nodeIDs[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > 4000 || strings.Contains(string(body), session) || strings.Contains(string(body), `\u001b`) || strings.Contains(string(body), "\u202e") {
		t.Errorf("got %d bytes: %.300s", len(body), body)
	}
	for query, want := range map[string]int{session: 1, "0c07398f": 1, "session=0c07398f": 1, "017f22e2": 0, "dc0c0c07398f": 0, "0c07398": 0, "session=": 0} {
		if got := len(m.find(query)); got != want {
			t.Errorf("%q finds %d, want %d", query, got, want)
		}
	}
}

func TestOrder(t *testing.T) {
	all := func() []*nodeID {
		return []*nodeID{{ID: 1, Task: "api/10", Expires: 30}, {ID: 2, Task: "api/9", Expires: 20}, {ID: 3}, {ID: 4, Task: "api/9", Expires: 40}}
	}
	for by, want := range map[string][]int{"": {1, 2, 3, 4}, "-n": {4, 3, 2, 1}, "task": {2, 4, 1, 3}, "-task": {1, 2, 4, 3}, "expires": {2, 1, 4, 3}, "-expires": {4, 1, 2, 3}, "nonsense": {1, 2, 3, 4}} {
		found := all()
		order(found, by)
		var got []int
		for _, n := range found {
			got = append(got, n.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", by, got, want)
		}
	}
}

func TestHistoryIsBoundedAndSearched(t *testing.T) {
	var s Server
	for i := range mostKept + mostKept/10 + 1 {
		s.keep(news{NodeID: i % 100, Kind: []string{"claimed", "released"}[i%2], Text: "api/" + strconv.Itoa(i)})
	}
	if got := len(s.kept); got != mostKept {
		t.Errorf("got %d events, want %d", got, mostKept)
	}
	found, total := s.kept.find("7 Released", 5)
	if len(found) != 5 || total != mostKept/100 || found[0].Text != "api/21907" {
		t.Errorf("got %d of %d, first %+v", len(found), total, found[0])
	}
	if found, total := s.kept.find("nothing", 5); found == nil || total != 0 {
		t.Errorf("got %v of %d", found, total)
	}
}
