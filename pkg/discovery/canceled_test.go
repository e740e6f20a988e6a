package discovery_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/fixture"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
)

var shop = discovery.Service{Name: "shop", Address: discovery.Address{Host: "10.0.0.7"}}

// scene is a table with one process on it, and a directory whose requests are
// interrupted.
type scene struct {
	*fixture.Table
	agent     *lease.Agent
	directory *discovery.Directory
}

func newScene(t *testing.T, i *fixture.Interruption) scene {
	t.Helper()
	tab := fixture.NewTable(t, 4)
	s := scene{tab, fixture.Start(t, fixture.Config(tab.Store(""))), nil}
	s.directory = s.open(t, i.Client(tab.Client("")))
	return s
}

func (s scene) open(t *testing.T, c lease.Client) *discovery.Directory {
	t.Helper()
	d, err := discovery.New(discovery.Config{Pool: "orders", Store: discovery.NewTable(c, s.Name), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// shops counts the instances of shop that a newcomer finds.
func (s scene) shops(t *testing.T) int {
	t.Helper()
	return len(resolve(t, s.open(t, s.Client(""))))
}

func resolve(t *testing.T, d *discovery.Directory) []discovery.Instance {
	t.Helper()
	l, err := d.Service("shop")
	if err != nil {
		t.Fatal(err)
	}
	list, err := l.Resolve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// soon is how long it may take until a canceled call's changes are in the table.
const soon = 3 * time.Second

// If the context of Register, Deregister or Leave ends at any request, the call
// returns at once. The change is soon made all the same, and can be requested again.
func TestRegistrationsAreCanceledAnywhere(t *testing.T) {
	t.Run("Register", func(t *testing.T) {
		fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
			s := newScene(t, i)
			_ = i.Run(t, 0, func(ctx context.Context) error { return s.directory.Register(ctx, s.agent, shop) })
			fixture.Wait(soon)
			if got := s.shops(t); got != 1 {
				t.Errorf("got %d instances, want 1", got)
			}
			if err := s.directory.Register(t.Context(), s.agent, shop); err != nil {
				t.Errorf("Register again: got %v, want nil", err)
			}
			if got := s.shops(t); got != 1 {
				t.Errorf("registered again: got %d instances, want 1", got)
			}
		})
	})
	for name, call := range map[string]func(s scene, ctx context.Context) error{
		"Deregister": func(s scene, ctx context.Context) error { return s.directory.Deregister(ctx, s.agent, shop) },
		"Leave":      func(s scene, ctx context.Context) error { return s.directory.Leave(ctx, s.agent) },
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
				s := newScene(t, i)
				if err := s.directory.Register(t.Context(), s.agent, shop); err != nil {
					t.Fatal(err)
				}
				ended := context.Canceled
				if err := i.Run(t, 0, func(ctx context.Context) error {
					if ctx.Err() != nil {
						ended = nil // Leave then waits in spite of its ended context
					}
					return call(s, ctx)
				}); ended == nil && err != nil {
					t.Errorf("in a context that has ended: got %v, want nil", err)
				}
				fixture.Wait(soon)
				if got := s.shops(t); got != 0 {
					t.Errorf("got %d instances, want none", got)
				}
				if err := call(s, t.Context()); err != nil {
					t.Errorf("again: got %v, want nil", err)
				}
			})
		})
	}
}

// If the context of a lookup ends at any request, the call returns at once, and
// the next call reads again.
func TestLookupsAreCanceledAnywhere(t *testing.T) {
	for name, call := range map[string]func(d *discovery.Directory, ctx context.Context) error{
		"Resolve": func(d *discovery.Directory, ctx context.Context) error {
			l, err := d.Service("shop")
			if err == nil {
				_, err = l.Resolve(ctx)
			}
			return err
		},
		"Watch": func(d *discovery.Directory, ctx context.Context) error {
			l, err := d.Service("shop")
			if err != nil {
				return err
			}
			for range l.Watch(ctx) {
				return nil
			}
			return ctx.Err()
		},
		"List": func(d *discovery.Directory, ctx context.Context) error {
			_, err := d.Services().List(ctx)
			return err
		},
		"Names.Watch": func(d *discovery.Directory, ctx context.Context) error {
			for range d.Services().Watch(ctx) {
				return nil
			}
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
				s := newScene(t, i)
				if err := s.open(t, s.Client("")).Register(t.Context(), s.agent, shop); err != nil {
					t.Fatal(err)
				}
				err := i.Run(t, 0, func(ctx context.Context) error { return call(s.directory, ctx) })
				if errors.Is(err, context.Canceled) {
					if err := call(s.directory, t.Context()); err != nil {
						t.Errorf("again: got %v, want nil", err)
					}
				}
				fixture.Wait(time.Second) // after a failed read, the directory does not read for a second
				if got := resolve(t, s.directory); len(got) != 1 {
					t.Errorf("got %d instances, want 1", len(got))
				}
				// After a canceled write, findings are still shared: it does not show
				// that the store fails.
				fixture.Wait(6 * time.Second)
				resolve(t, s.directory)
				s.Count(" Query")
				s.shops(t)
				if got := s.Count(" Query"); got != 1 && i.How != "failed" {
					t.Errorf("queries of another reader: got %d, want 1", got)
				}
			})
		})
	}
}

// If the context of Sweep ends at any request, Sweep returns at once, and the next
// Sweep clears the rest.
func TestSweepIsCanceledAnywhere(t *testing.T) {
	fixture.Interrupt(t, func(t *testing.T, i *fixture.Interruption) {
		s := newScene(t, i)
		if err := s.directory.Register(t.Context(), s.agent, shop, discovery.Endpoint{Name: "rows", Key: "7", Address: shop.Address}); err != nil {
			t.Fatal(err)
		}
		_ = s.agent.Close() // its entries stay
		store := discovery.NewTable(i.Client(s.Client("")), s.Name)
		_ = i.Run(t, 0, func(ctx context.Context) error {
			_, err := discovery.Sweep(ctx, store, "orders")
			return err
		})
		if cleared, err := discovery.Sweep(t.Context(), store, "orders"); cleared > 2 || err != nil {
			t.Errorf("again: got %d, %v; want the rest of 2", cleared, err)
		}
		if cleared, err := discovery.Sweep(t.Context(), store, "orders"); cleared != 0 || err != nil {
			t.Errorf("after the rest: got %d, %v; want none", cleared, err)
		}
	})
}
