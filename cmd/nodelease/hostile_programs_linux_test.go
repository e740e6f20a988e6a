package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/internal/text/texttest"
)

// hostilePool creates a pool in which every node ID but the last is corrupt or has a
// hostile holder.
func hostilePool(t *testing.T) (w *ward, free int, flags []string) {
	t.Helper()
	client := dynamotest.Embedded(t)
	w = &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	free = 2 * len(texttest.Hostile)
	w.seed("orders", free+1)
	for i, name := range slices.Sorted(maps.Keys(texttest.Hostile)) {
		value := hostileText(name)
		w.put(number(2*i, time.Now().Add(time.Hour), map[string]any{"task": value, "holder": cutTo(value, 64), "metadata": map[string]any{"key": value}}))
		w.put(map[string]any{"pool_group": "orders#0", "node_id": 2*i + 1, "version": value, "previous": map[string]any{"session": value, "version": 1, "ended": value}})
	}
	return w, free, []string{"--endpoint", *client.Options().BaseEndpoint, "--table", w.table, "--pool", "orders", "--ttl", "5s"}
}

// hostileText returns a text of the corpus, changed so that DynamoDB accepts it and a lease
// may contain it.
func hostileText(name string) string {
	return cutTo(strings.ToValidUTF8(texttest.Hostile[name], "\ufffd"), 300)
}

// take assigns a node ID to a hostile session, so that the node ID's holder loses it.
func (w *ward) take(node int, name string) {
	value := hostileText(name)
	w.put(number(node, time.Now().Add(time.Hour), map[string]any{"version": 9, "task": value, "holder": cutTo(value+strings.Repeat("x", 64), 64), "metadata": map[string]any{"key": value}}))
}

// losses are names of texts of the corpus. Each text does something different to a terminal.
var losses = []string{"csi clear", "newline", "bidi override", "c1 csi", "remedy"}

// Even when a hostile holder takes the node ID, the logs of exec and serve, and the answers
// of serve, contain no control characters and no injected lines.
func TestHostileNeighbours(t *testing.T) {
	if testing.Short() {
		t.Skip("runs programs that lose their leases")
	}
	t.Parallel()
	plain := func(t *testing.T, what, output string) {
		t.Helper()
		if err := texttest.Check(output, false, 0); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for line := range strings.Lines(output) {
			if strings.HasPrefix(line, "✓") || strings.HasPrefix(line, "nodelease: done") {
				t.Errorf("%s: an injected line: %q", what, line)
			}
		}
	}
	for _, name := range losses {
		t.Run("exec, "+name, func(t *testing.T) {
			t.Parallel()
			w, free, flags := hostilePool(t)
			p := start(t, self(append(append([]string{"exec"}, flags...), "--", "sh", "-c", "echo started $NODELEASE_NODE_ID; exec sleep 600")...))
			if line := p.until(t, "started"); line != fmt.Sprint("started ", free) {
				t.Errorf("%q, want node %d", line, free)
			}
			w.take(free, name)
			out, code := p.end(t)
			plain(t, "exec", out+p.stderr.String())
			if code == 0 || !strings.Contains(p.stderr.String(), "lost") {
				t.Errorf("exit code %d, want a failure and the loss: %s", code, p.stderr)
			}
		})
		t.Run("serve, "+name, func(t *testing.T) {
			t.Parallel()
			w, free, flags := hostilePool(t)
			p := start(t, self(append([]string{"serve", "--json", "--listen", "127.0.0.1:0"}, flags...)...))
			listens := p.until(t, "listen")
			plain(t, "serve", listens)
			_, at, _ := strings.Cut(listens, `"listen":"`)
			at, _, _ = strings.Cut(at, `"`)
			w.take(free, name)
			// serve answers until it notices the loss, and then ends.
			for asked := 0; ; asked++ {
				path := []string{"/readyz", "/readyz?need=lease", "/livez", "/v1/lease", "/v1/node", "/metrics"}[asked%6]
				res, err := http.Get(at + path)
				if err != nil {
					break
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil {
					break
				}
				plain(t, path, string(body))
			}
			out, _ := p.end(t)
			plain(t, "serve", out+p.stderr.String())
			if !strings.Contains(p.stderr.String(), "lost") {
				t.Errorf("the loss is not in the log: %s", p.stderr)
			}
		})
	}
}
