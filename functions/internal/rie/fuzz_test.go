package rie_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/functions/internal/rie"
)

// strange are values that no event should contain.
var strange = []any{nil, true, -1, 0, 1.5, 1e300, "", "x", "16", "-1", "65537", "true", "\x00", "\u202e", strings.Repeat("long ", 2000), []any{}, []any{map[string]any{}}, map[string]any{}, map[string]any{"a": nil}}

// damaged returns the event, either with some values that it should not contain, or cut off.
func damaged(r *rand.Rand, text []byte, url string) []byte {
	var event map[string]any
	if json.Unmarshal(text, &event) != nil {
		return text
	}
	for range 1 + r.IntN(3) {
		at := event
		if inner, ok := at["ResourceProperties"].(map[string]any); ok && r.IntN(2) == 0 {
			at = inner
		}
		names := []string{"Pool", "Size", "Floor", "Narrow", "Table", "RequestType", "new"}
		for name := range at {
			if name != "ResponseURL" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		name := names[r.IntN(len(names))]
		if at[name] = strange[r.IntN(len(strange))]; r.IntN(4) == 0 {
			delete(at, name)
		}
	}
	out, err := json.Marshal(event)
	if err != nil {
		return text
	}
	out = rie.Redirect(out, url)
	if r.IntN(8) == 0 {
		out = out[:r.IntN(len(out))]
	}
	return out
}

// The built functions answer any event with a result or an error of their own, and continue.
func TestFunctionsBearAnyEvent(t *testing.T) {
	files, err := filepath.Glob("../../../events/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var events [][]byte
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.NewReplacer("1024", "16", "512", "8").Replace(string(text))) // large pools take long
		events = append(events, text)
	}
	for _, name := range []string{"bootstrap", "reaper", "poolmetric"} {
		t.Run(name, func(t *testing.T) {
			w := run(t, name, nil)
			seed := rand.Uint64()
			t.Logf("rand.NewPCG(%d, 1)", seed)
			r := rand.New(rand.NewPCG(seed, 1))
			rounds := 300
			if testing.Short() {
				rounds = 30
			}
			for range rounds {
				text := bytes.ReplaceAll(events[r.IntN(len(events))], []byte(`"Table": "nodelease"`), []byte(`"Table": "`+w.table+`"`))
				event := damaged(r, text, w.cloud.URL)
				_, err := w.Invoke(t.Context(), event)
				if err != nil && (strings.Contains(err.Error(), "Runtime.ExitError") || strings.Contains(err.Error(), "exit status") || strings.Contains(err.Error(), "panic")) {
					t.Fatalf("%s: %v\n%s", event, err, w.log)
				}
			}
			if strings.Contains(w.log.String(), `"msg":"panic"`) {
				t.Errorf("the function panicked:\n%s", w.log)
			}
		})
	}
}

// TestColdStart measures how long a function takes from its start until its first
// answer, the emulator's own start included.
func TestColdStart(t *testing.T) {
	for _, name := range []string{"bootstrap", "reaper", "poolmetric"} {
		var took []time.Duration
		w := run(t, name, nil)
		event := name
		if name == "bootstrap" {
			event = `{"Pool":"orders","Size":1}`
		}
		for range 5 {
			begun := time.Now()
			f, err := rie.Start(t.Context(), w.emulator, w.binary, w.env, w.log)
			if err != nil {
				t.Fatal(err)
			}
			first := w.Function
			w.Function = f
			if _, err := w.send(t, event); err != nil {
				t.Errorf("%s: %v\n%s", name, err, w.log)
			}
			took = append(took, time.Since(begun))
			w.Function = first
			f.Close()
		}
		slices.Sort(took)
		t.Logf("%s: %v from its start to its first answer, the median of 5 (%v to %v)", name, took[2].Round(time.Millisecond), took[0].Round(time.Millisecond), took[4].Round(time.Millisecond))
		if took[0] > 10*time.Second {
			t.Errorf("%s: the fastest of 5 starts took %v, limit 10 s", name, took[0])
		}
	}
}
