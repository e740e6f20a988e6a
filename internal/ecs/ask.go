package ecs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
)

// Variable is the environment variable in which ECS passes a task the metadata address.
const Variable = "ECS_CONTAINER_METADATA_URI_V4"

// Here reports whether this process is in a task of ECS.
func Here() bool { return os.Getenv(Variable) != "" }

// Ask reads the task's metadata once. It sends a request only to an address on this
// machine or its link, without a proxy, and follows no redirect: someone who can set an
// environment variable must not be able to send requests through us.
func Ask(ctx context.Context) (Task, error) {
	base := os.Getenv(Variable)
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" {
		return Task{}, fmt.Errorf("%.80q is not an http URL", base)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil || !ip.Unmap().IsLoopback() && !ip.Unmap().IsLinkLocalUnicast() {
		return Task{}, fmt.Errorf("%.80q is not a link-local or loopback address", u.Host)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("task").String(), nil) //nolint:gosec // the address is the platform's
	if err != nil {
		return Task{}, err
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}, // and no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req) //nolint:gosec // the address is the platform's
	if err != nil {
		return Task{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return Task{}, fmt.Errorf("the response is %s", res.Status)
	}
	const most = 1 << 20 // a task of ten containers has about 20 KB
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err != nil {
		return Task{}, err
	}
	if len(body) > most {
		return Task{}, fmt.Errorf("the response is longer than %d bytes", most)
	}
	var m metadata
	if err := json.Unmarshal(body, &m); err != nil {
		return Task{}, err
	}
	return m.task(), nil
}
