package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// deletionStory is a server that answers a program that deletes a stack, as AWS does. It is needed because, in LocalStack, a deletion never
// ends as DELETE_FAILED, and RetainResources has no effect.
type deletionStory struct {
	states    []string // states of the stack: one before the first DeleteStack, and one after each DeleteStack
	resources string   // members of DescribeStackResources
	untagged  bool
	there     []string // physical IDs that exist
	denied    bool     // listing is denied for a resource

	deletes [][]string // RetainResources of each DeleteStack
}

func (s *deletionStory) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if target := r.Header.Get("X-Amz-Target"); target != "" { // DynamoDB, SQS: JSON
		body, _ := io.ReadAll(r.Body)
		kind := map[bool]string{true: "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException", false: "com.amazonaws.sqs#QueueDoesNotExist"}[strings.HasPrefix(target, "DynamoDB")]
		if s.denied {
			kind = "AccessDeniedException"
		}
		if slices.ContainsFunc(s.there, func(id string) bool { return strings.Contains(string(body), id) }) {
			fmt.Fprint(w, `{}`)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"__type": %q, "message": "it is not there"}`, kind)
		return
	}
	_ = r.ParseForm()
	action, result := r.Form.Get("Action"), ""
	switch action {
	case "DescribeStacks":
		state := s.states[min(len(s.deletes), len(s.states)-1)]
		if state == "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `<ErrorResponse><Error><Code>ValidationError</Code><Message>Stack with id s does not exist</Message></Error></ErrorResponse>`)
			return
		}
		tags := "<member><Key>" + tag + "</Key><Value>r</Value></member>"
		if s.untagged {
			tags = ""
		}
		result = "<Stacks><member><StackName>s</StackName><StackId>s</StackId><StackStatus>" + state + "</StackStatus><Tags>" + tags + "</Tags></member></Stacks>"
	case "DescribeStackResources":
		result = "<StackResources>" + s.resources + "</StackResources>"
	case "DeleteStack":
		var retain []string
		for i := 1; r.Form.Get(fmt.Sprintf("RetainResources.member.%d", i)) != ""; i++ {
			retain = append(retain, r.Form.Get(fmt.Sprintf("RetainResources.member.%d", i)))
		}
		s.deletes = append(s.deletes, retain)
	}
	fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, result)
}

func failedResource(id, kind, physical string) string {
	return "<member><LogicalResourceId>" + id + "</LogicalResourceId><ResourceType>" + kind + "</ResourceType><PhysicalResourceId>" + physical +
		"</PhysicalResourceId><ResourceStatus>DELETE_FAILED</ResourceStatus><ResourceStatusReason>because</ResourceStatusReason></member>"
}

func TestDeleteStack(t *testing.T) {
	const failed, done = "DELETE_FAILED", "DELETE_COMPLETE"
	pool, table := failedResource("Pool", "Custom::NodeleasePool", "nodelease/t/verify"), failedResource("Table", "AWS::DynamoDB::GlobalTable", "table-1")
	queue, role := failedResource("Queue", "AWS::SQS::Queue", "queue-1"), failedResource("Role", "AWS::IAM::Role", "role-1")
	for name, c := range map[string]struct {
		story   deletionStory
		deletes [][]string
		says    []string // texts of the error; if there are none, the deletion must succeed
	}{
		"at once":                               {deletionStory{states: []string{"CREATE_COMPLETE", done}}, [][]string{nil}, nil},
		"the stack is unknown afterwards":       {deletionStory{states: []string{"CREATE_COMPLETE", ""}}, [][]string{nil}, nil},
		"deleted while we waited":               {deletionStory{states: []string{done}}, nil, nil},
		"unknown while we waited":               {deletionStory{states: []string{""}}, nil, nil},
		"DELETE_FAILED before":                  {deletionStory{states: []string{failed, done}}, [][]string{nil}, nil},
		"the second time":                       {deletionStory{states: []string{"CREATE_COMPLETE", failed, done}, resources: table}, [][]string{nil, nil}, nil},
		"resources that are gone are forgotten": {deletionStory{states: []string{failed, failed, failed, done}, resources: pool + table + queue}, [][]string{nil, nil, {"Pool", "Table", "Queue"}}, nil},
		"existing resources are kept":           {deletionStory{states: []string{failed}, resources: table + queue, there: []string{"table-1"}}, [][]string{nil, nil, {"Queue"}}, []string{"Table", "table-1", "because"}},
		"unknown kinds are kept":                {deletionStory{states: []string{failed}, resources: role}, [][]string{nil, nil, nil}, []string{"Role", "AWS::IAM::Role role-1"}},
		"listing is denied":                     {deletionStory{states: []string{failed}, resources: table + queue, denied: true}, [][]string{nil, nil, nil}, []string{"table-1", "queue-1"}},
		"another state retains none":            {deletionStory{states: []string{"CREATE_COMPLETE"}, resources: pool}, [][]string{nil, nil, nil}, []string{"CREATE_COMPLETE"}},
		"without the tag":                       {deletionStory{states: []string{failed}, untagged: true}, nil, []string{"does not carry the tag", "stays"}},
		"deleted, and another's name":           {deletionStory{states: []string{done}, untagged: true}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(&c.story)
			defer server.Close()
			cfg := aws.Config{
				Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
			}
			a := &account{emulator: true, cfn: cloudformation.NewFromConfig(cfg), dynamo: dynamodb.NewFromConfig(cfg), sqs: sqs.NewFromConfig(cfg)}
			err := a.deleteStack(context.Background(), "s", "r", io.Discard)
			if (err != nil) != (c.says != nil) {
				t.Errorf("%v", err)
			}
			for _, want := range c.says {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("the error has no %q: %v", want, err)
				}
			}
			if !slices.EqualFunc(c.story.deletes, c.deletes, slices.Equal[[]string]) {
				t.Errorf("DeleteStack retained %q, want %q", c.story.deletes, c.deletes)
			}
		})
	}
}
