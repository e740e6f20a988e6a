package sidecar

import (
	"net/http"

	"github.com/nodelease/nodelease/internal/local"
)

// guard keeps web pages out: see [local.Guard].
func (h *handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local.Harden(w.Header())
		if refused := h.who.Check(r); refused != nil {
			p := problem{http.StatusForbidden, "cross_origin", refused.Text, refused.Remedy, 0}
			if refused.Reason == local.BadHost {
				p = problem{http.StatusForbidden, "forbidden_host", refused.Text, refused.Remedy, 0}
			}
			p.write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}
