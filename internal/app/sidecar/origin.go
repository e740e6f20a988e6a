package sidecar

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard keeps web pages out. A page of anybody's can make a browser on this
// machine send requests to 127.0.0.1: as cross-site requests, which the browser
// marks, or by a name of its own that resolves to 127.0.0.1 (DNS rebinding), which
// then stands in Host.
func (h *handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && local.IP.IsLoopback() && !loopbackHost(r.Host) {
			problem{http.StatusForbidden, "forbidden_host", fmt.Sprintf("the Host %.100q is not this machine's loopback interface", r.Host),
				"use 127.0.0.1, [::1] or localhost in the URL", 0}.write(w)
			return
		}
		if err := h.same.Check(r); err != nil {
			problem{http.StatusForbidden, "cross_origin", err.Error(), "web pages may not use the sidecar: ask it from a program", 0}.write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopbackHost reports whether a Host header names the loopback interface. No browser
// omits the header (HTTP/1.0).
func loopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if name == "" || strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.Unmap().IsLoopback()
}
