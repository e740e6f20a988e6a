package sidecar_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/nodelease/nodelease/internal/app/sidecar"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// schema is the subset of JSON Schema that this test supports. Any other field is an error.
type schema struct {
	Ref         string            `yaml:"$ref"`
	Type        any               `yaml:"type"`
	Required    []string          `yaml:"required"`
	Properties  map[string]schema `yaml:"properties"`
	Enum        []any             `yaml:"enum"`
	Minimum     *int              `yaml:"minimum"`
	Maximum     *int              `yaml:"maximum"`
	Pattern     string            `yaml:"pattern"`
	Additional  *schema           `yaml:"additionalProperties"`
	Items       *schema           `yaml:"items"`
	Description string            `yaml:"description"`
	Format      string            `yaml:"format"`
	Default     any               `yaml:"default"`
	Const       string            `yaml:"const"`
}

type response struct {
	Ref         string                             `yaml:"$ref"`
	Description string                             `yaml:"description"`
	Headers     map[string]any                     `yaml:"headers"`
	Content     map[string]struct{ Schema schema } `yaml:"content"`
}

type operation struct {
	OperationID, Summary string
	Parameters           []struct {
		Name   string
		Schema schema
	}
	Responses map[string]response
}

type openapi struct {
	Paths      map[string]map[string]operation
	Components struct {
		Responses map[string]response
		Schemas   map[string]schema
	}
}

func readOpenAPI(t *testing.T) (o openapi) {
	t.Helper()
	text, err := os.ReadFile("../../../api/openapi.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// wrong returns the fields of an answer that the schema does not have, and those that are missing.
func (o openapi) wrong(at string, s schema, v any) (all []string) {
	if s.Ref != "" {
		return o.wrong(at, o.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")], v)
	}
	kind := map[bool]string{true: "integer", false: "number"}
	is := "null"
	switch v := v.(type) {
	case map[string]any:
		is = "object"
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				all = append(all, at+"."+name+" is missing")
			}
		}
		for name, field := range v {
			switch p, ok := s.Properties[name]; {
			case ok:
				all = append(all, o.wrong(at+"."+name, p, field)...)
			case s.Additional != nil:
				all = append(all, o.wrong(at+"."+name, *s.Additional, field)...)
			default:
				all = append(all, at+"."+name+" is not in the file")
			}
		}
	case []any:
		is = "array"
		for _, item := range v {
			all = append(all, o.wrong(at+"[]", *s.Items, item)...)
		}
	case string:
		is = "string"
		if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v) {
			all = append(all, at+": "+v+" does not match")
		}
	case bool:
		is = "boolean"
	case float64:
		is = kind[v == float64(int64(v))]
		if s.Minimum != nil && v < float64(*s.Minimum) || s.Maximum != nil && v > float64(*s.Maximum) {
			all = append(all, at+" is out of range")
		}
	}
	if types, ok := s.Type.([]any); s.Type != is && !(ok && slices.Contains(types, any(is))) {
		all = append(all, at+" is of type "+is)
	}
	if f, ok := v.(float64); ok {
		v = int(f)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		all = append(all, at+" is not in the enum")
	}
	return all
}

// In every state, every route answers with a status, a media type and fields that
// api/openapi.yaml has, and with all fields that it requires.
func TestOpenAPIAnswers(t *testing.T) {
	o := readOpenAPI(t)
	seen := map[string]bool{} // statuses by path
	for state, begin := range states {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Date(2040, 1, 2, 0, 0, 0, 0, time.UTC))) // virtual
			s := begin(t)
			for path, methods := range o.Paths {
				for method, op := range methods {
					method = strings.ToUpper(method)
					query := map[string]string{"/v1/blocks": "?client=a&nonce=b"}[path]
					for _, request := range []string{
						method + " " + path + query,
						method + " " + path + query + "\nAccept: application/json;q=0.1, text/plain",
						method + " " + path + "?m=1",
						method + " " + path + query + "\nAccept: image/png",
						method + " " + path + query + "\n\nbody",
						method + " " + path + query + "\nOrigin: https://evil.example",
					} {
						answer := s.ask(t, request)
						head, body, _ := strings.Cut(answer, "\n\n")
						status, rest, _ := strings.Cut(head, " ")
						media, _, _ := strings.Cut(strings.SplitN(rest, "\n", 2)[0], ";")
						r, ok := op.Responses[status]
						if r.Ref != "" {
							r = o.Components.Responses[strings.TrimPrefix(r.Ref, "#/components/responses/")]
						}
						content, has := r.Content[media]
						if !ok || !has {
							t.Errorf("%s: %q: the file has no response %s %s", state, request, status, media)
							continue
						}
						seen[path+" "+status] = true
						if media != "application/json" {
							continue
						}
						var v any
						if err := json.Unmarshal([]byte(body), &v); err != nil {
							t.Fatal(err)
						}
						for _, wrong := range o.wrong("answer", content.Schema, v) {
							t.Errorf("%s: %q: %s\n%s", state, request, wrong, answer)
						}
					}
				}
			}
		})
	}
	// Every answer in the file occurs. Three are not tested here: 403 needs a real connection
	// for its Host (TestOrigin), 404 a fixed node ID, and 500 the end of the layout's time
	// (TestOpenAPIInternal).
	for path, methods := range o.Paths {
		for _, op := range methods {
			for status := range op.Responses {
				if !seen[path+" "+status] && status != "403" && status != "404" && status != "500" {
					t.Errorf("no route answers %s to %s", status, path)
				}
			}
		}
	}
}

// The file has exactly the routes of the handler.
func TestOpenAPIRoutes(t *testing.T) {
	o := readOpenAPI(t)
	source, err := os.ReadFile("handler.go")
	if err != nil {
		t.Fatal(err)
	}
	routes := map[string]bool{}
	for _, m := range regexp.MustCompile(`\{http\.Method(\w+), "([^"]+)",`).FindAllStringSubmatch(string(source), -1) {
		routes[strings.ToLower(m[1])+" "+m[2]] = true
	}
	listed := map[string]bool{}
	for path, methods := range o.Paths {
		for method := range methods {
			listed[method+" "+path] = true
		}
	}
	if !maps.Equal(routes, listed) || len(routes) == 0 {
		t.Errorf("the handler has %v, the file %v", slices.Sorted(maps.Keys(routes)), slices.Sorted(maps.Keys(listed)))
	}
	synctest.Test(t, func(t *testing.T) {
		toNoon()
		s := serve(t, snowflake.Default())
		for path, methods := range o.Paths {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
				_, has := methods[strings.ToLower(method)]
				if answer := s.ask(t, method+" "+path); strings.HasPrefix(answer, "405 ") == has {
					t.Errorf("%s %s: in the file: %v, got %s", method, path, has, answer)
				}
			}
		}
	})
}

// The file and docs/sidecar.md have exactly the words of all errors.
func TestOpenAPIErrors(t *testing.T) {
	words := map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`problem\{http\.Status\w+, "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
			words[m[1]] = true
		}
	}
	listed := map[string]bool{}
	for _, word := range readOpenAPI(t).Components.Schemas["Problem"].Properties["error"].Enum {
		listed[word.(string)] = true
	}
	if !maps.Equal(words, listed) {
		t.Errorf("the handler has %v, the file %v", slices.Sorted(maps.Keys(words)), slices.Sorted(maps.Keys(listed)))
	}
	page, err := os.ReadFile(contract)
	if err != nil {
		t.Fatal(err)
	}
	for word := range words {
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("docs/sidecar.md has no `%s`", word)
		}
	}
}

// The limits in the file are the same as those in the code.
func TestOpenAPILimits(t *testing.T) {
	o := readOpenAPI(t)
	for path, want := range map[string]int{"/v1/ids": sidecar.MaxIDs, "/v1/blocks": sidecar.MaxBlock} {
		for _, p := range o.Paths[path]["post"].Parameters {
			if p.Name == "n" && (p.Schema.Maximum == nil || *p.Schema.Maximum != want) {
				t.Errorf("%s: the file has another maximum than %d", path, want)
			}
		}
	}
}

// When the layout's time bits are used up, the answer is 500, as the OpenAPI file documents.
func TestOpenAPIInternal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		toNoon()
		s := serve(t, snowflake.Layout{Epoch: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Tick: time.Millisecond, TimeBits: 10, NodeBits: 4, SequenceBits: 4})
		for _, request := range []string{"POST /v1/ids", "POST /v1/blocks?client=a&nonce=b"} {
			if answer := s.ask(t, request); !strings.HasPrefix(answer, "500 ") || !strings.Contains(answer, `"internal"`) {
				t.Errorf("%s: %s", request, answer)
			}
		}
	})
}
