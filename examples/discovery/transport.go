package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/nodelease/nodelease/pkg/discovery"
)

// avoidFor is how long an instance that did not answer is tried only after all others: until the lease of a process that was killed has
// ended.
const avoidFor = 15 * time.Second

// transport sends a request for http://orders/… to an instance of the service orders. It takes the instances in turn, by weight, and those
// in the caller's zone first. If an instance fails, transport tries the next one, provided that nothing was sent or that the request cannot
// have changed anything.
type transport struct {
	directory *discovery.Directory
	zone      string
	base      http.RoundTripper

	mu      sync.Mutex
	lookups map[string]*discovery.Lookup
	turn    int
	avoided map[string]time.Time // by holder
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	instances, err := t.find(r.Context(), r.URL.Hostname())
	if len(instances) == 0 {
		closeBody(r)
		return nil, errors.Join(fmt.Errorf("service %s has no instance", r.URL.Hostname()), err)
	}
	var failed []error // err is ignored: in an outage of the store, the last known instances are better than none
	for _, i := range t.order(instances) {
		one, err := to(r, i, len(failed) > 0)
		if err != nil {
			return nil, errors.Join(append(failed, err)...)
		}
		resp, err := t.base.RoundTrip(one)
		if err == nil {
			return resp, nil
		}
		failed = append(failed, fmt.Errorf("%s at %s: %w", r.URL.Hostname(), i.HostPort(), err))
		if r.Context().Err() != nil || !repeatable(r, err) {
			break
		}
		t.avoid(i)
	}
	return nil, errors.Join(failed...)
}

// find returns the instances of a service. It keeps a lookup for each service, which remembers its last answer.
func (t *transport) find(ctx context.Context, service string) ([]discovery.Instance, error) {
	t.mu.Lock()
	lookup := t.lookups[service]
	t.mu.Unlock()
	if lookup == nil {
		var err error
		if lookup, err = t.directory.Service(service); err != nil {
			return nil, err
		}
		t.mu.Lock()
		if t.lookups == nil {
			t.lookups, t.avoided = map[string]*discovery.Lookup{}, map[string]time.Time{}
		}
		t.lookups[service] = lookup
		t.mu.Unlock()
	}
	return lookup.Resolve(ctx)
}

// order returns the instances in the order in which they are tried.
func (t *transport) order(all []discovery.Instance) []discovery.Instance {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn++
	var near, far []discovery.Instance
	for _, i := range all {
		if i.Zone == t.zone {
			near = append(near, i)
		} else {
			far = append(far, i)
		}
	}
	order := append(rotate(near, t.turn), rotate(far, t.turn)...)
	slices.SortStableFunc(order, func(a, b discovery.Instance) int {
		return btoi(time.Now().Before(t.avoided[a.Holder])) - btoi(time.Now().Before(t.avoided[b.Holder]))
	})
	return order
}

// rotate returns the instances, beginning with the one whose turn it is. Each has as many turns as its weight.
func rotate(all []discovery.Instance, turn int) []discovery.Instance {
	total := 0
	for _, i := range all {
		total += max(i.Weight, 1)
	}
	if total == 0 {
		return nil
	}
	first, left := 0, turn%total
	for left -= max(all[0].Weight, 1); left >= 0; left -= max(all[first].Weight, 1) {
		first++
	}
	return append(slices.Clone(all[first:]), all[:first]...)
}

func (t *transport) avoid(i discovery.Instance) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for holder, until := range t.avoided {
		if time.Now().After(until) {
			delete(t.avoided, holder)
		}
	}
	t.avoided[i.Holder] = time.Now().Add(avoidFor)
}

// to returns the request as it is sent to an instance.
func to(r *http.Request, i discovery.Instance, again bool) (*http.Request, error) {
	one := r.Clone(r.Context())
	one.URL.Host = i.HostPort()
	if again && r.Body != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		one.Body = body
	}
	return one, nil
}

// repeatable reports whether a request that failed can be sent to another instance.
func repeatable(r *http.Request, err error) bool {
	var dial *net.OpError
	unsent := errors.As(err, &dial) && dial.Op == "dial"
	return (unsent || r.Method == http.MethodGet || r.Method == http.MethodHead) && (r.Body == nil || r.GetBody != nil)
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // nothing was sent
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
