package embeddeddb

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func open(t *testing.T, data string) *Server {
	t.Helper()
	s, err := New(Options{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func must(t *testing.T, s *Server, operation, body string) string {
	t.Helper()
	w := call(s, operation, body)
	if w.Code != http.StatusOK {
		t.Fatalf("%s %s: %d %s, want Code OK", operation, body, w.Code, w.Body)
	}
	return w.Body.String()
}

func leaseKey(n int) string {
	return fmt.Sprintf(`"TableName":"leases","Key":{"pool_group":{"S":"p#%d"},"node_id":{"N":"%d"}}`, n%3, n)
}

func count(t *testing.T, s *Server, n int) {
	t.Helper()
	must(t, s, "UpdateItem", `{`+leaseKey(n)+`,"UpdateExpression":"SET n = if_not_exists(n, :0) + :1","ExpressionAttributeValues":{":0":{"N":"0"},":1":{"N":"1"}}}`)
}

// contents returns all items, in order.
func contents(t *testing.T, s *Server) string {
	t.Helper()
	all := map[string][]Item{}
	for name, table := range s.tables {
		all[name] = table.rows
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestJournalKeepsEverything(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := open(t, data)
	must(t, s, "CreateTable", createLeases)
	must(t, s, "CreateTable", strings.Replace(createLeases, "leases", "dropped", 1))
	for n := range 10 {
		count(t, s, n)
		count(t, s, n%4)
	}
	must(t, s, "UpdateItem", claim)
	must(t, s, "DeleteTable", `{"TableName":"dropped"}`)
	want, described := contents(t, s), must(t, s, "DescribeTable", `{"TableName":"leases"}`)
	for range 2 { // once from the journal as it grew, and once from the compacted journal
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, data)
		if got := contents(t, s); got != want {
			t.Errorf("after a restart:\n%s\nbefore:\n%s", got, want)
		}
		if got := must(t, s, "DescribeTable", `{"TableName":"leases"}`); got != described {
			t.Errorf("described as %s, before %s", got, described)
		}
	}
	lines, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(lines), "\n"); got != 1+10+1 {
		t.Errorf("%d lines after a restart, want a table and its 11 items after the header", got)
	}
}

// A write whose line is incomplete was not acknowledged, and is dropped. The other writes are kept.
func TestJournalTornAtEveryByte(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	s := open(t, data)
	must(t, s, "CreateTable", createLeases)
	count(t, s, 1)
	before := contents(t, s)
	whole, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	count(t, s, 2)
	after := contents(t, s)
	s.Close()
	more, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	for size := len(whole); size <= len(more); size++ {
		torn := filepath.Join(dir, fmt.Sprint("torn", size))
		if err := os.WriteFile(torn, more[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		want := before
		if size == len(more) {
			want = after
		}
		s := open(t, torn)
		if got := contents(t, s); got != want {
			t.Errorf("cut to %d of %d bytes: %s", size, len(more), got)
		}
		count(t, s, 2) // writes continue
		s.Close()
		if got := contents(t, open(t, torn)); got == before {
			t.Errorf("cut to %d bytes: a write after the restart is lost", size)
		}
	}
}

const envServe = "NODELEASE_TEST_SERVE_DATA"

// TestMain lets tests run this binary as the server that they kill.
func TestMain(m *testing.M) {
	if data := os.Getenv(envKill); data != "" {
		killAtStep(data)
	}
	if data := os.Getenv(envServe); data != "" {
		err := ListenAndServe(context.Background(), "127.0.0.1:0", data, func(endpoint string) { fmt.Println(endpoint) })
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serve runs a server in a process of its own, which ends with the test at the latest.
func serve(t *testing.T, data string) (endpoint string, pid int) {
	t.Helper()
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), envServe+"="+data)
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	if endpoint, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(endpoint), server.Process.Pid
}

// counted returns the attribute n; 0 if there is none.
func counted(i Item) (n int) {
	if i["n"].N != nil {
		fmt.Sscan(string(*i["n"].N), &n)
	}
	return n
}

// Every write that was acknowledged before a kill -9 is there afterwards, and at most one
// other write of each writer, which was in flight.
func TestJournalSurvivesKill(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	const rounds, writers, acknowledgedBeforeKill = 4, 4, 100
	acknowledged := make([]int, writers)
	for round := range rounds {
		endpoint, pid := serve(t, data)
		post := func(operation, body string) (answer struct{ Attributes, Item Item }, err error) {
			r, err := http.NewRequest(http.MethodPost, endpoint, strings.NewReader(body))
			if err != nil {
				return answer, err
			}
			r.Header.Set("Content-Type", "application/x-amz-json-1.0")
			r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				return answer, err
			}
			defer w.Body.Close()
			return answer, json.NewDecoder(w.Body).Decode(&answer)
		}
		if round == 0 {
			if _, err := post("CreateTable", createLeases); err != nil {
				t.Fatal(err)
			}
		}
		var writing sync.WaitGroup
		enough := make(chan bool, writers)
		for writer := range writers {
			if got, err := post("GetItem", `{`+leaseKey(writer)+`}`); err != nil {
				t.Fatal(err)
			} else if told, found := acknowledged[writer], counted(got.Item); found < told || found > told+1 {
				t.Fatalf("round %d: writer %d got %d acknowledgements and found %d writes", round, writer, told, found)
			} else {
				acknowledged[writer] = found
			}
			writing.Go(func() {
				for n := 1; ; n++ {
					got, err := post("UpdateItem", `{`+leaseKey(writer)+`,"UpdateExpression":"SET n = if_not_exists(n, :0) + :1","ExpressionAttributeValues":{":0":{"N":"0"},":1":{"N":"1"}},"ReturnValues":"ALL_NEW"}`)
					if err != nil {
						return // the server was killed
					}
					if acknowledged[writer] = counted(got.Attributes); n == acknowledgedBeforeKill {
						enough <- true
					}
				}
			})
		}
		<-enough
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		writing.Wait()
	}
	http.DefaultClient.CloseIdleConnections()
}
