package lease

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/lastaddress"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
	"github.com/nodelease/nodelease/internal/text/texttest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// stopped is a clock that moves only when the test moves it.
type stopped struct{ at time.Duration }

func (c *stopped) Monotonic() time.Duration { return c.at }
func (c *stopped) Wall() time.Time          { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(c.at) }
func (c *stopped) Sleep(time.Duration)      {}

// Late news about a term that is over does not end another term. Otherwise the table
// would show that this agent holds the next node ID, although the agent does not use it.
func TestLateNewsOfATermThatIsOver(t *testing.T) {
	var clock stopped
	var heard []EventKind
	timings := Config{TTL: 15 * time.Second, Guard: 2 * time.Second}.timings()
	first, second := tenure.NewTerm(timings, protocol.Lease{}, 0), tenure.NewTerm(timings, protocol.Lease{}, 0)
	a := &Agent{cfg: Config{OnExpiry: Stop, OnLost: Reacquire}, clock: &clock, timeline: snowflake.NewTimeline(&clock), term: second}
	a.events.hook = outlet{fn: func(e Event) { heard = append(heard, e.Kind) }}
	clock.at = second.Deadline
	a.bark(first)
	a.lose(first, ErrLost)
	if a.suspended || a.over != nil {
		t.Errorf("got suspended %v, over %v; want neither", a.suspended, a.over)
	}
	a.bark(second)
	a.bark(second)
	a.events.drain()
	if !a.suspended || a.over == nil || len(heard) != 2 || heard[0] != EventSuspended || heard[1] != EventLost {
		t.Errorf("got suspended %v, over %v, events %v; want it suspended and then lost", a.suspended, a.over, heard)
	}
}

// A health check's answer may contain text from the new holder of a lost node ID. Even
// so, the answer is one line of printable characters.
func TestHealthIsPlain(t *testing.T) {
	for name, value := range texttest.Hostile {
		w := httptest.NewRecorder()
		health{Status: "lost", Error: "lease: lost: node 0 is held by " + value}.write(w, false)
		body, ended := strings.CutSuffix(w.Body.String(), "\n")
		if err := texttest.Check(body, false, 0); err != nil || !ended || strings.Contains(body, "\n") || w.Code != 503 {
			t.Errorf("%s: %d, %v", name, w.Code, err)
		}
	}
}

// The client that Open creates connects to the last known addresses, unless this feature
// is turned off.
func TestLastKnownAddressesInOpen(t *testing.T) {
	for value, want := range map[string]bool{"": true, "on": true, "off": false} {
		t.Setenv(lastaddress.Variable, value)
		client, err := OpenClient(t.Context(), "https://127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		if _, on := client.Options().HTTPClient.(*http.Client).Transport.(plainBodies).RoundTripper.(*lastaddress.Transport); on != want {
			t.Errorf("%s=%q: on is %v, want %v", lastaddress.Variable, value, on, want)
		}
	}
}
