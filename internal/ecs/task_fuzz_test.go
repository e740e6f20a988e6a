package ecs

import (
	"encoding/json"
	"testing"
)

// For any answer of ECS's metadata endpoint, the values for items, logs and errors
// are printable and short, and the clock error is within its bounds.
func FuzzTask(f *testing.F) {
	f.Add([]byte(`{"TaskARN":"arn:aws:ecs:eu-west-1:123456789012:task/c/0123","Cluster":"c","AvailabilityZone":"eu-west-1a",
		"ClockDrift":{"ClockErrorBound":0.5,"ReferenceTimestamp":"2026-01-01T00:00:00Z","ClockSynchronizationStatus":"SYNCHRONIZED"}}`))
	f.Add([]byte(`{"Containers":[{"ClockDrift":{"ClockErrorBound":1e300,"ClockSynchronizationStatus":"NOT_SYNCHRONIZED"}},{"ClockDrift":null}]}`))
	f.Add([]byte(`{"TaskARN":"\u0000","ClockDrift":{"ClockErrorBound":-1e308}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m metadata
		if json.Unmarshal(data, &m) != nil {
			return
		}
		task := m.task()
		for _, s := range []string{task.ARN, task.Cluster, task.Zone, task.Clock.Reference} {
			if s != "" && !printable(s, 400) {
				t.Errorf("%q", s)
			}
		}
		if task.Clock.Error < 0 || task.Clock.Error > mostError {
			t.Errorf("a clock error of %v", task.Clock.Error)
		}
		if task.ARN == "" && task.Doubt == nil {
			t.Error("a task without an ARN was accepted")
		}
	})
}
