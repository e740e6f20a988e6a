package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/siblings"
	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

func TestSlowHookDelaysNoRenewal(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		cfg := fixture.Config(leasetest.NewMemory("orders", 1))
		var seen []lease.EventKind
		cfg.OnEvent = func(e lease.Event) {
			time.Sleep(30 * time.Second) // virtual
			seen = append(seen, e.Kind)
		}
		a := fixture.Start(t, cfg)
		for range 20 {
			fixture.Wait(10 * time.Second)
			if _, err := a.Lease(); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		fixture.Wait(time.Hour)
		if len(seen) < 20 || seen[0] != lease.EventClaimed || seen[len(seen)-1] != lease.EventReleased {
			t.Errorf("%v", seen)
		}
	})
}

// All events, including the last one, contain the generators' statistics.
func TestEventsCountIDs(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		var ev fixture.Events
		cfg := fixture.Config(leasetest.NewMemory("orders", 1))
		cfg.OnEvent = ev.Add
		a := fixture.Start(t, cfg)
		g := fixture.IDs(t, a)
		issue := func(n int) {
			for range n {
				if _, err := g.Next(); err != nil {
					t.Fatal(err)
				}
			}
		}
		issue(10)
		fixture.Wait(lease.DefaultTTL)
		issue(5)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Next(); err == nil {
			t.Fatal("an ID after Close")
		}
		if e := ev.Of(lease.EventRenewed)[0]; e.IDs.Issued != 10 {
			t.Errorf("at the first renewal: %+v", e.IDs)
		}
		if e := ev.Of(lease.EventReleased)[0]; e.IDs.Issued != 15 {
			t.Errorf("at the release: %+v", e.IDs)
		}
	})
}

// logTo is a log handler that passes on each record.
type logTo func(slog.Record)

func (logTo) Enabled(context.Context, slog.Level) bool { return true }
func (l logTo) Handle(_ context.Context, r slog.Record) error {
	l(r)
	return nil
}
func (l logTo) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l logTo) WithGroup(string) slog.Handler      { return l }

// A log, an event hook or a BeforeResume function that hangs does not stop renewals, the
// resumption after an outage, or Close.
func TestNothingOfTheUsersStopsTheLease(t *testing.T) {
	for _, stuck := range []string{"Logger", "OnEvent", "BeforeResume"} {
		t.Run(stuck, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				s := fixture.NewNetwork(1)
				cfg := fixture.Config(s)
				read := make(chan struct{})
				defer close(read)
				switch stuck {
				case "Logger":
					cfg.Logger = slog.New(logTo(func(slog.Record) { <-read }))
				case "OnEvent":
					cfg.OnEvent = func(lease.Event) { <-read }
				}
				a := fixture.Start(t, cfg)
				if stuck == "BeforeResume" {
					siblings.BeforeResume(a, func() { <-read })
				}
				s.SetOutage(errors.New("away"))
				fixture.Wait(time.Minute)
				s.SetOutage(nil)
				fixture.Wait(10 * time.Second)
				if _, err := a.Lease(); err != nil {
					t.Errorf("after an outage: got %v, want it held", err)
				}
				began := time.Now()
				if err := a.Close(); err != nil || time.Since(began) > 4*time.Second {
					t.Errorf("Close: got %v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// If a hook hangs, only a limited number of events are kept for it. The oldest events are
// dropped, and the hook is told how many.
func TestSlowHookIsToldWhatItMissed(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		var ev fixture.Events
		cfg := fixture.Config(fixture.NewNetwork(1))
		read := make(chan struct{})
		cfg.OnEvent = func(e lease.Event) {
			<-read
			ev.Add(e)
		}
		fixture.Start(t, cfg)
		fixture.Wait(2 * time.Hour) // 1,440 renewals
		close(read)
		fixture.Wait(0)
		dropped := ev.Of(lease.EventDropped)
		if len(dropped) != 1 || dropped[0].Dropped < 1000 || !strings.Contains(dropped[0].Err.Error(), "OnEvent was too slow") {
			t.Fatalf("got %+v, want one event about more than 1,000 dropped ones", dropped)
		}
		if all := len(ev.Of(lease.EventClaimed, lease.EventRenewed)); all > 257 {
			t.Errorf("heard %d events of those two hours, want at most 257", all)
		}
	})
}

// A hook that panics, or ends its goroutine, still receives the next event, and the log
// reports the panic. The same is true of a log, whose panic the hook receives.
func TestHookThatFails(t *testing.T) {
	for name, fail := range map[string]func(){"panicked: oh no": func() { panic("oh no") }, "ended its goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			fixture.Virtual(t, func(t *testing.T) {
				var mu sync.Mutex
				heard, logged := 0, ""
				cfg := fixture.Config(fixture.NewNetwork(1))
				cfg.OnEvent = func(lease.Event) {
					mu.Lock()
					heard++
					mu.Unlock()
					fail()
				}
				cfg.Logger = slog.New(logTo(func(r slog.Record) {
					r.Attrs(func(a slog.Attr) bool {
						mu.Lock()
						defer mu.Unlock()
						logged += a.String()
						return true
					})
					fail()
				}))
				a := fixture.Start(t, cfg)
				siblings.BeforeResume(a, fail)
				fixture.Wait(time.Minute)
				if err := a.Close(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if heard < 10 || heard > 100 || !strings.Contains(logged, "Config.OnEvent "+name) {
					t.Errorf("heard %d events, want the renewals of a minute, and about each one report; logged %.2000s", heard, logged)
				}
			})
		})
	}
}

// A BeforeResume function that fails does not keep the lease suspended.
func TestBeforeResumeThatFails(t *testing.T) {
	for _, fail := range []func(){func() { panic("oh no") }, runtime.Goexit} {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			var ev fixture.Events
			cfg := fixture.Config(s)
			cfg.OnEvent = ev.Add
			a := fixture.Start(t, cfg)
			called := 0
			siblings.BeforeResume(a, func() {
				called++
				fail()
			})
			s.SetOutage(errors.New("away"))
			fixture.Wait(time.Minute)
			s.SetOutage(nil)
			fixture.Wait(10 * time.Second)
			if _, err := a.Lease(); err != nil || called < 2 {
				t.Errorf("got %v after %d calls, want it held after a few", err, called)
			}
		})
	}
}

// Events arrive in the order in which things happened, whichever goroutine noticed them.
// In this test, the watchdog notices the deadline just as an answer comes.
func TestEventsAreInOrder(t *testing.T) {
	for range 200 {
		fixture.Virtual(t, func(t *testing.T) {
			s := fixture.NewNetwork(1)
			var ev fixture.Events
			cfg := fixture.Config(s)
			cfg.OnEvent = ev.Add
			began := time.Now()
			a := fixture.Start(t, cfg)
			s.On(func(_ context.Context, _ protocol.Write, do func() (protocol.Result, error)) (protocol.Result, error) {
				time.Sleep(time.Until(began.Add(13 * time.Second))) // virtual: the deadline
				return do()
			})
			fixture.Wait(14 * time.Second)
			suspended := false
			for _, kind := range ev.Kinds(lease.EventSuspended, lease.EventResumed) {
				suspended = kind == lease.EventSuspended
			}
			if _, err := a.Lease(); (err != nil) != suspended {
				t.Errorf("got %v after %v", err, ev.Kinds(lease.EventSuspended, lease.EventResumed, lease.EventRenewed))
			}
			s.On(nil)
		})
	}
}

// A hook may change the metadata of an event. The lease keeps its own.
func TestEventHasItsOwnMetadata(t *testing.T) {
	fixture.Virtual(t, func(t *testing.T) {
		cfg := fixture.Config(fixture.NewNetwork(1))
		cfg.Metadata = map[string]string{"zone": "a"}
		cfg.OnEvent = func(e lease.Event) {
			if e.Lease.Metadata != nil {
				e.Lease.Metadata["zone"] = "changed"
			}
		}
		a := fixture.Start(t, cfg)
		<-a.Renewed()
		fixture.Wait(0)
		if l, err := a.Lease(); err != nil || l.Metadata["zone"] != "a" {
			t.Errorf("got %v, %v, want zone a", l.Metadata, err)
		}
	})
}
