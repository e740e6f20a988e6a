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
			problem{http.StatusForbidden, string(refused.Reason), refused.Text, refused.Remedy, 0}.write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}
