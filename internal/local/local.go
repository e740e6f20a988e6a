// Package local has the rules by which the servers on this machine (the web UI, the
// sidecar, the embedded DynamoDB) refuse requests that a foreign web page makes a browser
// send. Either such a request is cross-site, which the browser marks in its headers, or
// its Host header has a name of the page's own that resolves to this machine (DNS
// rebinding).
package local

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Guard decides which requests a server answers. The zero value admits programs on this
// machine.
type Guard struct {
	// Page is set if the server has a page of its own. That page may send requests, and
	// links on other sites may lead to it.
	Page bool
	// Remote is set if other machines may send requests. They name the server by an IP
	// address, by a name without a dot, which no stranger can register, or by one of
	// Hosts.
	Remote bool
	Hosts  []string
}

// Reason is a word for why a request is refused.
type Reason string

// The reasons.
const (
	BadHost     Reason = "forbidden_host"
	CrossOrigin Reason = "cross_origin"
)

// Refusal describes why a request is refused, and the remedy.
type Refusal struct {
	Reason       Reason
	Text, Remedy string
}

// Check returns why a request is refused, or nil if it is not.
func (g Guard) Check(r *http.Request) *Refusal {
	if !g.host(r) {
		remedy := "use 127.0.0.1, [::1] or localhost in the URL"
		if g.Remote {
			remedy += ", an IP address, or a name that --allow-host permits"
		}
		return &Refusal{BadHost, fmt.Sprintf("the Host %.100q is not a name of this server", r.Host), remedy}
	}
	for _, origin := range r.Header["Origin"] { // every Origin header: an empty one may precede another
		if !(g.Page && origin == "http://"+r.Host) {
			return &Refusal{CrossOrigin, fmt.Sprintf("the request comes from the web page %.100q", origin), g.remedy()}
		}
	}
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case site == "" || site == "none", g.Page && site == "same-origin":
		return nil
	case g.Page && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && r.URL.Path == "/":
		return nil // a link on another site may lead to the page, but to nothing else
	}
	return &Refusal{CrossOrigin, fmt.Sprintf("the request comes from a web page (Sec-Fetch-Site: %.20q)", site), g.remedy()}
}

func (g Guard) remedy() string {
	if g.Page {
		return "open it in its own window"
	}
	return "web pages may not send requests here: use a program"
}

// host reports whether Host is a name of this server. Over a Unix socket, which no
// browser opens, Host may be anything.
func (g Guard) host(r *http.Request) bool {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && at.Network() == "unix" {
		return true
	}
	name := Name(r.Host)
	if Loopback(name) || name == "" && !r.ProtoAtLeast(1, 1) && !g.Page { // no browser speaks HTTP/1.0
		return true
	}
	if !g.Remote {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil || !strings.Contains(strings.TrimSuffix(name, "."), ".") ||
		slices.ContainsFunc(g.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

// Name returns host without its port, if it has one, and without the brackets of an IPv6
// address.
func Name(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// Loopback reports whether a name is localhost or a loopback address.
func Loopback(name string) bool {
	ip, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Harden sets headers on an answer so that other sites may not embed it, browsers may not
// guess its type, and no cache keeps it.
func Harden(h http.Header) {
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}
