package discovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// leaveLimit is how long withdrawing offers may take if ctx has already ended.
const leaveLimit = 2 * time.Second

// maxOffers is how many offers one process can have registered at a time.
const maxOffers = 100

// Register registers offers of this process, up to 100 places, for as long as the agent
// has a lease. The entries are written again when the agent claims another node ID
// (Reacquire). After a suspension, they become valid again without a write. A second
// offer at the same place replaces the address.
//
// Register returns once all offers are in the table. If any offer has an invalid name,
// key or address, it returns an error at once and registers none of them. If ctx ends
// first, or the lease is suspended meanwhile, the offers stay pending: they are written
// as soon as possible, unless Deregister withdraws them.
func (d *Directory) Register(ctx context.Context, agent *lease.Agent, offers ...Offer) error {
	if err := d.usable(ctx, agent); err != nil {
		return err
	}
	wanted, err := check(offers)
	if err != nil {
		return err
	}
	agent.KeepShort() // a crashed instance is found until its lease expires
	return d.registrar(agent).change(ctx, wanted, func(all map[place]*Address) error {
		more := 0
		for p := range wanted {
			if all[p] == nil {
				more++
			}
		}
		if len(all)+more > maxOffers {
			return fmt.Errorf("discovery: %d offers would be registered with one lease: use at most %d", len(all)+more, maxOffers)
		}
		for p, a := range wanted {
			all[p] = a
		}
		return nil
	})
}

// Deregister withdraws offers; only their places matter, not their addresses. It returns
// once the change is in the table. Call it before draining, and before closing the agent.
// If ctx ends meanwhile, the offers are withdrawn as soon as possible; at the latest,
// they end with the lease. If ctx has already ended before the call, Deregister waits for
// up to 2 s, as Leave does.
func (d *Directory) Deregister(ctx context.Context, agent *lease.Agent, offers ...Offer) error {
	if err := d.usable(ctx, agent); err != nil {
		return err
	}
	unwanted, err := places(offers)
	if err != nil {
		return err
	}
	return d.takeBack(ctx, agent, func(all map[place]*Address) {
		for _, p := range unwanted {
			delete(all, p)
		}
	})
}

// Leave withdraws all of this agent's offers, as Deregister does. If ctx has already
// ended, which is common when a process shuts down, Leave still waits for up to 2 s.
func (d *Directory) Leave(ctx context.Context, agent *lease.Agent) error {
	if err := d.usable(ctx, agent); err != nil {
		return err
	}
	return d.takeBack(ctx, agent, func(all map[place]*Address) { clear(all) })
}

func (d *Directory) takeBack(ctx context.Context, agent *lease.Agent, fn func(map[place]*Address)) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), leaveLimit)
		defer cancel()
	}
	err := d.registrar(agent).change(ctx, nil, func(all map[place]*Address) error { fn(all); return nil })
	if agent.Err() != nil { // without a lease, no entry is valid
		return nil
	}
	return err
}

func check(offers []Offer) (map[place]*Address, error) {
	all := map[place]*Address{}
	var errs []error
	for _, o := range offers {
		if o == nil {
			errs = append(errs, errNoOffer)
			continue
		}
		p, err := o.where()
		a := o.address().clone()
		if err = errors.Join(err, a.check()); err == nil && all[p] != nil {
			err = fmt.Errorf("%s is offered twice", p)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("discovery: %w", err))
		}
		all[p] = &a
	}
	return all, errors.Join(errs...)
}

var errNoOffer = errors.New("discovery: an offer is nil: use a Service or an Endpoint")

// places returns the places of offers, regardless of their addresses.
func places(offers []Offer) (all []place, err error) {
	var errs []error
	for _, o := range offers {
		if o == nil {
			errs = append(errs, errNoOffer)
			continue
		}
		p, err := o.where()
		if err != nil {
			err = fmt.Errorf("discovery: %w", err)
		}
		all, errs = append(all, p), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// registrar returns the agent's registrar, which lives as long as the agent.
func (d *Directory) registrar(agent *lease.Agent) *registrar {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.registrars[agent]
	if r == nil {
		r = &registrar{dir: d, agent: agent, wanted: map[place]*Address{}, wake: make(chan struct{}, 1), turned: make(chan struct{})}
		d.registrars[agent] = r
		go r.loop()
	}
	return r
}

// forget removes the registrar of an agent that has ended.
func (d *Directory) forget(agent *lease.Agent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.registrars, agent)
}
