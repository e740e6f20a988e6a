package sidecar_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/app/sidecar"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// listening serves on the loopback interface, and returns the address.
func listening(t testing.TB, layout snowflake.Layout) string {
	t.Helper()
	l, err := sidecar.Listen("127.0.0.1:0", false, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, layout)
	ended := make(chan error, 1)
	go func() { ended <- sidecar.Serve(t.Context(), l, s) }() // the test's context ends before the cleanups run
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// raw sends bytes unchanged and returns the status of each answer.
func raw(t *testing.T, address, text string) (status []int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// An error is ignored, since the server may refuse the request before it has read all.
	_, _ = io.WriteString(conn, text)
	// If the client's input ended before the answer, the server would take the client for
	// gone and abandon the request. So the input ends after the answer, or at once if the
	// request is incomplete.
	end := func() { _ = conn.(*net.TCPConn).CloseWrite() }
	if !strings.Contains(text, "\r\n\r\n") {
		end()
	}
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			return status, body
		}
		end()
		b, _ := io.ReadAll(r.Body)
		status, body = append(status, r.StatusCode), string(b)
	}
}

// Requests that a browser may have sent on behalf of a web page are refused. Requests from
// other programs are not.
func TestOrigin(t *testing.T) {
	address := listening(t, snowflake.Default())
	_, port, _ := net.SplitHostPort(address)
	for request, want := range map[string]int{
		"GET /v1/node HTTP/1.1\r\nHost: 127.0.0.1:" + port:                                                200,
		"GET /v1/node HTTP/1.1\r\nHost: localhost":                                                        200,
		"GET /v1/node HTTP/1.1\r\nHost: LOCALHOST:1":                                                      200,
		"GET /v1/node HTTP/1.1\r\nHost: [::1]:" + port:                                                    200,
		"GET /v1/node HTTP/1.1\r\nHost: 127.1.2.3":                                                        200,
		"GET /v1/node HTTP/1.0\r\n":                                                                       200,
		"GET /v1/node HTTP/1.1\r\nHost: evil.example:" + port:                                             403,
		"GET /livez HTTP/1.1\r\nHost: evil.example":                                                       403,
		"GET /metrics HTTP/1.1\r\nHost: 192.0.2.1":                                                        403,
		"GET /v1/node HTTP/1.1\r\nHost: 127.0.0.1.evil.example":                                           403,
		"GET /v1/node HTTP/1.1\r\nHost: localhost.evil.example":                                           403,
		"GET http://evil.example/v1/node HTTP/1.1\r\nHost: 127.0.0.1":                                     403,
		"POST /v1/ids HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example":                        403,
		"POST /v1/ids HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: null":                                        403,
		"POST /v1/ids HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin:\r\nOrigin: https://evil.example":             403,
		"POST /v1/ids HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: cross-site":                          403,
		"POST /v1/ids HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded":     200,
		"OPTIONS /v1/ids HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example":                     403,
		"GET /v1/node HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example":                        403,
		"POST /v1/ids HTTP/1.1\r\nHost: evil.example:" + port + "\r\nOrigin: http://evil.example:" + port: 403,
	} {
		status, body := raw(t, address, request+"\r\nConnection: close\r\n\r\n")
		if !slices.Equal(status, []int{want}) {
			t.Errorf("%q: %v, want %d: %s", request, status, want, body)
		}
		var problem map[string]string
		if want >= 400 && (json.Unmarshal([]byte(body), &problem) != nil || problem["error"] == "" || problem["remedy"] == "") {
			t.Errorf("%q: %s", request, body)
		}
	}
}

// Whatever it receives, the sidecar answers with a status of the contract or closes the
// connection, and continues to answer other clients.
func TestHostile(t *testing.T) {
	address := listening(t, snowflake.Default())
	head := " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
	for request, want := range map[string]int{
		"POST /v1/ids?n=-1" + head + "\r\n":                                                    400,
		"POST /v1/ids?n=0" + head + "\r\n":                                                     400,
		"POST /v1/ids?n=" + head + "\r\n":                                                      400,
		"POST /v1/ids?n=1e3" + head + "\r\n":                                                   400,
		"POST /v1/ids?n=0x10" + head + "\r\n":                                                  400,
		"POST /v1/ids?n=65537" + head + "\r\n":                                                 400,
		"POST /v1/ids?n=99999999999999999999" + head + "\r\n":                                  400,
		"POST /v1/ids?n=%31" + head + "\r\n":                                                   200,
		"POST /v1/ids?n=%00" + head + "\r\n":                                                   400,
		"POST /v1/ids?n=1&n=1" + head + "\r\n":                                                 400,
		"POST /v1/ids?n=1;n=2" + head + "\r\n":                                                 400,
		"POST /v1/ids?m=1" + head + "\r\n":                                                     400,
		"POST /v1/ids?" + strings.Repeat("n", 101) + head + "\r\n":                             400,
		"POST /v1/ids" + head + "Content-Length: 1\r\n\r\nx":                                   413,
		"POST /v1/ids" + head + "Content-Length: 999999999999\r\n\r\nx":                        413,
		"POST /v1/ids" + head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n":    413,
		"POST /v1/ids" + head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n":                  200,
		"POST /v1/ids" + head + "Accept: image/png\r\n\r\n":                                    406,
		"POST /v1/ids" + head + "Accept: " + strings.Repeat("a/b;q=0.1,", 800) + "*/*\r\n\r\n": 200,
		"POST /v1/ids" + head + "X: " + strings.Repeat("x", 32<<10) + "\r\n\r\n":               431,
		"POST /v1/../v1/ids" + head + "\r\n":                                                   307,
		"DELETE /v1/node" + head + "\r\n":                                                      405,
		"GET /v1/nodes" + head + "\r\n":                                                        404,
		"HEAD /v1/node" + head + "\r\n":                                                        0, // the test expects a body, which an answer to HEAD does not have
		"\x16\x03\x01\x02\x00\x01\x00":                                                         400,
	} {
		status, body := raw(t, address, request)
		if want != 0 && !slices.Equal(status, []int{want}) {
			t.Errorf("%.80q: %v, want %d: %.200s", request, status, want, body)
		}
	}
	if status, _ := raw(t, address, "POST /v1/ids"+head+"\r\n"); !slices.Equal(status, []int{200}) {
		t.Errorf("afterwards: %v", status)
	}
}

// Concurrent requests, in every format, never get the same ID twice.
func TestConcurrent(t *testing.T) {
	address := listening(t, snowflake.Default())
	const clients, requests, n = 12, 10, 500
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			accept := []string{"application/json", "text/plain", "application/octet-stream"}[c%3]
			for range requests {
				ids, err := fetch(address, accept, n)
				if err != nil || len(ids) != n {
					t.Errorf("%d IDs, %v", len(ids), err)
					return
				}
				mu.Lock()
				for i, id := range ids {
					if seen[id] || i > 0 && id <= ids[i-1] {
						t.Errorf("ID %d was repeated or out of order", id)
					}
					seen[id] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// fetch requests n IDs in a format.
func fetch(address, accept string, n int) (ids []uint64, err error) {
	r, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://%s/v1/ids?n=%d", address, n), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 || !strings.HasPrefix(response.Header.Get("Content-Type"), accept) {
		return nil, fmt.Errorf("%s %s %w", response.Status, body, err)
	}
	var texts []string
	switch accept {
	case "application/octet-stream":
		for ; len(body) > 0; body = body[8:] {
			ids = append(ids, binary.BigEndian.Uint64(body))
		}
		return ids, nil
	case "application/json":
		var answer struct{ IDs []string }
		err = json.Unmarshal(body, &answer)
		texts = answer.IDs
	default:
		texts = strings.Fields(string(body))
	}
	for _, text := range texts {
		id, e := strconv.ParseUint(text, 10, 64)
		ids, err = append(ids, id), errors.Join(err, e)
	}
	return ids, err
}

// A request for more IDs than the layout allows is refused in time, with the error busy.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2040, 1, 2, 0, 0, 0, 0, time.UTC))) // virtual
		layout := snowflake.Default()
		layout.Tick, layout.TimeBits, layout.SequenceBits = 10*time.Millisecond, 39, 1 // 200 IDs/s
		s := serve(t, layout)
		began := time.Now()
		answer := s.ask(t, "POST /v1/ids?n=10000")
		if !strings.HasPrefix(answer, "503") || !strings.Contains(answer, `"error":"busy"`) || time.Since(began) > 6*time.Second {
			t.Errorf("after %v: %.300s", time.Since(began), answer)
		}
		if answer := s.ask(t, "POST /v1/ids?n=200"); !strings.HasPrefix(answer, "200") {
			t.Errorf("%.300s", answer)
		}
	})
}

func TestAccept(t *testing.T) {
	s := serve(t, snowflake.Default())
	for accept, want := range map[string]string{
		"":                                  "200 application/json",
		"Accept: */*":                       "200 application/json",
		"Accept: text/*":                    "200 text/plain; charset=utf-8",
		"Accept: TEXT/PLAIN":                "200 text/plain; charset=utf-8",
		"Accept: text/html, */*;q=0.1":      "200 application/json",
		"Accept: application/*":             "200 application/json",
		"Accept: application/json;q=0, */*": "200 text/plain; charset=utf-8",
		"Accept: text/plain;q=0.5, application/octet-stream;q=0.6": "200 application/octet-stream",
		"Accept: text/plain\nAccept: application/json;q=0.1":       "200 text/plain; charset=utf-8",
		"Accept: text/plain;q=2":                                   "406 application/json",
		"Accept: text/plain;q=NaN":                                 "406 application/json",
		"Accept: ;;;":                                              "406 application/json",
		"Accept: text/html":                                        "406 application/json",
	} {
		if answer := s.ask(t, strings.TrimSuffix("POST /v1/ids\n"+accept, "\n")); !strings.HasPrefix(answer, want+"\n") {
			t.Errorf("%q: %s", accept, answer)
		}
	}
}

// For any query and Accept header, the answer is one that the contract has.
func FuzzIDs(f *testing.F) {
	s := serve(f, snowflake.Default())
	for _, seed := range [][2]string{{"n=3", "*/*"}, {"n=1&n=2", "text/plain;q=0.5"}, {"n=%zz", ";q=,"}, {"", "application/octet-stream, text/*;q=1e-1"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, query, accept string) {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/ids", nil)
		r.URL.RawQuery = query
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != 200 && w.Code != 400 && w.Code != 406 || w.Body.Len() == 0 {
			t.Errorf("%q, %q: %d %s", query, accept, w.Code, w.Body)
		}
	})
}

// BenchmarkIDs measures how many IDs per second clients get, each with its own connection:
//
//	go test -run '^$' -bench IDs ./internal/app/sidecar
func BenchmarkIDs(b *testing.B) {
	custom := snowflake.Default()
	custom.TimeBits, custom.NodeBits, custom.SequenceBits = 40, 2, 11
	for _, layout := range []struct {
		name string
		l    snowflake.Layout
	}{{"default", snowflake.Default()}, {"53bits", custom}} {
		for name, accept := range map[string]string{"json": "application/json", "text": "text/plain", "binary": "application/octet-stream"} {
			for _, n := range []int{1, 100, 10_000} {
				b.Run(fmt.Sprintf("%s/%s/n=%d", layout.name, name, n), func(b *testing.B) {
					address := listening(b, layout.l)
					b.SetParallelism(2)
					b.RunParallel(func(pb *testing.PB) {
						client := &http.Client{Transport: &http.Transport{}}
						defer client.CloseIdleConnections()
						for pb.Next() {
							r, _ := http.NewRequest(http.MethodPost, fmt.Sprintf("http://%s/v1/ids?n=%d", address, n), nil)
							r.Header.Set("Accept", accept)
							response, err := client.Do(r)
							if err != nil {
								b.Error(err)
								return
							}
							_, _ = io.Copy(io.Discard, response.Body)
							response.Body.Close()
						}
					})
					b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "IDs/s")
				})
			}
		}
	}
}
