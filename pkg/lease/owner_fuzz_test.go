package lease

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Whatever ECS's metadata endpoint says: what goes into items, logs and errors is
// printable and short, and a clock error is a length of time.
func FuzzECSMetadata(f *testing.F) {
	f.Add([]byte(`{"TaskARN":"arn:aws:ecs:eu-west-1:123456789012:task/c/0123","Cluster":"c","AvailabilityZone":"eu-west-1a",
		"ClockDrift":{"ClockErrorBound":0.5,"ReferenceTimestamp":"2026-01-01T00:00:00Z","ClockSynchronizationStatus":"SYNCHRONIZED"}}`))
	f.Add([]byte(`{"Containers":[{"ClockDrift":{"ClockErrorBound":1e300,"ClockSynchronizationStatus":"NOT_SYNCHRONIZED"}},{"ClockDrift":null}]}`))
	f.Add([]byte(`{"TaskARN":"\u0000","ClockDrift":{"ClockErrorBound":-1e308}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m ecsMetadata
		if json.Unmarshal(data, &m) != nil {
			return
		}
		o := owner{task: "host/1"}
		_ = m.describe(&o) // it says what is not plausible
		for _, s := range []string{o.task, o.cluster, o.zone, o.clockAt} {
			if s != "" && !printable(s, 400) {
				t.Errorf("%q", s)
			}
		}
		if o.clockError < 0 || o.clockError > protocol.MaxTTL {
			t.Errorf("a clock error of %v", o.clockError)
		}
		size := 0
		for k, v := range o.addTo(nil, 100) {
			size += len(k) + len(v)
		}
		if size > 100 {
			t.Errorf("%d bytes where there is room for 100", size)
		}
		_ = o.checkClock(time.Now(), time.Second)
	})
}
