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
)

// Instance is one live process at a place: its address, and the lease that makes
// it count. NodeID and Version together name an instance for ever.
type Instance struct {
	NodeID  int    `json:"node_id"`
	Holder  string `json:"holder"`
	Version int64  `json:"version"`
	Address
}

// live leaves of the entries those whose lease is live, and tells when the first
// of these leases ends.
func (v view) live() (list []Instance, ends time.Time) {
	now := time.Now()
	for _, r := range v.entries {
		if until := v.leases.of(r); until.After(now) {
			list = append(list, r.instance())
			if ends.IsZero() || until.Before(ends) {
				ends = until
			}
		}
	}
	return list, ends
}

func (r record) instance() Instance {
	return Instance{r.NodeID, r.Holder, r.Version, r.Address.clone()}
}

// Lookup finds the instances of one service, or of one key of an endpoint, and
// remembers the last answer. It is safe for concurrent use; keep it for as long
// as answers are asked for.
type Lookup struct {
	dir  *Directory
	at   place
	view *cached[view]

	mu   sync.Mutex
	last []Instance
}

// Service looks for the instances of a service. It makes no request; the error
// says what is wrong with the name.
func (d *Directory) Service(name string) (*Lookup, error) {
	p, err := servicePlace(name)
	return d.lookup(p, err)
}

// Endpoint looks for the instances at a key of an endpoint; an empty key is that
// of none. It makes no request; the error says what is wrong with the names.
func (d *Directory) Endpoint(name, key string) (*Lookup, error) {
	p, err := endpointPlace(name, key)
	return d.lookup(p, err)
}

func (d *Directory) lookup(p place, err error) (*Lookup, error) {
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	return &Lookup{dir: d, at: p, view: newCached[view]()}, nil
}

// Resolve gives the live instances, by number; none is no error. Mostly it reads
// nothing: an answer counts for Config.MaxAge. The store is asked once
// however many callers wait. A read may take 2 s; after one that failed, callers
// get its error for a second, at once.
//
// With an error come the instances of the last answer, which may have ended
// since: for callers who would rather try an old address than none.
func (l *Lookup) Resolve(ctx context.Context) ([]Instance, error) {
	list, _, err := l.resolve(ctx)
	return list, err
}

// resolve also tells when the first of the leases ends; zero: not known.
func (l *Lookup) resolve(ctx context.Context) ([]Instance, time.Time, error) {
	d := l.dir
	v, err := l.view.get(ctx, func(v view, at time.Time) bool {
		age := time.Since(at)
		return age < min(againAfter, d.cfg.MaxAge) || age < d.cfg.MaxAge && !v.leases.ended(v.entries, v.at)
	}, func(ctx context.Context) (view, error) { return d.look(ctx, l.at) })
	list, ends := v.live()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.last = list
		return clone(list), ends, nil
	}
	return clone(l.last), ends, err
}

// Watch gives the instances at once, and then each time that they are others:
// always the newest list, without what came and went while the caller was busy.
// It ends with ctx, or when the caller breaks. While the store does not answer it
// is silent. A watch reads as a caller of Resolve does who asks every MaxAge, and
// when a lease ends.
func (l *Lookup) Watch(ctx context.Context) iter.Seq[[]Instance] {
	return func(yield func([]Instance) bool) {
		var told []Instance
		for first := true; ctx.Err() == nil; {
			list, ends, err := l.resolve(ctx)
			if err == nil && (first || !same(list, told)) {
				told, first = clone(list), false
				if !yield(list) {
					return
				}
				continue
			}
			every := l.dir.cfg.MaxAge
			if err != nil {
				every = min(every, restAfter)
			}
			wait := every + rand.N(every/10) // at least: then it is time to ask again
			if left := time.Until(ends); !ends.IsZero() && left < wait {
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

// clone copies a list for a caller, who may change it.
func clone(list []Instance) []Instance {
	list = slices.Clone(list)
	for i := range list {
		list[i].Address = list[i].clone()
	}
	return list
}
