package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/nodelease/nodelease/internal/app/sidecar"
	"github.com/nodelease/nodelease/internal/app/sidecar/blockclient"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// askSidecar asks the process's sidecar for batches of IDs, as programs in other
// languages do.
func (p *process) askSidecar(ctx context.Context) {
	metrics, err := sidecar.NewMetrics()
	if err != nil {
		p.World.fail(err)
		return
	}
	var h http.Handler
	clients := p.blockClients(&h)
	defer func() { // a client that still has a block can use it after the sidecar has ended
		for _, c := range clients {
			p.takeIDs(context.WithoutCancel(ctx), c, 5)
		}
	}()
	for sleep(ctx, time.Second+p.upTo(time.Minute)) == nil {
		ids := p.ids.Load()
		if ids == nil {
			continue
		}
		if h == nil {
			h = sidecar.Handler(p.agent, ids, metrics)
		}
		for _, c := range clients {
			p.takeIDs(ctx, c, 20)
		}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1/v1/ids?n=%d", 1+p.intN(20)), nil)
		if batch, ok := ask(h, r); ok && !p.isDead() {
			p.World.count(func(c *Counts) { c.Batches++; c.IDs += len(batch) })
			for _, id := range batch {
				p.World.witnessID(p, id)
			}
		}
	}
}

// blockClients returns two clients that make IDs from blocks of the process's sidecar.
func (p *process) blockClients(h *http.Handler) (all []*blockclient.Client) {
	nonces := 0
	for i := range 2 {
		all = append(all, &blockclient.Client{
			Name: fmt.Sprint("c", i), Want: 10, Clock: &processClock{p},
			Nonce: func() string { nonces++; return fmt.Sprint(nonces) },
			Send: func(r *http.Request) (_ *http.Response, err error) {
				if *h == nil || p.isDead() {
					return nil, errDead
				}
				defer func() {
					if recover() != nil { // http.ErrAbortHandler: the sidecar cuts the connection
						err = errDead
					}
				}()
				answer := httptest.NewRecorder()
				(*h).ServeHTTP(answer, r)
				return answer.Result(), nil
			},
		})
	}
	return all
}

// takeIDs makes up to n IDs with a client. Later calls use the rest of the client's
// block.
func (p *process) takeIDs(ctx context.Context, c *blockclient.Client, n int) {
	for range n {
		id, err := c.Next(ctx)
		if err != nil {
			return
		}
		p.World.count(func(c *Counts) { c.IDs++ })
		p.World.witnessID(p, id)
	}
}

// ask sends a request and returns the IDs in the answer; ok is false if the answer
// contains none.
func ask(h http.Handler, r *http.Request) (ids []snowflake.ID, ok bool) {
	defer func() { _ = recover() }() // http.ErrAbortHandler: the sidecar cuts the connection
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	var body struct {
		IDs []snowflake.ID `json:"ids"`
	}
	if answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &body) != nil {
		return nil, false
	}
	return body.IDs, true
}
