package discovery

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Instance is one live process of a service: its address, and the lease that makes its
// entry valid. NodeID and Version together identify one instance, and are never reused.
type Instance struct {
	NodeID  int    `json:"node_id"`
	Holder  string `json:"holder"`
	Version int64  `json:"version"`
	Address
}

// live returns the entries whose lease was live at time now, and when the first of these
// leases ends.
func (v view) live(now time.Time) (list []record, ends time.Time) {
	for _, r := range v.entries {
		if until := v.leases.of(r); until.After(now) {
			list = append(list, r)
			if ends.IsZero() || until.Before(ends) {
				ends = until
			}
		}
	}
	return list, ends
}

// counts returns how long this answer is reused if no lease ends earlier.
func (v view) counts(maxAge time.Duration) time.Duration {
	if v.doubt.lasts > 0 {
		return min(v.doubt.lasts, maxAge)
	}
	return maxAge
}

func instance(r record) Instance {
	return Instance{r.NodeID, r.Holder, r.Version, Address(*r.Address).clone()}
}

// Lookup finds the instances of one service, or of one key of an endpoint. It remembers
// the last answer, so create it once and keep it. It is safe for concurrent use.
type Lookup struct {
	asked *asked

	mu   sync.Mutex
	last []Instance
}

// asked is a place and the last answer about it.
type asked struct {
	dir  *Directory
	at   place
	view *cached[view]
}

// Service returns a lookup of the instances of a service, or an error if the name is
// invalid. It sends no request.
func (d *Directory) Service(name string) (*Lookup, error) {
	p, err := servicePlace(name)
	return d.lookup(p, err)
}

// Endpoint returns a lookup of the instances at a key of an endpoint, or an error if the
// name or the key is invalid. An empty key means no key. Endpoint sends no request.
func (d *Directory) Endpoint(name, key string) (*Lookup, error) {
	p, err := endpointPlace(name, key)
	return d.lookup(p, err)
}

func (d *Directory) lookup(p place, err error) (*Lookup, error) {
	if d.absent() {
		return nil, errAbsent
	}
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	return &Lookup{asked: d.ask(p)}, nil
}

// Resolve returns the live instances, sorted by node ID; an empty list is not an error.
// Most calls read nothing, because an answer is reused for Config.MaxAge. Concurrent
// callers share one read, which may take up to 2 s. For a second after a failed read,
// calls return the error of that read at once.
//
// If Resolve returns an error, it also returns the instances of the last answer, in case
// the caller prefers an old address to none. These instances may have ended since.
func (l *Lookup) Resolve(ctx context.Context) ([]Instance, error) {
	list, _, err := l.resolve(ctx)
	return list, err
}

func (l *Lookup) resolve(ctx context.Context) ([]Instance, time.Time, error) {
	if l == nil || l.asked == nil {
		return nil, time.Time{}, errAbsent
	}
	records, again, err := l.asked.resolve(ctx)
	var list []Instance
	for _, r := range records {
		list = append(list, instance(r))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.last = list
	}
	return clone(l.last), again, err
}

func (d *Directory) ask(p place) *asked { return &asked{dir: d, at: p, view: newCached[view]()} }

// resolve returns the live entries, and the time at which to read again, if that is
// before MaxAge is over: when the first of the entries' leases ends, or when an answer in
// doubt is no longer reused. Otherwise the time is zero.
func (a *asked) resolve(ctx context.Context) ([]record, time.Time, error) {
	if err := protocol.CheckContext(ctx); err != nil {
		return nil, time.Time{}, err
	}
	var now time.Time // when the answer was accepted: it lists the leases that were live then
	v, err := a.view.get(ctx, func(v view, at time.Time) bool {
		now = time.Now()
		age := now.Sub(at)
		if !v.leases.ended(v.entries, v.at, now) {
			return age < v.counts(a.dir.cfg.MaxAge)
		}
		// According to this answer, a lease has ended. But the answer may be based on
		// findings of another reader that are much older, and the lease may have been
		// renewed since. Only leases that were just read show that a lease has ended.
		soon := min(againAfter, a.dir.cfg.MaxAge)
		return age < soon && now.Sub(v.at) < soon
	}, func(ctx context.Context) (view, error) {
		before, _ := a.view.look()
		v, err := a.dir.look(ctx, a.at, before)
		if err == nil {
			now = v.decided
		}
		return v, err
	})
	list, ends := v.live(now)
	if again := v.at.Add(v.doubt.lasts); v.doubt.lasts > 0 && (ends.IsZero() || again.Before(ends)) {
		ends = again
	}
	return list, ends, err
}

// Watch yields the list of instances at once, and then each time it changes. It always
// yields the newest list, and skips changes that came and went while the caller was busy.
// It ends when ctx ends (a nil ctx never does) or the caller breaks. While the store does
// not answer, it yields nothing. A watch reads as often as a caller that calls Resolve
// every MaxAge, and also when a lease ends.
func (l *Lookup) Watch(ctx context.Context) iter.Seq[[]Instance] {
	if l == nil || l.asked == nil {
		return func(func([]Instance) bool) {}
	}
	return watch(ctx, l.asked.dir.cfg.MaxAge, l.resolve, same, clone)
}

// watch yields the result of resolve each time that it changes.
func watch[T any](ctx context.Context, maxAge time.Duration, resolve func(context.Context) (T, time.Time, error), same func(a, b T) bool, clone func(T) T) iter.Seq[T] {
	if ctx == nil {
		ctx = context.Background()
	}
	return func(yield func(T) bool) {
		var told T
		for first := true; ctx.Err() == nil; {
			list, again, err := resolve(ctx)
			if ctx.Err() != nil { // the read may have succeeded all the same
				return
			}
			if err == nil && (first || !same(list, told)) {
				told, first = clone(list), false
				if !yield(list) {
					return
				}
				continue
			}
			every := maxAge
			if err != nil {
				every = min(every, restAfter)
			}
			wait := every + rand.N(every/10) // at least as long as every, after which the answer is too old to be reused
			if left := time.Until(again); !again.IsZero() && left < wait {
				wait = max(left, 0) + againAfter/10
			}
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
			}
		}
	}
}

func same(a, b []Instance) bool {
	return slices.EqualFunc(a, b, func(x, y Instance) bool { return reflect.DeepEqual(x, y) })
}

// clone copies a list, since the caller that receives the copy may change it.
func clone(list []Instance) []Instance {
	list = slices.Clone(list)
	for i := range list {
		list[i].Address = list[i].clone()
	}
	return list
}
