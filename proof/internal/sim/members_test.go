package sim

import (
	"encoding/json"
	"maps"
	"testing"
)

// members returns the same as encoding/json would.
func TestMembers(t *testing.T) {
	for _, object := range []string{
		`{}`, `{"a":1}`, `{"a":{"S":"x"},"b":{"N":"7"}}`, `{ "a" : {"M":{"x":{"S":"},{\""}}} , "b":[1,{"c":"]"}],"c":null,"d":"e"}`,
		`{"Key":{"pool_group":{"S":"orders#0"},"node_id":{"N":"1"}},"UpdateExpression":"SET a = :a, b = :b","n":-1.5,"t":true}`,
		`{"a\u0062":{"S":"\u003c\\"},"":{"S":""}}`,
	} {
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(object), &want); err != nil {
			t.Fatal(err)
		}
		same := func(a, b json.RawMessage) bool { return string(a) == string(b) && text(a) == slowText(b) }
		if got := members([]byte(object)); !maps.EqualFunc(got, want, same) {
			t.Errorf("%s: got %s, want %s", object, got, want)
		}
	}
}

func slowText(attribute json.RawMessage) string {
	var v struct{ S, N string }
	_ = json.Unmarshal(attribute, &v)
	return v.S + v.N
}
