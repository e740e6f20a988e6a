package demo

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		want   []string // parts of the one error; empty: the options are valid
	}{
		"defaults":          {func(o *Options) {}, nil},
		"one of one":        {func(o *Options) { o.Tasks, o.Size = 1, 1 }, nil},
		"five on three":     {func(o *Options) { o.Tasks, o.Size = 5, 3 }, nil},
		"shortest lease":    {func(o *Options) { o.TTL = time.Second }, nil},
		"an hour":           {func(o *Options) { o.TTL = time.Hour }, nil},
		"no node IDs":       {func(o *Options) { o.Size = 0 }, []string{"--size 0: use 1 to 1024"}},
		"too many node IDs": {func(o *Options) { o.Size = 70000 }, []string{"--size 70000: use 1 to 1024"}},
		"no tasks":          {func(o *Options) { o.Tasks = 0 }, []string{"--tasks 0"}},
		"negative lease":    {func(o *Options) { o.TTL = -time.Second }, []string{"--ttl -1s: use 1s to 24h"}},
		"odd lease":         {func(o *Options) { o.TTL = 1500*time.Millisecond + 1 }, []string{"whole milliseconds"}},
		"short":             {func(o *Options) { o.Duration = time.Second }, []string{"--duration 1s"}},
		"negative wait":     {func(o *Options) { o.Wait = -1 }, []string{"--wait"}},
		"port":              {func(o *Options) { o.Port = 65536 }, []string{"--port 65536"}},
		"outage":            {func(o *Options) { o.Outage = true }, nil},
		"outage defaults":   {func(o *Options) { *o = OutageDefaults() }, nil},
		"outage of an hour": {func(o *Options) { o.Outage, o.TTL = true, time.Hour }, []string{"use --duration"}},
		"all at once": {func(o *Options) { o.Tasks, o.Size, o.TTL, o.Port = -1, -1, 0, -1 },
			[]string{"--tasks", "--size", "--ttl", "--port"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := options(test.change).Validate()
			if len(test.want) == 0 && err != nil {
				t.Error(err)
			}
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
		})
	}
}
