package sidecar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodelease/nodelease/internal/app/sidecar"
	"github.com/nodelease/nodelease/internal/app/sidecar/blockclient"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// toNoon waits, in virtual time, for a moment after every layout's epoch and later than the
// clock of any machine. Virtual time begins in 2000, so monotonic clocks would be negative
// before that.
func toNoon() { time.Sleep(time.Until(time.Date(2040, 1, 2, 12, 0, 0, 0, time.UTC))) }

// client returns a client of s that requests blocks of n IDs.
func (s *serving) client(name string, n int) *blockclient.Client {
	nonces := 0
	return &blockclient.Client{
		Clock: snowflake.SystemClock(), Name: name, Want: n,
		Nonce: func() string { nonces++; return fmt.Sprintf("%s-%d", name, nonces) },
		Send: func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w.Result(), nil
		},
	}
}

// idSet is a set of IDs, each of which may be made only once, with the client that made it.
type idSet map[snowflake.ID]string

func (s idSet) add(t *testing.T, id snowflake.ID, by string) {
	t.Helper()
	if before, ok := s[id]; ok {
		t.Errorf("%d made by %s and by %s", id, before, by)
	}
	s[id] = by
}

func mustNext(t *testing.T, c *blockclient.Client) snowflake.ID {
	t.Helper()
	id, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Two clients with blocks, and clients that request single IDs, never make the same ID. No
// ID is more than a second behind the clock or ahead of it.
func TestBlocksAndIDs(t *testing.T) {
	for name, layout := range map[string]snowflake.Layout{"default": snowflake.Default(), "js53": snowflake.JS53(), "sonyflake": snowflake.Sonyflake()} {
		synctest.Test(t, func(t *testing.T) {
			toNoon()
			s := serve(t, layout)
			a, b, seen := s.client("a", 1000), s.client("b", 7), idSet{}
			for i := range 5000 {
				for _, c := range []*blockclient.Client{a, b} {
					id := mustNext(t, c)
					seen.add(t, id, c.Name)
					if age := time.Since(layout.Decompose(id).Time); age < 0 || age >= time.Second {
						t.Fatalf("%s: %d is %v old", name, id, age)
					}
				}
				if i%50 == 0 {
					var batch struct {
						IDs []json.Number `json:"ids"`
					}
					answer := s.ask(t, "POST /v1/ids?n=9")
					if err := json.Unmarshal([]byte(answer[strings.Index(answer, "{"):]), &batch); err != nil {
						t.Fatal(err)
					}
					for _, text := range batch.IDs {
						id, err := snowflake.Parse(text.String())
						if err != nil {
							t.Fatal(err)
						}
						seen.add(t, id, "ids")
					}
				}
				if i%97 == 0 {
					time.Sleep(time.Duration(i) * 100 * time.Microsecond) // virtual
				}
			}
		})
	}
}

// Sixteen clients that request blocks continuously are each served within 50 ms.
func TestSixteenClients(t *testing.T) {
	for name, layout := range map[string]snowflake.Layout{"default": snowflake.Default(), "js53": snowflake.JS53(), "sonyflake": snowflake.Sonyflake()} {
		synctest.Test(t, func(t *testing.T) {
			toNoon()
			s := serve(t, layout)
			var mu sync.Mutex
			var wg sync.WaitGroup
			var slowest time.Duration
			seen := idSet{}
			for i := range 16 {
				wg.Go(func() {
					for range 40 {
						c := s.client(fmt.Sprint("c", i), sidecar.MaxBlock) // a new client, as if the last block were used up
						began := time.Now()
						id, err := c.Next(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						slowest = max(slowest, time.Since(began))
						seen.add(t, id, c.Name)
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if slowest > 50*time.Millisecond {
				t.Errorf("%s: a client waited %v, want 50ms at most", name, slowest)
			}
		})
	}
}

// If the sidecar releases its node ID while a block is open, the next holder begins after
// the end of the block.
func TestReleaseBeyondAnOpenBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toNoon()
		s := serve(t, snowflake.Default())
		c, seen := s.client("a", 20_000), idSet{}
		time.Sleep(time.Second) // virtual
		seen.add(t, mustNext(t, c), "the first")
		if err := s.agent.Close(); err != nil {
			t.Fatal(err)
		}
		again := serveOn(t, s.store, snowflake.Default())
		other := again.client("b", sidecar.MaxBlock)
		for range 1000 {
			seen.add(t, mustNext(t, other), "the second holder")
		}
		for c.Left() > 0 {
			seen.add(t, mustNext(t, c), "the open block")
		}
		if c.Blocks() != 1 {
			t.Errorf("%d blocks, want the first one used to its end", c.Blocks())
		}
	})
}

// A client's IDs keep growing when the sidecar is restarted and has another node ID.
func TestRestartKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toNoon()
		store := leasetest.NewMemory("orders", 8)
		var last snowflake.ID
		for i := range 8 {
			s := serveOn(t, store, snowflake.Default()) // the earlier sidecars are still alive
			time.Sleep(5 * time.Millisecond)            // virtual
			id := mustNext(t, s.client("a", 10))
			if id <= last {
				t.Errorf("sidecar %d made %d after %d", i, id, last)
			}
			last = id
		}
	})
}

// The client counts the remaining time from a moment before it sent its request, so a slow
// answer shortens the block. A block also ends when its lease ends.
func TestDeadlineIsFromBeforeAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toNoon()
		s := serve(t, snowflake.Default())
		c := s.client("a", 100)
		send := c.Send
		c.Send = func(r *http.Request) (*http.Response, error) {
			response, err := send(r)
			time.Sleep(400 * time.Millisecond) // virtual
			return response, err
		}
		mustNext(t, c)
		time.Sleep(100 * time.Millisecond) // virtual: 500 ms after the request
		c.Send = send
		if mustNext(t, c); c.Blocks() != 2 {
			t.Error("500 ms after its request, the client still used the block")
		}

		s.store.SetOutage(errors.New("away"))
		for s.agent.Left() > 300*time.Millisecond {
			time.Sleep(time.Millisecond) // virtual
		}
		c = s.client("b", 100)
		mustNext(t, c)
		time.Sleep(s.agent.Left()) // virtual
		if id, err := c.Next(t.Context()); err == nil {
			t.Errorf("after the lease's deadline the client made %d", id)
		}
	})
}

// A step of the wall clock in either direction ends a block.
func TestStepEndsABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toNoon()
		s := serve(t, snowflake.Default())
		for _, step := range []time.Duration{-20 * time.Millisecond, time.Second} {
			c := s.client("a", 100)
			clock := &stepping{}
			c.Clock = clock
			mustNext(t, c)
			clock.step = step
			if mustNext(t, c); c.Blocks() != 2 {
				t.Errorf("the wall clock stepped by %v: the client still used the block", step)
			}
		}
	})
}

type stepping struct{ step time.Duration }

func (c *stepping) Wall() time.Time          { return time.Now().Round(0).Add(c.step) }
func (c *stepping) Monotonic() time.Duration { return snowflake.SystemClock().Monotonic() }

// The client refuses the answer to another request, because its IDs may have been used.
func TestOneAnswerTwoCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toNoon()
		s := serve(t, snowflake.Default())
		a, b, seen := s.client("a", 100), s.client("b", 100), idSet{}
		// The client is behind a proxy that keeps answers.
		text := ""
		a.Send = func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			if text == "" {
				s.ServeHTTP(w, r)
				text = w.Body.String()
			} else {
				_, _ = w.WriteString(text)
			}
			return w.Result(), nil
		}
		b.Send = a.Send
		seen.add(t, mustNext(t, a), "a")
		id, err := b.Next(t.Context())
		if err == nil {
			seen.add(t, id, "b")
		}
		if !errors.Is(err, blockclient.ErrNotOurs) {
			t.Errorf("got %d, %v; want %v", id, err, blockclient.ErrNotOurs)
		}
	})
}

// The sidecar never sends the same block twice, even for the same nonce of the same client.
func TestSameNonceAnotherBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toNoon()
		s := serve(t, snowflake.Default())
		a, b, seen := s.client("a", 100), s.client("a", 100), idSet{}
		for range 100 {
			seen.add(t, mustNext(t, a), "a")
			seen.add(t, mustNext(t, b), "b")
		}
	})
}

// Any request for a block is answered as in the contract.
func TestBlockRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toNoon()
		s := serve(t, snowflake.Default())
		for query, want := range map[string]string{
			"client=a&nonce=b":                                  "200",
			"client=a&nonce=b&n=1048576":                        "200",
			"client=" + strings.Repeat("a", 64) + "&nonce=_-Z9": "200",
			"":                           "400",
			"client=a":                   "400",
			"nonce=a":                    "400",
			"client=a&nonce=":            "400",
			"client=a&nonce=b&nonce=c":   "400",
			"client=a&nonce=b&n=0":       "400",
			"client=a&nonce=b&n=1048577": "400",
			"client=a&nonce=b&n=-1":      "400",
			"client=a&nonce=b&n=1e3":     "400",
			"client=a&nonce=b&m=1":       "400",
			"client=a&nonce=%22":         "400",
			"client=a&nonce=%zz":         "400",
			"client=" + strings.Repeat("a", 65) + "&nonce=b": "400",
			"client=a&nonce=" + strings.Repeat("b", 300):     "400",
			"client=a&nonce=b\nAccept: text/plain":           "406",
			"client=a&nonce=b\nAccept: text/plain, */*;q=.1": "200",
			"client=a&nonce=b\nOrigin: https://evil.example": "403",
			"client=a&nonce=b\nHost: evil.example":           "403",
			"client=a&nonce=b\n\n{}":                         "413",
		} {
			request, headers, _ := strings.Cut(query, "\n")
			answer := s.ask(t, strings.TrimSuffix("POST /v1/blocks?"+request+"\n"+headers, "\n"))
			if !strings.HasPrefix(answer, want+" ") {
				t.Errorf("%q: got %s, want %s", query, answer, want)
			}
		}
		for i := range 3000 { // many clients that send only one request take no memory, and leave the other clients their share
			if i%700 == 0 {
				time.Sleep(300 * time.Millisecond) // virtual
			}
			if _, err := s.client(fmt.Sprint("c", i), 1).Next(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
