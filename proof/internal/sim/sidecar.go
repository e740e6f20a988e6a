package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/nodelease/nodelease/internal/app/sidecar"
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
	for sleep(ctx, time.Second+p.upTo(time.Minute)) == nil {
		ids := p.ids.Load()
		if ids == nil {
			continue
		}
		if h == nil {
			h = sidecar.Handler(p.agent, ids, metrics)
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

// ask returns the IDs of an answer, if there are any.
func ask(h http.Handler, r *http.Request) (ids []snowflake.ID, ok bool) {
	defer func() { _ = recover() }() // http.ErrAbortHandler: the client is gone
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
