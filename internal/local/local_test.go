package local_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/nodelease/nodelease/internal/local"
)

func TestGuard(t *testing.T) {
	program, page := local.Guard{}, local.Guard{Page: true}
	remote := local.Guard{Remote: true, Hosts: []string{"ids.example.com"}}
	for _, test := range []struct {
		name    string
		g       local.Guard
		host    string
		headers map[string]string
		want    local.Reason
	}{
		{"loopback", program, "127.0.0.1:7373", nil, ""},
		{"another loopback address", program, "127.1.2.3", nil, ""},
		{"loopback, IPv6", program, "[::1]:7373", nil, ""},
		{"loopback, IPv4 in IPv6", program, "[::ffff:127.0.0.1]:1", nil, ""},
		{"localhost", program, "LocalHost:1", nil, ""},
		{"no host", program, "", nil, local.BadHost},
		{"no host for a page", page, "", nil, local.BadHost},
		{"rebinding", program, "evil.example:7373", nil, local.BadHost},
		{"rebinding that begins well", program, "127.0.0.1.evil.example", nil, local.BadHost},
		{"rebinding that ends well", program, "evil.localhost.", nil, local.BadHost},
		{"any address", program, "0.0.0.0:1", nil, local.BadHost},
		{"another address", program, "10.0.0.7:7373", nil, local.BadHost},
		{"credentials", program, "localhost@evil.example", nil, local.BadHost},

		{"remote by address", remote, "10.0.0.7:7373", nil, ""},
		{"remote by a short name", remote, "sidecar:7373", nil, ""},
		{"remote by a permitted name", remote, "IDs.example.com:7373", nil, ""},
		{"remote, rebinding", remote, "evil.example", nil, local.BadHost},
		{"remote, rebinding below a permitted name", remote, "x.ids.example.com", nil, local.BadHost},
		{"remote, cross-site", remote, "10.0.0.7", map[string]string{"Sec-Fetch-Site": "cross-site"}, local.CrossOrigin},
		{"remote, a page", remote, "10.0.0.7", map[string]string{"Origin": "http://10.0.0.7"}, local.CrossOrigin},

		{"a page's POST", program, "127.0.0.1", map[string]string{"Origin": "https://evil.example"}, local.CrossOrigin},
		{"a sandboxed page", program, "127.0.0.1", map[string]string{"Origin": "null"}, local.CrossOrigin},
		{"a page of the same origin", program, "127.0.0.1", map[string]string{"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}, local.CrossOrigin},
		{"an image of a page", program, "127.0.0.1", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, local.CrossOrigin},
		{"a page on another port", program, "127.0.0.1", map[string]string{"Sec-Fetch-Site": "same-site"}, local.CrossOrigin},
		{"a link", program, "127.0.0.1", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, local.CrossOrigin},
		{"typed by a person", program, "127.0.0.1", map[string]string{"Sec-Fetch-Site": "none"}, ""},

		{"own page", page, "localhost:80", map[string]string{"Origin": "http://localhost:80", "Sec-Fetch-Site": "same-origin"}, ""},
		{"a page on another port", page, "localhost:80", map[string]string{"Origin": "http://localhost:81"}, local.CrossOrigin},
		{"a link to the page", page, "localhost", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, ""},
		{"the page in a frame", page, "localhost", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, local.CrossOrigin},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host = test.host
		for k, v := range test.headers {
			r.Header.Set(k, v)
		}
		var got local.Reason
		if refused := test.g.Check(r); refused != nil {
			got = refused.Reason
			if refused.Text == "" || refused.Remedy == "" {
				t.Errorf("%s: got %+v, want the fault and the remedy", test.name, refused)
			}
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
	for name, g := range map[string]local.Guard{"program": program, "page": page} { // an empty Origin does not hide another
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host, r.Header["Origin"] = "localhost", []string{"", "https://evil.example"}
		if refused := g.Check(r); refused == nil || refused.Reason != local.CrossOrigin {
			t.Errorf("%s: two origins: %+v", name, refused)
		}
	}
	r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.UnixAddr{Net: "unix"}), http.MethodGet, "/", nil)
	r.Host = "whatever"
	if refused := program.Check(r); refused != nil {
		t.Errorf("over a Unix socket: %+v", refused)
	}
}
