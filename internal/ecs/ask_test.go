package ecs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Implausible values are left out, and the other values are used.
func TestLies(t *testing.T) {
	const arn = "arn:aws:ecs:eu-west-1:123456789012:task/prod/0123456789abcdef0123456789abcdef"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"TaskARN":"`+arn+`","Cluster":"`+strings.Repeat("c", 301)+`","AvailabilityZone":"a\u0007b",
			"ClockDrift":{"ClockErrorBound":-1e300,"ReferenceTimestamp":"\u001b[2J","ClockSynchronizationStatus":"SYNCHRONIZED"},
			"Containers":[{"ClockDrift":{"ClockErrorBound":9e4,"ReferenceTimestamp":"\u001b[2J"}}]}`)
	}))
	defer server.Close()
	t.Setenv(Variable, server.URL)
	task, err := Ask(t.Context())
	if err != nil || task.ARN != arn || task.Cluster != "" || task.Zone != "" || task.Doubt == nil || !strings.Contains(task.Doubt.Error(), "ClockErrorBound") {
		t.Errorf("%+v, %v", task, err)
	}
	if task.Clock.Error != 90*time.Second || task.Clock.Reference != "nothing" {
		t.Errorf("%+v", task.Clock)
	}
}

// Ask sends requests only to this machine and its link.
func TestAddress(t *testing.T) {
	for _, uri := range []string{"http://10.0.0.1/v4/x", "http://[2001:db8::1]/v4", "http://localhost/v4", "https://127.0.0.1/v4", "file:///etc", "http://169.254.170.2.example.com/", "%"} {
		t.Setenv(Variable, uri)
		if task, err := Ask(t.Context()); err == nil || !strings.Contains(err.Error(), "is not a") {
			t.Errorf("%s: %+v, %v", uri, task, err)
		}
	}
}
