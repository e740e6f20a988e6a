package dynamotest

import "testing"

// The endpoint is found where the script says a version, and where somebody has set the endpoint by hand.
func TestLocalEndpoint(t *testing.T) {
	for _, test := range []struct{ endpoint, version string }{{"http://127.0.0.1:8000", "1"}, {"http://127.0.0.1:8000", ""}, {"", "1"}, {"", ""}} {
		t.Setenv(EnvLocal, test.endpoint)
		t.Setenv(envVersion, test.version)
		if got := localEndpoint(); got != test.endpoint {
			t.Errorf("version %q: got the endpoint %q, want %q", test.version, got, test.endpoint)
		}
	}
}
