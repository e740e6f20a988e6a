package handler

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-lambda-go/cfn"

	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

// Any event results in an error or in the pool that the event describes, never in a panic,
// which would leave a deployment waiting. A refused event has no effect.
func FuzzBootstrap(f *testing.F) {
	events, err := filepath.Glob("../../../events/bootstrap*.json")
	if err != nil || len(events) == 0 {
		f.Fatal(events, err)
	}
	for _, name := range events {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		// Small pools are enough, and faster.
		f.Add(bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("1024"), []byte("32")), []byte("512"), []byte("16")))
	}
	f.Add([]byte(`{"Pool":"p","Size":"8","ExcludeBelow":1,"Floor":"1795219200000"}`))
	f.Add([]byte(`{"RequestType":"Update","ResourceProperties":{"Pool":"p","Size":-1}}`))
	f.Add([]byte(`{"RequestType":7}`))
	f.Add([]byte(`[]`))
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := leasetest.NewMemory("", 0)
		b := &Bootstrap{Table: "nodelease", Store: s}
		var e cfn.Event
		custom := json.Unmarshal(text, &e) == nil && e.RequestType != ""
		if custom {
			// Handle is not called for such an event, since it would send the answer to the address in it.
			text, _ = json.Marshal(e.ResourceProperties)
		}
		r, malformed := decodeRequest(text, !custom)
		if malformed == nil && r.Size > 64 {
			t.Skip("a pool of this size takes too long")
		}
		var err error
		if custom {
			_, _, err = b.resource(t.Context(), e)
		} else {
			_, err = b.Handle(t.Context(), text)
		}
		pool, missing := s.PoolItem(t.Context(), r.Pool)
		switch done := custom && e.RequestType == cfn.RequestDelete; {
		case err == nil && !done && (missing != nil || pool.Size != int(r.Size)):
			t.Errorf("%s: got no error, but the pool is %+v, %v", text, pool, missing)
		case malformed != nil && missing == nil:
			t.Errorf("%s: got %v, but the pool is %+v", text, malformed, pool)
		}
	})
}

// Any value of the variable is refused, or is read as pools with valid names, none of them
// twice.
func FuzzPools(f *testing.F) {
	f.Add(`[{"pool":"orders","size":1024,"excludeBelow":0},{"pool":"a-b.c_D"}]`)
	f.Add(`[{"pool":"a"},{"pool":"a"}]`)
	f.Add(`[]`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, text string) {
		specs, err := Pools(text)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, s := range specs {
			if leasepool.CheckName(s.Pool) != nil || seen[s.Pool] {
				t.Errorf("%s: read as %+v", text, specs)
			}
			seen[s.Pool] = true
		}
		if len(specs) == 0 {
			t.Errorf("%s: no pools", text)
		}
	})
}
