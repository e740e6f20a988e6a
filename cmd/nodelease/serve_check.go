package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// checkPatience is how long a live check may take. It is shorter than the default timeout
// of container health checks.
const checkPatience = 4 * time.Second

// checkLive asks the sidecar at an address whether it is live. An image without a shell
// has no other program that could ask.
func checkLive(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	network, target := "tcp", address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, target = "unix", path
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, target)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/livez", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("no sidecar answers on %s: %w", address, err)
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the live check of the sidecar on %s answers %s", address, resp.Status)
	}
	return nil
}
