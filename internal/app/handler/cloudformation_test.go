package handler

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// Answers go only to CloudFormation's own buckets. With an emulator, which sets
// AWS_ENDPOINT_URL, they may go to this machine.
func TestResponseURL(t *testing.T) {
	const path = "/arn%3Aaws%3Acloudformation/orders?X-Amz-Expires=7199"
	for _, c := range []struct {
		url           string
		aws, emulator bool
	}{
		{"https://cloudformation-custom-resource-response-euwest1.s3-eu-west-1.amazonaws.com" + path, true, true},
		{"https://cloudformation-custom-resource-response-useast1.s3.amazonaws.com" + path, true, true},
		{"https://cloudformation-custom-resource-response-useast2.s3.us-east-2.amazonaws.com" + path, true, true},
		{"https://cloudformation-custom-resource-response-cnnorth1.s3.cn-north-1.amazonaws.com.cn" + path, true, true},
		{"https://cloudformation-custom-resource-response-usgovwest1.s3-fips.us-gov-west-1.amazonaws.com" + path, true, true},
		{"http://cloudformation-custom-resource-response-useast1.s3.amazonaws.com" + path, false, false},
		{"https://cloudformation-custom-resource-response-useast1.s3.amazonaws.com:8443" + path, false, false},
		{"https://cloudformation-custom-resource-response-useast1.s3.amazonaws.com@evil.example" + path, false, false},
		{"https://me@cloudformation-custom-resource-response-useast1.s3.amazonaws.com" + path, false, false},
		{"https://cloudformation-custom-resource-response-useast1.s3.amazonaws.com.evil.example" + path, false, false},
		{"https://evil.example/cloudformation-custom-resource-response-useast1.s3.amazonaws.com", false, false},
		{"https://my-bucket.s3.amazonaws.com" + path, false, false},
		{"http://169.254.169.254/latest/meta-data", false, false},
		{"http://127.0.0.1:4566/answer", false, true},
		{"http://localhost:4566/answer", false, true},
		{"http://[::1]:4566/answer", false, true},
		{"http://10.0.0.7:4566/answer", false, false},
		{"", false, false}, {"::", false, false}, {"/answer", false, false},
	} {
		for endpoint, want := range map[string]bool{"": c.aws, "http://127.0.0.1:4566": c.emulator} {
			t.Setenv("AWS_ENDPOINT_URL", endpoint)
			if err := checkResponseURL(c.url); (err == nil) != want {
				t.Errorf("ResponseURL %q with AWS_ENDPOINT_URL %q: %v, want allowed %v", c.url, endpoint, err, want)
			}
		}
	}
}

// An event with a different address is not handled at all.
func TestBootstrapForeignResponseURL(t *testing.T) {
	logs(t)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL", "")
	store := leasetest.NewMemory("", 0)
	_, err := (&Bootstrap{Table: "nodelease", Store: store}).Handle(t.Context(), event(t, "bootstrap-create", server.URL))
	errorHas(t, err, "not CloudFormation's", "nothing was sent")
	if _, missing := store.PoolItem(t.Context(), "orders"); asked.Load() != 0 || !errors.Is(missing, lease.ErrPoolNotSeeded) {
		t.Errorf("%d requests, and the pool: %v, want neither", asked.Load(), missing)
	}
}

// If an answer does not reach CloudFormation, it is sent again.
func TestBootstrapAnswersAgain(t *testing.T) {
	logs(t)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	if _, err := (&Bootstrap{Table: "nodelease", Store: leasetest.NewMemory("", 0)}).Handle(t.Context(), event(t, "bootstrap-create", server.URL)); err != nil || asked.Load() != 3 {
		t.Errorf("%v after %d requests, want success after 3", err, asked.Load())
	}
}

// If CloudFormation is not reached for a while, the answer is sent until it is, or until the
// function's time is up. One that is refused is not sent for long.
func TestBootstrapAnswersAfterAnOutage(t *testing.T) {
	logs(t)
	const sent = 9
	for status, want := range map[int]int64{http.StatusServiceUnavailable: sent, http.StatusForbidden: attempts} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) < sent {
				w.WriteHeader(status)
			}
		}))
		t.Cleanup(server.Close)
		t.Cleanup(http.DefaultClient.CloseIdleConnections)
		t.Setenv("AWS_ENDPOINT_URL", server.URL)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		_, err := (&Bootstrap{Table: "nodelease", Store: leasetest.NewMemory("", 0)}).Handle(ctx, event(t, "bootstrap-create", server.URL))
		if (err == nil) != (want == sent) || asked.Load() != want {
			t.Errorf("status %d: %v after %d requests, want %d", status, err, asked.Load(), want)
		}
	}
}

// An answer that hangs is given up in time for another attempt.
func TestBootstrapAnswersAgainAfterSilence(t *testing.T) {
	logs(t)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == 1 {
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := (&Bootstrap{Table: "nodelease", Store: leasetest.NewMemory("", 0)}).Handle(ctx, event(t, "bootstrap-create", server.URL)); err != nil || asked.Load() != 2 {
		t.Errorf("got %v after %d requests, want success after 2", err, asked.Load())
	}
}

// denying is a store that denies requests until the role's new policy takes effect.
type denying struct {
	*leasetest.Memory
	until time.Time
}

func (s denying) PoolItem(ctx context.Context, pool string) (leasepool.Item, error) {
	if time.Now().Before(s.until) {
		return leasepool.Item{}, lease.ErrAccess
	}
	return s.Memory.PoolItem(ctx, pool)
}

// CloudFormation calls the function right after it has changed the function's role, so
// denied requests are retried for a minute, but no longer.
func TestBootstrapRidesOutPropagation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs(t)
		for late, want := range map[time.Duration]bool{0: true, 20 * time.Second: true, 55 * time.Second: true, 5 * time.Minute: false} {
			store := denying{leasetest.NewMemory("", 0), time.Now().Add(late)}
			began := time.Now()
			_, err := (&Bootstrap{Store: store}).ensure(t.Context(), request{Pool: "orders", Size: 4})
			if want != (err == nil) || time.Since(began) > late+5*time.Second || time.Since(began) > 65*time.Second {
				t.Errorf("denied for %v: %v after %v, want success %v", late, err, time.Since(began), want)
			}
			if !want {
				errorHas(t, err, "denied for 1m0s", "no access")
			}
		}
	})
}

// changed returns the named event from events/ with the properties props and a new request ID.
func changed(t *testing.T, name, url, request, physical string, props map[string]any) json.RawMessage {
	t.Helper()
	var e map[string]any
	if err := json.Unmarshal(event(t, name, url), &e); err != nil {
		t.Fatal(err)
	}
	e["RequestId"] = request
	if physical != "" {
		e["PhysicalResourceId"] = physical
	}
	for k, v := range props {
		if k == "OldFloor" {
			e["OldResourceProperties"].(map[string]any)["Floor"] = v
			continue
		}
		e["ResourceProperties"].(map[string]any)[k] = v
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A different pool or table has an ID space of its own, so it is refused without a new
// floor. A rollback to a pool that exists is accepted.
func TestBootstrapMoves(t *testing.T) {
	logs(t)
	c := newCloudformation(t)
	soon := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	for i, step := range []struct {
		physical string
		props    map[string]any
		refused  string
		id       string
	}{
		{"nodelease/nodelease/orders", map[string]any{"Pool": "users"}, "new ID space", "nodelease/nodelease/orders"},
		{"nodelease/nodelease/orders", map[string]any{"Pool": "users", "Floor": ""}, "set Floor", "nodelease/nodelease/orders"},
		{"nodelease/nodelease/orders", map[string]any{"Pool": "users", "Floor": "1767225600000"}, "new ID space", "nodelease/nodelease/orders"},                                         // the floor is the same as before
		{"nodelease/nodelease/orders", map[string]any{"Pool": "users", "Floor": soon.Format(time.RFC3339), "OldFloor": soon.UnixMilli()}, "new ID space", "nodelease/nodelease/orders"}, // also in another form
		{"nodelease/nodelease/orders", map[string]any{"Pool": "users", "Floor": "2025-06-01T00:00:00Z"}, "more than 30 days ago", "nodelease/nodelease/orders"},
		{"nodelease/other/orders", map[string]any{"Pool": "users"}, "new ID space", "nodelease/other/orders"},
		{"nodelease/nodelease/orders", map[string]any{"Table": "other"}, `this function manages table "nodelease"`, "nodelease/nodelease/orders"},
		{"nodelease/nodelease/orders", map[string]any{"Table": "nodelease"}, "", "nodelease/nodelease/orders"},
		{"nodelease/nodelease/orders", map[string]any{"Pool": "users", "Floor": soon.Format(time.RFC3339)}, "", "nodelease/nodelease/users"},
		{"nodelease/nodelease/users", map[string]any{"Pool": "orders"}, "", "nodelease/nodelease/orders"}, // a rollback
	} {
		store := leasetest.NewMemory("orders", 512)
		b := &Bootstrap{Table: "nodelease", Store: store}
		_, err := b.Handle(t.Context(), changed(t, "bootstrap-update", c.URL, "request", step.physical, step.props))
		a := c.answer(t)
		if (step.refused == "") != (err == nil) || (step.refused == "") != (a.Status == cfn.StatusSuccess) || !strings.Contains(a.Reason, step.refused) || a.PhysicalResourceID != step.id {
			t.Errorf("%d: %v, answer %+v, want %q and id %s", i, err, a, step.refused, step.id)
		}
		_, missing := store.PoolItem(t.Context(), "users")
		if want := step.id == "nodelease/nodelease/users"; want != (missing == nil) {
			t.Errorf("%d: the pool users: %v, want it to exist: %v", i, missing, want)
		}
	}
}
