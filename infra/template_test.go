package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The plain template has the construct's resources, needs no CDK, and uses every parameter.
func TestPlainTemplate(t *testing.T) {
	text, err := plainTemplate(newApp(t, nil), zips)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(compact(t, text)); n > 51_200 {
		t.Errorf("the template has %d bytes, but the AWS CLI accepts 51,200 without a bucket", n)
	}
	for _, never := range []string{"cdk", "Fn::Transform", "AWS::SSM", poolPlace, idPlace} {
		if strings.Contains(string(text), never) {
			t.Errorf("the template contains %s", never)
		}
	}
	var doc, own document
	var raw struct{ Parameters map[string]any }
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		t.Fatal(err)
	}
	for name := range raw.Parameters {
		if !regexp.MustCompile(`"Ref": "` + name + `"|\$\{` + name + `\}`).Match(text) {
			t.Errorf("nothing depends on the parameter %s", name)
		}
	}
	own = template(t, stackOf(sample(t, nil), "Nodelease"))
	if got, want := kinds(doc), kinds(own); !maps.Equal(got, want) {
		t.Errorf("the plain template has %v, the construct %v", got, want)
	}
	keys, _ := json.Marshal(doc.one(t, "AWS::IAM::ManagedPolicy").Properties)
	if !strings.Contains(string(keys), `"dynamodb:LeadingKeys":[{"Ref":"PoolName"},{"Fn::Sub":"${PoolName}#*"}]`) {
		t.Errorf("the policy belongs to another pool: %s", keys)
	}
	seed := doc.one(t, "Custom::NodeleasePool").Properties
	for property, parameter := range map[string]string{"Pool": "PoolName", "Size": "PoolSize", "Layout": "Layout", "Floor": "Floor"} {
		if got, _ := json.Marshal(seed[property]); string(got) != `{"Ref":"`+parameter+`"}` {
			t.Errorf("the seed's %s is %s, want the parameter %s", property, got, parameter)
		}
	}
	for id, f := range doc.all("AWS::Lambda::Function") {
		code, _ := json.Marshal(f.Properties["Code"])
		if !strings.Contains(string(code), `"Fn::Sub":"${ZipPrefix}${Architecture}/`) || !strings.Contains(string(code), `{"Ref":"ZipBucket"}`) {
			t.Errorf("%s has the code %s", id, code)
		}
	}
}

// With a PoolSize of 1, the template makes no alarms that its only holder would keep on, as the construct does.
func TestPlainTemplateOfOneNodeID(t *testing.T) {
	text, err := plainTemplate(newApp(t, nil), zips)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Conditions map[string]any
		Resources  map[string]struct{ Condition string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var got []string
	for id, r := range doc.Resources {
		if r.Condition == "Several" {
			got = append(got, id[:len(id)-8])
		}
	}
	slices.Sort(got)
	if want := []string{"Nodespoolexhausted", "Nodespoolrunningout", "Nodespoolutilization"}; !slices.Equal(got, want) {
		t.Errorf("got %v with the condition, want %v", got, want)
	}
	if is, _ := json.Marshal(doc.Conditions["Several"]); string(is) != `{"Fn::Not":[{"Fn::Equals":[{"Ref":"PoolSize"},"1"]}]}` {
		t.Errorf("the condition is %s", is)
	}
}

// The parameter ExpectedHolders warms the table as PoolProps.Expect does.
func TestPlainTemplateWarms(t *testing.T) {
	if got, want := slices.Sorted(maps.Keys(warmWrites)), parameters["ExpectedHolders"].(object)["AllowedValues"]; !slices.Equal(got, want.([]string)) {
		t.Errorf("the table knows %v, the parameter allows %v", got, want)
	}
	for holders, writes := range warmWrites {
		if want := int(number(t, holders)+2) / 3; writes != want && (writes != 0 || want > 4000) {
			t.Errorf("%s holders warm to %d writes, want %d", holders, writes, want)
		}
	}
}

func kinds(d document) map[string]int {
	n := map[string]int{}
	for _, r := range d.Resources {
		n[r.Type]++
	}
	return n
}

func compact(t *testing.T, text []byte) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
