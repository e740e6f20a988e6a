package sidecar_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// request requests n IDs. It returns the status, the time that the answer took, and its
// Retry-After.
func (s *serving) request(t *testing.T, n int) (status int, took, retry time.Duration) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/v1/ids?n="+strconv.Itoa(n), nil)
	w := httptest.NewRecorder()
	began := time.Now()
	s.ServeHTTP(w, r)
	seconds, _ := strconv.Atoi(w.Header().Get("Retry-After"))
	return w.Code, time.Since(began), time.Duration(seconds) * time.Second
}

// When 64 clients request ten times the layout's capacity, all of the capacity is used,
// nearly all IDs that are drawn are delivered, and the other requests are told at once when
// to try again.
func TestOverload(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := serve(t, snowflake.JS53())
		before := s.ids.Stats().Issued
		began := time.Now()
		const clients, n, lasts = 64, 10_000, 20 * time.Second
		var mu sync.Mutex
		var answered, refused int
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				for time.Since(began) < lasts {
					status, took, retry := s.request(t, n)
					mu.Lock()
					switch {
					case status == http.StatusOK:
						answered++
					case status != http.StatusServiceUnavailable || took != 0 || retry < time.Second || retry > 10*time.Second:
						t.Errorf("status %d after %v with Retry-After %v, want a 503 at once with 1 to 10 s", status, took, retry)
					default:
						refused++
					}
					mu.Unlock()
					time.Sleep(retry) // virtual
				}
			})
		}
		wg.Wait()
		delivered, drawn := answered*n, int(s.ids.Stats().Issued-before)
		has := int(time.Since(began).Seconds() * 64_000)
		t.Logf("%d IDs drawn, %d delivered, of %d; %d requests refused", drawn, delivered, has, refused)
		if delivered*100 < drawn*95 || delivered*100 < has*90 || refused == 0 {
			t.Errorf("%d IDs drawn, %d delivered, of %d, and %d requests refused; want 95 %% of those drawn, 90 %% of all, and some refused", drawn, delivered, has, refused)
		}
	})
}

// The IDs are made in the order in which the requests arrive: a small request does not
// overtake a large one.
func TestQueueIsInOrder(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := serve(t, snowflake.JS53())
		first := make([]string, 10)
		var wg sync.WaitGroup
		for i := range first {
			n := "10000"
			if i%2 == 1 {
				n = "1"
			}
			wg.Go(func() {
				answer := s.ask(t, "POST /v1/ids?n="+n+"\nAccept: text/plain")
				_, ids, _ := strings.Cut(answer, "\n\n")
				first[i], _, _ = strings.Cut(ids, "\n")
			})
			synctest.Wait() // now the request is in the queue
		}
		wg.Wait()
		if !slices.IsSorted(first) || first[0] == "" {
			t.Errorf("the requests' first IDs are %v, want the order of arrival", first)
		}
	})
}

// A client that leaves while it waits draws nothing, and delays no other client.
func TestLeavingTheQueue(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		s := serve(t, snowflake.JS53())
		before := s.ids.Stats().Issued
		var wg sync.WaitGroup
		leave := make(chan struct{})
		for i := range 3 {
			wg.Go(func() {
				if i != 1 {
					if status, _, _ := s.request(t, 10_000); status != http.StatusOK {
						t.Errorf("status %d, want 200", status)
					}
					return
				}
				defer func() { _ = recover() }() // http.ErrAbortHandler
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-leave; cancel() }()
				s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/v1/ids?n=10000", nil))
			})
			synctest.Wait()
		}
		close(leave)
		wg.Wait()
		if drawn := s.ids.Stats().Issued - before; drawn > 20_000+64 {
			t.Errorf("%d IDs drawn for two answers of 10,000, want at most that", drawn)
		}
	})
}

// BenchmarkOverload measures the figures on overload in docs/sidecar.md. For ten seconds,
// 64 clients request 10,000 IDs at a time over HTTP, each on its own connection, and wait
// as long as Retry-After requires.
func BenchmarkOverload(b *testing.B) {
	address := listening(b, snowflake.JS53())
	for b.Loop() {
		began := time.Now()
		var delivered, refused atomic.Int64
		var mu sync.Mutex
		var slowest time.Duration // refusal
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				for time.Since(began) < 10*time.Second {
					asked := time.Now()
					response, err := client.Post("http://"+address+"/v1/ids?n=10000", "", nil)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					response.Body.Close()
					if response.StatusCode == http.StatusOK {
						delivered.Add(10_000)
						continue
					}
					refused.Add(1)
					mu.Lock()
					slowest = max(slowest, time.Since(asked))
					mu.Unlock()
					seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
					time.Sleep(time.Duration(seconds) * time.Second)
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(delivered.Load())/time.Since(began).Seconds(), "IDs/s")
		b.ReportMetric(float64(refused.Load()), "refused")
		b.ReportMetric(slowest.Seconds()*1000, "ms/slowest-refusal")
	}
}
