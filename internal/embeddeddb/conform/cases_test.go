package conform

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"encoding/json"

	"github.com/nodelease/nodelease/internal/embeddeddb"
)

var repeated = regexp.MustCompile(`@(\d+)a`)

// written expands the shorthand of cases.txt to JSON.
func written(s string) string {
	s = strings.NewReplacer("@T", `"TableName":"cases"`, "@K", `"Key":{"p":{"S":"x"},"n":{"N":"1"}}`, "@I", `"p":{"S":"x"},"n":{"N":"2"}`).Replace(s)
	return repeated.ReplaceAllStringFunc(s, func(r string) string {
		n, _ := strconv.Atoi(r[1 : len(r)-1])
		return strings.Repeat("a", n)
	})
}

// TestCases compares the embedded DynamoDB with the known behavior of the service, case by case.
func TestCases(t *testing.T) {
	text, err := os.ReadFile("cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]int{}
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) != 5 {
			t.Errorf("cases.txt:%d: got %d columns, want 5: a case without a verdict: %q", n+1, len(f), line)
			continue
		}
		want, got := written(f[3]), serve(t, f[1], written(f[2]))
		verdict, why, _ := strings.Cut(f[4], ": ")
		ok := false
		switch verdict {
		case "right":
			ok = got == want
		case "refused by name":
			ok = strings.Contains(got, "the embedded DynamoDB does not support ")
		case "wrong on purpose":
			ok = got != want && why != "" && strings.Split(got, ":")[0] == strings.Split(want, ":")[0]
		}
		if verdicts[verdict]++; !ok {
			t.Errorf("cases.txt:%d: %s %.300s\n got %.300s\nwant %.300s\nverdict %q", n+1, f[1], f[2], got, want, f[4])
		}
	}
	t.Logf("%v", verdicts)
}

// TestSuitesJudged checks that each test of the other suites has one verdict, with its reason.
func TestSuitesJudged(t *testing.T) {
	text, err := os.ReadFile("suites.txt")
	if err != nil {
		t.Fatal(err)
	}
	verdict := regexp.MustCompile(`^(nubo|alternator|dynalite)\t\S+\t([^\t]+)\t(right|refused by name|wrong on purpose|not about it): [^\t]+$`)
	judged := map[string]int{}
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if !verdict.MatchString(line) {
			t.Errorf("suites.txt:%d: got %q, want a suite, a file, a test and a verdict", n+1, line)
		}
		test := line[:strings.LastIndex(line, "\t")]
		if judged[test]++; judged[test] > 1 {
			t.Errorf("suites.txt:%d: judged twice: %q", n+1, test)
		}
	}
}

// serve sends one request to a new server that has the table cases.
func serve(t *testing.T, operation, body string) string {
	t.Helper()
	s, err := embeddeddb.New(embeddeddb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	call := func(operation, body string) string {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code == http.StatusOK {
			return "ok " + w.Body.String()
		}
		var refused struct {
			Type    string `json:"__type"`
			Message string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &refused); err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(refused.Type, "#")
		return code + ": " + refused.Message
	}
	for _, c := range [][2]string{
		{"CreateTable", `{"TableName":"cases","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"p","AttributeType":"S"},{"AttributeName":"n","AttributeType":"N"}],"KeySchema":[{"AttributeName":"p","KeyType":"HASH"},{"AttributeName":"n","KeyType":"RANGE"}]}`},
		{"PutItem", `{"TableName":"cases","Item":{"p":{"S":"x"},"n":{"N":"1"},"a":{"N":"1"},"s":{"S":"x"},"l":{"L":[]}}}`},
	} {
		if got := call(c[0], c[1]); !strings.HasPrefix(got, "ok ") {
			t.Fatal(got)
		}
	}
	return call(operation, body)
}
