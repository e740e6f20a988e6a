package discovery

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Names lists the offers of live processes: services, keys of an endpoint, or the
// endpoints of a service. It reads the lists that processes keep of their entries, one
// item per process. To list any kind of names takes one Query of these lists, and all
// Names of a directory share the answer. Names is safe for concurrent use.
type Names struct {
	dir  *Directory
	pick func(offered) []string

	mu   sync.Mutex
	last []string
}

// offered contains the places of one process's offers.
type offered []place

// Services lists the names of all services with a live instance.
func (d *Directory) Services() *Names {
	return &Names{dir: d, pick: func(all offered) []string { return all.after("svc#") }}
}

// Keys lists the keys of an endpoint that have a live instance; an empty key means no
// key. Keys returns an error if the name is invalid.
func (d *Directory) Keys(endpoint string) (*Names, error) {
	if d.absent() {
		return nil, errAbsent
	}
	if _, err := endpointPlace(endpoint, ""); err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	return &Names{dir: d, pick: func(all offered) []string {
		keys := all.after("ep#" + endpoint + "#")
		for i := range keys {
			if keys[i] == noKey {
				keys[i] = ""
			}
		}
		return keys
	}}, nil
}

// Endpoints lists the endpoints that instances of a service offer, and so leads from a
// service to its keyed endpoints. It returns an error if the name is invalid.
func (d *Directory) Endpoints(service string) (*Names, error) {
	if d.absent() {
		return nil, errAbsent
	}
	at, err := servicePlace(service)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	return &Names{dir: d, pick: func(all offered) (names []string) {
		if !slices.Contains(all, at) {
			return nil
		}
		for _, rest := range all.after("ep#") {
			name, _, _ := strings.Cut(rest, "#")
			names = append(names, name)
		}
		return names
	}}, nil
}

// after returns the places that begin with prefix, without the prefix.
func (o offered) after(prefix string) (rest []string) {
	for _, p := range o {
		if r, ok := strings.CutPrefix(string(p), prefix); ok {
			rest = append(rest, r)
		}
	}
	return rest
}

// List returns the names, sorted. Like Lookup.Resolve, it reuses an answer for
// Config.MaxAge, and returns the last answer with an error.
func (n *Names) List(ctx context.Context) ([]string, error) {
	list, _, err := n.list(ctx)
	return list, err
}

// Watch yields the names at once, and then each time that they change, as Lookup.Watch
// does with instances.
func (n *Names) Watch(ctx context.Context) iter.Seq[[]string] {
	if n == nil || n.dir.absent() {
		return func(func([]string) bool) {}
	}
	return watch(ctx, n.dir.cfg.MaxAge, n.list, slices.Equal[[]string], slices.Clone[[]string])
}

func (n *Names) list(ctx context.Context) ([]string, time.Time, error) {
	if n == nil || n.dir.absent() {
		return nil, time.Time{}, errAbsent
	}
	v, again, err := n.dir.lists.resolve(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		return slices.Clone(n.last), again, err
	}
	names := map[string]bool{}
	for _, r := range v {
		var all offered
		for _, text := range r.Places[:min(len(r.Places), maxOffers)] {
			if p, ok := parsePlace(text); ok {
				all = append(all, p)
			}
		}
		for _, name := range n.pick(all) {
			names[name] = true
		}
	}
	n.last = slices.Sorted(maps.Keys(names))
	return slices.Clone(n.last), again, nil
}
