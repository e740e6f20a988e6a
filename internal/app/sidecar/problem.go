package sidecar

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// problem is an error as sent to clients: a word for programs to act on, a sentence, and the
// remedy.
type problem struct {
	status int
	Error  string `json:"error"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy"`
	retry  time.Duration
}

func (p problem) write(w http.ResponseWriter) {
	if p.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((p.retry+time.Second-1)/time.Second)))
	}
	writeJSON(w, p.status, p)
}

func badRequest(detail, remedy string) *problem {
	return &problem{http.StatusBadRequest, "bad_request", detail, remedy, 0}
}

// problemOf translates an error of the agent or of the generator for clients.
func (h *handler) problemOf(err error) problem {
	var clock *snowflake.ClockError
	if errors.Is(err, snowflake.ErrFenced) {
		// Lease returns the reason why the lease is fenced.
		if _, why := h.agent.Lease(); why != nil {
			err = why
		}
	}
	switch {
	case errors.Is(err, lease.ErrLost):
		return problem{http.StatusGone, "lost", err.Error(), "this node ID permanently belongs to another holder: stop using it, and connect again once the sidecar has restarted", 0}
	case errors.Is(err, lease.ErrClosed), errors.Is(err, snowflake.ErrClosed):
		return problem{http.StatusServiceUnavailable, "closed", err.Error(), "the sidecar is stopping: connect again once it has restarted", time.Second}
	case errors.Is(err, lease.ErrSuspended), errors.Is(err, snowflake.ErrFenced):
		return problem{http.StatusServiceUnavailable, "suspended", err.Error(), "DynamoDB does not answer; do not use the node ID, and try again: it resumes by itself", time.Second}
	case errors.As(err, &clock):
		return problem{http.StatusServiceUnavailable, "clock_behind", err.Error(), "try again when the clock has caught up", clock.Behind}
	case errors.Is(err, snowflake.ErrBusy), errors.Is(err, context.DeadlineExceeded):
		return problem{http.StatusServiceUnavailable, "busy", "more IDs are requested than the layout has for one node ID: " + h.ids.Layout().String(),
			"request fewer, or use a layout with more sequence bits", time.Second}
	}
	return problem{http.StatusInternalServerError, "internal", err.Error(), "look at the sidecar's log", 0}
}
