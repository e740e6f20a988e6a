package leaseotel_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leaseotel"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// instruments returns metrics, and a function that collects their values, by name and
// labels.
func instruments(t *testing.T) (*leaseotel.Metrics, func() map[string]float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		t.Fatal(err)
	}
	m, err := leaseotel.New(metric.NewMeterProvider(metric.WithReader(exporter)))
	if err != nil {
		t.Fatal(err)
	}
	return m, func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]float64{}
		for _, f := range families {
			for _, s := range f.GetMetric() {
				found[series(f.GetName(), s)] = s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount())
			}
		}
		return found
	}
}

func series(name string, s *dto.Metric) string {
	var labels []string
	for _, l := range s.GetLabel() {
		if l.GetName() != "pool" {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		} else if l.GetValue() != "orders" {
			labels = append(labels, "another pool")
		}
	}
	slices.Sort(labels)
	return name + "{" + strings.Join(labels, ",") + "}"
}

// The metrics show the life of a lease through an outage.
func TestLifeOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2040, 1, 2, 0, 0, 0, 0, time.UTC))) // after the layout's epoch
		m, collect := instruments(t)
		store := leasetest.NewMemory("orders", 1)
		agent, err := lease.Start(t.Context(), lease.Config{Store: store, Pool: "orders", OnEvent: m.Event, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Observe(agent); err != nil {
			t.Fatal(err)
		}
		ids, err := snowflake.New(agent)
		if err != nil {
			t.Fatal(err)
		}
		for range 7 {
			if _, err := ids.Next(); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(when string, want map[string]float64) {
			t.Helper()
			synctest.Wait()
			found := collect()
			for name, value := range want {
				if got, ok := found[name]; math.Abs(got-value) > .01 || !ok {
					t.Errorf("%s: %s is %v, want %v", when, name, got, value)
				}
			}
		}
		expect("at the start", map[string]float64{
			"nodelease_lease_held{}": 1, "nodelease_node_id{}": 0, "nodelease_ids_issued_total{}": 7, "nodelease_lease_suspended_seconds_total{}": 0,
			"nodelease_claims_total{outcome=claimed}": 1, "nodelease_lease_events_total{event=lost}": 0, "nodelease_lease_left_seconds{}": 13, "nodelease_ids_left_seconds{}": 13, "nodelease_lease_length_seconds{}": 15, "nodelease_clock_error_seconds{}": 0,
		})
		time.Sleep(time.Minute)
		store.SetOutage(context.DeadlineExceeded)
		time.Sleep(lease.DefaultTTL)
		before := collect()
		if before["nodelease_lease_suspended_seconds_total{}"] <= 0 || before["nodelease_renewals_total{outcome=confirmed}"] < 10 ||
			before["nodelease_renewals_total{outcome=timeout}"] == 0 || before["nodelease_renewal_duration_seconds{}"] < 10 {
			t.Errorf("in an outage: %v", before)
		}
		if _, err := ids.TryNext(); !errors.Is(err, snowflake.ErrFenced) {
			t.Errorf("got %v, want snowflake.ErrFenced", err)
		}
		time.Sleep(10 * time.Second)
		expect("later in the outage", map[string]float64{
			"nodelease_lease_held{}": 0, "nodelease_ids_refused_total{}": 1, "nodelease_lease_events_total{event=suspended}": 1,
			"nodelease_lease_suspended_seconds_total{}": before["nodelease_lease_suspended_seconds_total{}"] + 10,
		})
		store.SetOutage(nil)
		time.Sleep(10 * time.Second)
		expect("after the outage", map[string]float64{"nodelease_lease_held{}": 1, "nodelease_lease_events_total{event=resumed}": 1})
		after := collect()["nodelease_lease_suspended_seconds_total{}"]
		time.Sleep(time.Minute)
		expect("a minute later", map[string]float64{"nodelease_lease_suspended_seconds_total{}": after})
		if err := agent.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, there := collect()["nodelease_lease_held{}"]; there {
			t.Error("an agent that has ended is still observed")
		}
	})
}

// A hook that hung may have missed the event that ended a suspension. The next renewal
// shows that the suspension has ended.
func TestSuspensionWhoseEndWasDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, collect := instruments(t)
		store := leasetest.NewMemory("orders", 1)
		agent, err := lease.Start(t.Context(), lease.Config{Store: store, Pool: "orders", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer agent.Close()
		if err := m.Observe(agent); err != nil {
			t.Fatal(err)
		}
		m.Event(lease.Event{Kind: lease.EventSuspended})
		time.Sleep(3 * time.Second) // virtual
		m.Event(lease.Event{Kind: lease.EventRenewed, Left: time.Second})
		time.Sleep(time.Minute) // virtual
		if got := collect()["nodelease_lease_suspended_seconds_total{}"]; got != 3 {
			t.Errorf("got %v s suspended, want 3", got)
		}
	})
}

// If the events that ended a suspension were dropped, the next suspension does not take back
// what collections have counted.
func TestSuspendedTimeNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, collect := instruments(t)
		agent, err := lease.Start(t.Context(), lease.Config{Store: leasetest.NewMemory("orders", 1), Pool: "orders", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer agent.Close()
		if err := m.Observe(agent); err != nil {
			t.Fatal(err)
		}
		for round := range 3 {
			before := collect()["nodelease_lease_suspended_seconds_total{}"]
			m.Event(lease.Event{Kind: lease.EventSuspended})
			if got := collect()["nodelease_lease_suspended_seconds_total{}"]; got < before {
				t.Errorf("round %d: got %v s suspended after %v s", round, got, before)
			}
			time.Sleep(3 * time.Second) // virtual
		}
	})
}

// Each throttled request is counted by the limit that the answer names.
func TestThrottles(t *testing.T) {
	m, collect := instruments(t)
	for _, limit := range []string{"hot_key", "table", "hot_key", "account", ""} {
		m.Event(lease.Event{Kind: lease.EventUnanswered, Lease: lease.Lease{Pool: "orders"}, Reason: "throttled", Throttled: limit})
	}
	m.Event(lease.Event{Kind: lease.EventUnanswered, Lease: lease.Lease{Pool: "orders"}, Reason: "timeout"})
	found := collect()
	for limit, want := range map[string]float64{"hot_key": 2, "table": 1, "account": 1, "unknown": 1} {
		if got := found["nodelease_requests_throttled_total{limit="+limit+"}"]; got != want {
			t.Errorf("%s: %v, want %v", limit, got, want)
		}
	}
}

// A holder that gets no answer when it reads the pool's item has tried no node ID.
func TestReadOfThePoolIsNoClaim(t *testing.T) {
	m, collect := instruments(t)
	m.Event(lease.Event{Kind: lease.EventUnanswered, Lease: lease.Lease{Pool: "orders", NodeID: -1}, Reason: "timeout"})
	m.Event(lease.Event{Kind: lease.EventUnanswered, Lease: lease.Lease{Pool: "orders", NodeID: 3}, Reason: "timeout"})
	found := collect()
	if got := found["nodelease_claims_total{outcome=unanswered}"]; got != 1 {
		t.Errorf("got %v claims without an answer, want 1", got)
	}
	if got := found["nodelease_lease_events_total{event=unanswered}"]; got != 2 {
		t.Errorf("got %v events, want 2", got)
	}
}

// A start that finds no free node ID is counted as exhausted.
func TestExhaustion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, collect := instruments(t)
		store := leasetest.NewMemory("orders", 1)
		cfg := lease.Config{Store: store, Pool: "orders", Logger: slog.New(slog.DiscardHandler)}
		first, err := lease.Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		cfg.OnEvent, cfg.Wait = m.Event, 20*time.Second
		if _, err := lease.Start(t.Context(), cfg); !errors.Is(err, lease.ErrPoolExhausted) {
			t.Fatalf("got %v, want lease.ErrPoolExhausted", err)
		}
		synctest.Wait()
		if found := collect(); found["nodelease_claims_total{outcome=exhausted}"] == 0 {
			t.Errorf("%v", found)
		}
	})
}

// docs/metrics.md, the dashboard and the alerts name only metrics that are exported, and
// docs/metrics.md names all exported metrics.
func TestDocsNameWhatIsExported(t *testing.T) {
	exported := map[string]bool{}
	synctest.Test(t, func(t *testing.T) {
		m, collect := instruments(t)
		agent, err := lease.Start(t.Context(), lease.Config{Store: leasetest.NewMemory("orders", 1), Pool: "orders", OnEvent: m.Event, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer agent.Close()
		if err := m.Observe(agent); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for name := range collect() {
			name, _, _ = strings.Cut(name, "{")
			exported[name] = true
		}
	})
	for _, file := range []string{"metrics.md", "grafana/nodelease.json", "grafana/alerts.yaml"} {
		text, err := os.ReadFile("../../../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]bool{}
		for _, name := range regexp.MustCompile(`nodelease_[a-z_]+`).FindAllString(string(text), -1) {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} { // of a histogram
				if base, cut := strings.CutSuffix(name, suffix); cut && exported[base] {
					name = base
				}
			}
			named[name] = true
			if !exported[name] {
				t.Errorf("%s names %s, which is not exported", file, name)
			}
		}
		for name := range exported {
			if file == "metrics.md" && !named[name] {
				t.Errorf("%s does not name %s", file, name)
			}
		}
	}
}

// The error of the clock that ECS reported stays, also after events without it.
func TestClockErrorStays(t *testing.T) {
	m, collect := instruments(t)
	l := lease.Lease{Pool: "orders", Holder: "x"}
	m.Event(lease.Event{Kind: lease.EventRenewed, Lease: l, Left: time.Second, ClockError: 3 * time.Second})
	before := collect()
	m.Event(lease.Event{Kind: lease.EventWarning, Lease: lease.Lease{Pool: "orders", NodeID: -1}, Err: errors.New("x")})
	for name, want := range before {
		if got := collect()[name]; strings.Contains(name, "clock") && got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
