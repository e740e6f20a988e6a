package dynamotest

import "testing"

// The endpoint is found both if the script has set the version too, and if somebody has set only the endpoint by hand.
func TestLocalEndpoint(t *testing.T) {
	for _, test := range []struct{ endpoint, version string }{{"http://127.0.0.1:8000", "1"}, {"http://127.0.0.1:8000", ""}, {"", "1"}, {"", ""}} {
		t.Setenv(EnvLocal, test.endpoint)
		t.Setenv(envVersion, test.version)
		if got := localEndpoint(); got != test.endpoint {
			t.Errorf("version %q: got the endpoint %q, want %q", test.version, got, test.endpoint)
		}
	}
}
