package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// page returns an answer to a Query with these items, as DynamoDB sends it.
func page(items ...string) string {
	return `{"Count":` + fmt.Sprint(len(items)) + `,"Items":[` + strings.Join(items, ",") + `],"LastEvaluatedKey":{"node_id":{"N":"7"},"pool_group":{"S":"orders#0"}},"ScannedCount":9}`
}

// An answer of DynamoDB with items such as ours passes byte for byte.
func TestTrimKeepsOurs(t *testing.T) {
	lease := `{"node_id":{"N":"7"},"metadata":{"M":{"a{\"},[":{"S":"}]\\"},"b":{"S":"\\\""}}},"retired":{"BOOL":true},"pool_group":{"S":"orders#0"}}`
	shared := make([]string, 8192)
	for i := range shared {
		shared[i] = fmt.Sprintf(`"%d":{"M":{"version":{"N":"9007199254740991"},"ends":{"N":"1795219299999"}}}`, 57344+i)
	}
	known := make([]string, 1024)
	for i := range known {
		known[i] = fmt.Sprintf(`"%d":{"N":"9007199254740991"}`, 57344+i)
	}
	members := make([]string, 150) // 1 MB together
	for i := range members {
		members[i] = `{"node_id":{"N":"7"},"known":{"M":{` + strings.Join(known, ",") + `}},"pool_group":{"S":"orders#known"}}`
	}
	leases := make([]string, 256)
	for i := range leases {
		leases[i] = lease
	}
	for name, answer := range map[string]string{
		"nothing":         "",
		"no item":         "{}",
		"an item":         `{"Item":` + lease + `}`,
		"after a write":   `{"Attributes":` + lease + `}`,
		"a refusal":       `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","Item":` + lease + `,"message":"The conditional request failed"}`,
		"spaces":          " { \"Items\" : [ " + lease + " , { } ] , \"Count\" : 2 }\n",
		"a group":         page(leases...),
		"known versions":  page(members...),
		"digest":          `{"Item":{"members":{"S":"` + strings.Repeat("x", 390_000) + `"},"node_id":{"N":"1"},"pool_group":{"S":"orders#digest"}}}`,
		"shared leases":   page(`{"node_id":{"N":"-1"},"leases":{"M":{`+strings.Join(shared, ",")+`}},"pool_group":{"S":"orders#svc#api"}}`, lease),
		"a table":         `{"Table":{"Item":{"a":1},"Replicas":[{"RegionName":"eu-west-1"}],"TableName":"leases"}}`,
		"an empty page":   page(),
		"names like ours": `{"message":"Items","Item":{"Items":{"L":[{"M":{"Item":{"S":"Items"}}}]},"node_id":{"N":"1"},"pool_group":{"S":"Item"}}}`,
	} {
		for _, r := range []io.Reader{strings.NewReader(answer), iotest.OneByteReader(strings.NewReader(answer))} {
			if got, err := trim(r); err != nil || string(got) != answer {
				t.Errorf("%s: got %.300s, %v, want it as it was: %.300s", name, got, err, answer)
			}
		}
		if got, err := trimAll(strings.NewReader(answer)); err != nil || string(got) != answer {
			t.Errorf("%s, looked into: got %.300s, %v, want it as it was: %.300s", name, got, err, answer)
		}
	}
}

// large returns attributes that no item of ours has; each has 390 KB in the table.
func large() map[string]string {
	return map[string]string{
		"empty texts":        `{"L":[` + strings.Repeat(`{"S":""},`, 390_000-1) + `{"S":""}]}`,
		"powers of ten":      `{"L":[` + strings.Repeat(`{"N":"1`+strings.Repeat("0", 125)+`"},`, 130_000-1) + `{"N":"1"}]}`,
		"control characters": `{"S":"` + strings.Repeat(`\u0001`, 390_000) + `"}`,
		"flags":              `{"L":[` + strings.Repeat(`{"BOOL":false},`, 195_000-1) + `{"NULL":true}]}`,
		"a map":              `{"M":{` + many(60_000) + `}}`,
	}
}

// many returns n attributes, each with an empty text.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%x":{"S":""},`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
}

// Content that our items do not have is left out, anywhere in the item. The item
// keeps its key and is marked, and its neighbours are unchanged.
func TestTrimLeavesOut(t *testing.T) {
	const key, neighbour = `"node_id":{"N":"1"},"pool_group":{"S":"orders#0"}`, `{"holder":{"S":"me"},"node_id":{"N":"7"},"pool_group":{"S":"orders#0"}}`
	attributes := large()
	for name, value := range attributes {
		attributes[name] = `"x":` + value
	}
	attributes["many attributes"] = many(60_000)
	attributes["a long name"] = `"` + strings.Repeat("n", maxItem) + `":{"S":"x"}`
	for name, attribute := range attributes {
		for place, item := range map[string]string{
			"before its key":   `{` + attribute + `,"version":{"N":"3"},` + key + `}`,
			"behind its key":   `{` + key + `,"version":{"N":"3"},` + attribute + `}`,
			"between its keys": `{"node_id":{"N":"1"},` + attribute + `,"version":{"N":"3"},"pool_group":{"S":"orders#0"}}`,
		} {
			got, err := trim(strings.NewReader(page(neighbour, item, neighbour)))
			var page struct {
				Items []map[string]map[string]any
			}
			if err == nil {
				err = json.Unmarshal(got, &page)
			}
			if err != nil || len(page.Items) != 3 || !strings.HasPrefix(string(got), `{"Count":3,"Items":[`+neighbour) || !strings.Contains(string(got), neighbour+`],"LastEvaluatedKey"`) {
				t.Errorf("%s %s: %v, got %.300s", name, place, err, got)
				continue
			}
			one := page.Items[1]
			if one["node_id"]["N"] != "1" || one["pool_group"]["S"] != "orders#0" || one[trimmed] == nil || one["x"] != nil {
				t.Errorf("%s %s: %d attributes are left, %.300v", name, place, len(one), one)
			}
			if len(got) > 2*maxItem {
				t.Errorf("%s %s: %d bytes are left", name, place, len(got))
			}
		}
	}
}

// A page whose items are large together costs no more than mostBytes, and each item
// keeps its key.
func TestTrimOfAPage(t *testing.T) {
	items := make([]string, 400)
	for i := range items {
		items[i] = fmt.Sprintf(`{"metadata":{"L":[%s{"S":""}]},"node_id":{"N":"%d"},"pool_group":{"S":"orders#0"}}`, strings.Repeat(`{"S":""},`, 2500), i)
	}
	got, err := trim(strings.NewReader(page(items...)))
	if err != nil {
		t.Fatal(err)
	}
	if n, tokens := strings.Count(string(got), `"node_id":{"N":`), strings.Count(string(got), "{"); n != len(items)+1 || tokens > mostTokens || len(got) > mostBytes {
		t.Errorf("%d keys, %d tokens and %d bytes are left, want %d keys", n, tokens, len(got), len(items)+1)
	}
}

// endless repeats a text.
type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		n += copy(p[n:], e.text[e.read%len(e.text):])
		e.read += n
	}
	return n, nil
}

// An attacker between a reader and DynamoDB can send an endless answer. The reader stops
// at a bound, and has kept little of it.
func TestTrimEnds(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"a text":            io.MultiReader(strings.NewReader(`{"message":"`), &endless{text: "x"}),
		"a list":            io.MultiReader(strings.NewReader(`{"x":[`), &endless{text: "1,"}),
		"items":             io.MultiReader(strings.NewReader(`{"Items":[{`), &endless{text: `"node_id":{"N":"1"}},{`}),
		"an item":           io.MultiReader(strings.NewReader(`{"Item":{`), &endless{text: `"pool_group":{"S":"x"},`}),
		"a key":             io.MultiReader(strings.NewReader(`{"Item":{"node_id":{"N":"`), &endless{text: "1"}),
		"levels":            &endless{text: "["},
		"few bytes":         strings.NewReader(`{"Item":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + "}"),
		"brackets in texts": strings.NewReader(`{"Item":` + strings.Repeat("[", 60) + `"\"` + strings.Repeat("]", 59) + `",` + strings.Repeat("[", 60) + strings.Repeat("]", 60) + `,"` + strings.Repeat("[", 59) + `"` + strings.Repeat("]", 60) + "}"),
		"ends":              strings.NewReader(`]`),
		"nothing but names": io.MultiReader(strings.NewReader(`{"Item":{"`), &endless{text: "n"}),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := trim(r)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrNotDynamoDB) || got != nil {
			t.Errorf("%s: got %d bytes, %v, want ErrNotDynamoDB", name, len(got), err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%s: %d MB were allocated", name, n>>20)
		}
	}
	// Outside of items, reading stops much sooner: after about maxEnvelope bytes.
	for _, begin := range []string{`{"message":"`, `{"Table":{"x":"`} {
		var read counted
		_, err := trim(io.TeeReader(io.MultiReader(strings.NewReader(begin), &endless{text: "x"}), &read))
		if !errors.Is(err, ErrNotDynamoDB) || read > 2*maxEnvelope {
			t.Errorf("%s…: %d KB were read, %v, want about %d KB and ErrNotDynamoDB", begin, read>>10, err, maxEnvelope>>10)
		}
	}
	broken := errors.New("broken")
	if _, err := trim(io.MultiReader(strings.NewReader(`{"Item`), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("got %v, want what broke the connection", err)
	}
}

// counted is a writer that counts bytes.
type counted int

func (c *counted) Write(p []byte) (int, error) { *c += counted(len(p)); return len(p), nil }

// For any input, JSON stays JSON, nothing else becomes JSON, nothing is left out of a short
// answer, and the result does not depend on the packets in which the input arrives.
func FuzzTrim(f *testing.F) {
	f.Add(`{"Item":{"a":{"S":"x"}}}`)
	f.Add(page(`{"a":{"S":"x\\\""}}`, `{}`))
	f.Fuzz(func(t *testing.T, answer string) {
		got, err := trimAll(strings.NewReader(answer))
		slow, slowErr := trimAll(iotest.OneByteReader(strings.NewReader(answer)))
		if string(got) != string(slow) || (err == nil) != (slowErr == nil) {
			t.Fatalf("at once %q, %v; byte by byte %q, %v", got, err, slow, slowErr)
		}
		if tiny, tinyErr := trim(strings.NewReader(answer)); json.Valid(tiny) && (string(tiny) != string(got) || tinyErr != nil || err != nil) {
			t.Fatalf("%q, %v; looked into %q, %v", tiny, tinyErr, got, err)
		}
		if valid := json.Valid([]byte(answer)); err == nil && valid && string(got) != answer {
			t.Fatalf("got %q of %q", got, answer)
		}
	})
}
