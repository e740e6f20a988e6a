package embeddeddb

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// raw sends bytes unchanged over a connection of its own, and returns the answers.
func raw(tb testing.TB, endpoint, request string) string {
	tb.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "http://"))
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close()
	go func() { // an answer may come, and the connection end, before everything is sent
		_, _ = io.WriteString(c, request)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// post returns a request as a client sends it.
func post(operation, body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: localhost:8000\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Target: DynamoDB_20120810.%s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", operation, len(body), body)
}

func listening(tb testing.TB) (s *Server, endpoint string) {
	tb.Helper()
	s, err := New(Options{})
	if err == nil {
		endpoint, err = s.Listen("127.0.0.1:0")
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	if got := raw(tb, endpoint, post("CreateTable", createLeases)); !strings.HasPrefix(got, "HTTP/1.1 200 OK") {
		tb.Fatal(got)
	}
	return s, endpoint
}

// Only programs on this machine that speak DynamoDB's protocol exactly are answered.
func TestRawRequests(t *testing.T) {
	s, endpoint := listening(t)
	get := func(from, to string) string {
		return strings.Replace(post("DescribeTable", `{"TableName":"leases"}`), from, to, 1)
	}
	for _, c := range []struct{ request, want string }{
		{get("", ""), "200 OK"},
		{get("localhost:8000", "127.0.0.1"), "200 OK"},
		{get("localhost:8000", "[::1]:8000"), "200 OK"},
		{get("localhost:8000", "LOCALHOST"), "200 OK"},
		{get("application/x-amz-json-1.0", "application/json; charset=utf-8"), "200 OK"},
		{get("localhost:8000", "rebound.example.org:8000"), "403 Forbidden"},
		{get("localhost:8000", "127.0.0.1.example.org"), "403 Forbidden"},
		{get("localhost:8000", "169.254.169.254"), "403 Forbidden"},
		{get("localhost:8000", ""), "403 Forbidden"},
		{get("Content-Type", "Origin: null\r\nContent-Type"), "403 Forbidden"},
		{get("Content-Type", "Origin: http://localhost:8000\r\nContent-Type"), "403 Forbidden"},
		{get("Content-Type", "Origin:\r\nContent-Type"), "403 Forbidden"},
		{get("Content-Type", "Origin:\r\nOrigin: http://localhost:8000\r\nContent-Type"), "403 Forbidden"},
		{get("POST", "GET"), "404 Not Found"},
		{get("POST", "PUT"), "404 Not Found"},
		{get("POST / ", "POST /leases "), "404 Not Found"},
		{get("application/x-amz-json-1.0", "text/plain"), "404 Not Found"},
		{get("DynamoDB_20120810.", ""), "UnknownOperationException"},
		{get("DynamoDB_20120810.", "DynamoDB_20111205."), "UnknownOperationException"},
		{get("DescribeTable", "describeTable"), "UnknownOperationException"},
		{get("Content-Type", "X-Long: "+strings.Repeat("x", 32<<10)+"\r\nContent-Type"), "431 Request Header Fields Too Large"},
		{strings.Replace(post("DescribeTable", `{"TableName":"leases"}`), "Content-Length: 22", "Content-Length: 23", 1), "the body ended early"},
		{post("DescribeTable", strings.Repeat(" ", maxBody)+`{"TableName":"leases"}`), "413 Request Entity Too Large"},
	} {
		got := raw(t, endpoint, c.request)
		if !strings.Contains(got, c.want) {
			t.Errorf("%.300q: got %.600q, want %q", c.request, got, c.want)
		}
		for _, header := range []string{"Cross-Origin-Resource-Policy: same-origin", "X-Content-Type-Options: nosniff"} {
			if ours := !strings.HasPrefix(c.want, "4") || strings.HasPrefix(c.want, "403") || strings.HasPrefix(c.want, "404"); ours && strings.HasPrefix(got, "HTTP/1.1 ") && !strings.Contains(got, header) && !strings.Contains(got, "Connection: close") {
				t.Errorf("%.300q: got %.600q, which lacks %s", c.request, got, header)
			}
		}
	}
	if len(s.large) > 0 {
		t.Errorf("%d slots for long requests are still in use", len(s.large))
	}
}

// A client that sends all of a long body before it reads the answer is told why the server
// refuses the body.
func TestLongBodyRefused(t *testing.T) {
	server := httptest.NewServer(open(t, "")) // without time limits: twelve megabytes may take long on a busy machine
	defer server.Close()
	for operation, want := range map[string]string{"Scan": "413 Request Entity Too Large", "ListTables": "400 Bad Request"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, post(operation, strings.Repeat("x", 3*maxBody))); err != nil {
			t.Errorf("%s: %v", operation, err)
		}
		if answer, err := io.ReadAll(c); err != nil || !strings.Contains(string(answer), want) {
			t.Errorf("%s: got %.200q, %v, want %q", operation, answer, err, want)
		}
	}
}

// processorTime returns the processor time that this process has used, which depends less on other programs than elapsed time.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A document that another reader could understand differently is refused, and changes nothing.
func TestStrictJSON(t *testing.T) {
	s := open(t, "")
	must(t, s, "CreateTable", createLeases)
	item := func(more string) string {
		return `{"TableName":"leases","Item":{"pool_group":{"S":"p#0"},"node_id":{"N":"1"}` + more + `}}`
	}
	deep := func(open, inner, end string, n int) string {
		return item(`,"d":` + strings.Repeat(open, n) + inner + strings.Repeat(end, n))
	}
	for _, c := range []struct{ body, want string }{
		{item(``) + `x`, "after top-level value"},
		{item(``) + `{}`, "after top-level value"},
		{item(`,"a":{"S":"` + "\xff" + `"}`), "not valid UTF-8"},
		{item(`,"` + "\xc3\x28" + `":{"S":"x"}`), "not valid UTF-8"},
		{item(`,"a":{"S":"\ud800"}`), "not valid UTF-8"},
		{item(`,"a":{"S":"\\\ud800x"}`), "not valid UTF-8"},
		{item(`,"a":{"S":"\udc00\ud800"}`), "not valid UTF-8"},
		{item(`,"a":{"S":"1"},"a":{"S":"2"}`), `the member \"a\" appears twice`},
		{item(`,"a":{"S":"1","S":"2"}`), `the member \"S\" appears twice`},
		{`{"TableName":"leases","TableName":"leases","Item":{}}`, `the member \"TableName\" appears twice`},
		{item(`,"a":{"s":"1"}`), `does not support \"s\"`},
		{strings.ToLower(item(``)), `does not support \"tablename\"`},
		{strings.Replace(item(``), `{`, `{"Unknown":7,"Item":{},`, 1), `does not support \"Unknown\"`},
		{strings.Replace(item(``), `"leases"`, `7`, 1), "SerializationException"},
		{item(`,"a":{"N":1}`), "SerializationException"},
		{item(`,"a":{"S":"a","N":"1"}`), "more than one datatypes set"},
		{item(`,"a":{}`), "Supplied AttributeValue is empty"},
		{item(`,"a":null`), "Supplied AttributeValue is empty"},
		{item(`,"a":{"S":null}`), "Supplied AttributeValue is empty"},
		{item(`,"":{"S":"1"}`), "Empty attribute name"},
		{deep(`{"M":{"a":`, `{"S":""}`, `}}`, 32), "Nesting Levels have exceeded supported limits"},
		{deep(`{"L":[`, `{"S":""}`, `]}`, 32), "Nesting Levels have exceeded supported limits"},
		{deep(`[`, ``, `]`, 1_000_000), "nested too deep"},
		{deep(`{"":`, `{}`, `}`, 200_000), "nested too deep"},
		{item(`,"a":{"N":"` + strings.Repeat("1", 500_000) + `"}`), "more than 38 significant digits"},
		{item(`,"a":{"N":"1e` + strings.Repeat("9", 900) + `"}`), "Number overflow"},
		{item(`,"a":{"N":"1e-99999999999999999999"}`), "Number underflow"},
		{item(`,"a":{"S":"` + strings.Repeat("x", maxItem) + `"}`), "Item size has exceeded the maximum allowed size"},
		{item(`,"` + strings.Repeat("x", 65536) + `":{"S":""}`), "less than 65536 bytes"},
		{strings.Replace(item(``), "p#0", strings.Repeat("x", 2049), 1), "Size of hashkey has exceeded the maximum size limit of2048 bytes"},
	} {
		began := processorTime(t)
		w := call(s, "PutItem", c.body)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%.200q: got %d %.300s, want %q", c.body, w.Code, w.Body, c.want)
		}
		if took := processorTime(t) - began; took > 2*time.Second {
			t.Errorf("%.100q took %v", c.body, took)
		}
	}
	if got := contents(t, s); got != `{"leases":null}` {
		t.Errorf("the refused request had an effect: %s", got)
	}
	must(t, s, "PutItem", item(`,"a":{"S":"`+strings.Repeat("x", maxItem-100)+`"}`))
	must(t, s, "PutItem", item(`,"a":{"S":"\ud83d\ude00 \\ud800 `+"\ufffd"+`"}`))
	must(t, s, "PutItem", strings.Replace(deep(`{"M":{"a":`, `{"S":""}`, `}}`, 31), "p#0", strings.Repeat("x", 2048), 1))
}

// An update also may not make an item too large, and a page has at most 1 MB.
func TestSizes(t *testing.T) {
	s := open(t, "")
	must(t, s, "CreateTable", createLeases)
	for n := range 6 {
		set := `,"UpdateExpression":"SET l = list_append(if_not_exists(l, :0), :v)","ExpressionAttributeValues":{":0":{"L":[]},":v":{"L":[{"S":"` + strings.Repeat("x", 250<<10) + `"}]}}}`
		must(t, s, "UpdateItem", `{`+leaseKey(3*n)+set)
		if w := call(s, "UpdateItem", `{`+leaseKey(3*n)+set); !strings.Contains(w.Body.String(), "Item size to update has exceeded the maximum allowed size") {
			t.Errorf("%d %.200s", w.Code, w.Body)
		}
	}
	for operation, more := range map[string]string{"Scan": "", "Query": `,"KeyConditionExpression":"pool_group = :p","ExpressionAttributeValues":{":p":{"S":"p#0"}}`} {
		var pages []int
		for start := ""; ; {
			var page struct {
				Count            int
				LastEvaluatedKey json.RawMessage
			}
			if err := json.Unmarshal([]byte(must(t, s, operation, `{"TableName":"leases"`+more+start+`}`)), &page); err != nil {
				t.Fatal(err)
			}
			pages = append(pages, page.Count)
			if page.LastEvaluatedKey == nil {
				break
			}
			start = `,"ExclusiveStartKey":` + string(page.LastEvaluatedKey)
		}
		if got := fmt.Sprint(pages); got != "[4 2]" {
			t.Errorf("%s: pages of %s items, want 4 and 2: 1 MB each", operation, got)
		}
	}
}

// FuzzHTTP sends raw bytes to the server. The server answers every request with HTTP, never
// breaks, and keeps only items that DynamoDB could keep.
func FuzzHTTP(f *testing.F) {
	f.Add([]byte(post("UpdateItem", claim)))
	f.Add([]byte(post("PutItem", `{"TableName":"leases","Item":{"pool_group":{"S":"p"},"node_id":{"N":"1e2"},"m":{"M":{"l":{"L":[{"BOOL":true}]}}}}}`)))
	f.Add([]byte(post("Query", `{"TableName":"leases","KeyConditionExpression":"(:p = pool_group)","ExpressionAttributeValues":{":p":{"S":"p#0"}},"Limit":1}`)))
	f.Add([]byte(post("Scan", `{"TableName":"leases","FilterExpression":"NOT (a BETWEEN :a AND b)","ExpressionAttributeValues":{":a":{"N":"-.5E3"}}}`)))
	f.Add([]byte(strings.Replace(post("CreateTable", createLeases), "Content-Length: ", "Transfer-Encoding: chunked\r\nX: ", 1)))
	f.Add([]byte("GET / HTTP/1.0\r\n\r\n"))
	s, endpoint := listening(f)
	f.Fuzz(func(t *testing.T, request []byte) {
		if got := raw(t, endpoint, string(request)); got != "" && !strings.HasPrefix(got, "HTTP/1.") {
			t.Errorf("got %q", got)
		}
		// The same bytes after a valid header reach the code behind the protocol.
		_, body, _ := bytes.Cut(request, []byte("\r\n\r\n"))
		for operation := range operations {
			w := call(s, operation, string(body))
			if !json.Valid(w.Body.Bytes()) || w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
				t.Errorf("%s: %d %s", operation, w.Code, w.Body)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, table := range s.tables {
			for i, row := range table.rows {
				if err := caught(row.check); err != nil || row.size() > maxItem || i > 0 && table.order(table.rows[i-1], row) >= 0 {
					t.Errorf("kept in %s: %v, %v", name, row, err)
				}
			}
		}
	})
}

// Each step of a request that a client can delay has a time limit.
func TestTimeLimits(t *testing.T) {
	whole := strings.Replace(post("DescribeTable", `{"TableName":"leases"}`), "Connection: close\r\n", "", 1)
	for name, c := range map[string]struct {
		sent  string
		limit time.Duration
	}{
		"nothing":     {"", 10 * time.Second},
		"header":      {whole[:60], 10 * time.Second},
		"body":        {whole[:len(whole)-1], 30 * time.Second},
		"idle":        {whole, 2 * time.Minute},
		"every tenth": {strings.Repeat(whole, 10), 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, "")
				must(t, s, "CreateTable", createLeases)
				l := pipes{accept: make(chan net.Conn), closed: make(chan struct{})}
				server, served := s.httpServer(), make(chan error)
				go func() { served <- server.Serve(l) }()
				ours, theirs := net.Pipe()
				l.accept <- theirs
				go func() { _, _ = io.WriteString(ours, c.sent) }()
				began := time.Now()
				_, _ = io.Copy(io.Discard, ours) // until the server hangs up
				if took := time.Since(began); took > c.limit+time.Second || took < c.limit-time.Second {
					t.Errorf("the connection ended after %v, want %v", took, c.limit)
				}
				_ = server.Close()
				<-served
			})
		})
	}
}

// raceMemory is the factor by which tests raise their memory limits.
var raceMemory = 1

// TestManyConnections checks that the server keeps working, with little memory, while some clients do
// nothing and the bodies of others never end. With -crowd there are as many clients as a hostile
// machine may have.
func TestManyConnections(t *testing.T) {
	idle, stalled, size := 500, 100, 100<<10
	if *crowd {
		idle, stalled, size = 10_000, 2_000, 1<<20
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < uint64(idle+stalled+100) {
		t.Skipf("NOT TESTED: a process can open %d files here, and this test needs %d", files.Cur, idle+stalled+100)
	}
	endpoint, pid := serve(t, filepath.Join(t.TempDir(), "data"))
	memory := func() (kilobytes int) {
		out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output()
		if err == nil {
			kilobytes, err = strconv.Atoi(strings.TrimSpace(string(out)))
		}
		if err != nil {
			t.Fatal(err)
		}
		return kilobytes
	}
	connect := func() net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	if got := raw(t, endpoint, post("CreateTable", createLeases)); !strings.Contains(got, "200 OK") {
		t.Fatal(got)
	}
	before := memory()
	whole := strings.Replace(post("DescribeTable", `{"TableName":"leases"}`), "Connection: close\r\n", "", 1)
	for range idle {
		c := connect()
		_, _ = io.WriteString(c, whole)
		r, err := http.ReadResponse(bufio.NewReaderSize(c, 1024), nil)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
	}
	for n := range stalled {
		promised := []int{smallBody, size}[n%2] // a request that is not large, and a large one
		head, _, _ := strings.Cut(post("PutItem", strings.Repeat("x", promised)), "\r\n\r\n")
		_, _ = io.WriteString(connect(), head+"\r\n\r\n"+strings.Repeat("x", min(promised, smallBody)-1)) // may fail if the request is refused already
	}
	for range 100 {
		if got := raw(t, endpoint, post("GetItem", `{`+leaseKey(1)+`}`)); !strings.Contains(got, "200 OK") {
			t.Fatalf("got %q", got)
		}
	}
	grown, most := memory()-before, raceMemory*((idle+stalled)*20+stalled*(smallBody>>10)+largeRequests*2*(maxBody>>10))
	t.Logf("%d idle connections and %d stalled bodies: %d KB more, limit %d", idle, stalled, grown, most)
	if grown > most {
		t.Errorf("memory grew by %d KB, limit %d", grown, most)
	}
}
