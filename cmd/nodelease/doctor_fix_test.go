package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// fixOf returns the fix of the doctor's first problem of a check.
func (w *ward) fixOf(pool, check string) finding {
	w.t.Helper()
	d := &doctor{globals: &globals{table: w.table, pool: pool}, client: w, now: time.Now}
	for _, f := range d.examine(w.t.Context()).Findings {
		if f.Check == check && f.Level == problem {
			return f
		}
	}
	w.t.Fatalf("pool %s: the doctor finds no problem of %s", pool, check)
	return finding{}
}

// put-role-policy replaces a policy of the same name. So the policy of one fix does not have the name of
// another: the role would lose what an earlier fix gave it.
func TestFixReplacesNoPolicy(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	name := regexp.MustCompile(`--policy-name (\S+) `)
	names := map[string]string{}
	for _, c := range []struct{ pool, denied string }{{"orders", "UpdateItem"}, {"mail", "UpdateItem"}, {"orders", "Query"}} {
		w.denied = c.denied
		fix := w.fixOf(c.pool, "permissions").Fix
		got := name.FindStringSubmatch(fix)
		if got == nil {
			t.Fatalf("the fix names no policy: %s", fix)
		}
		if !regexp.MustCompile(`^[\w+=,.@-]{1,128}$`).MatchString(got[1]) {
			t.Errorf("IAM takes no policy with the name %s", got[1])
		}
		if other, twice := names[got[1]]; twice {
			t.Errorf("%s is the name of the policies of %s and of %v", got[1], other, c)
		}
		names[got[1]] = c.pool + " " + c.denied
		if w.fixOf(c.pool, "permissions").Fix != fix {
			t.Errorf("a second run has another fix than %s", fix)
		}
	}
}

// DynamoDB deletes one replica at a time, and not that of the Region that is asked.
func TestFixOfReplicasIsPossible(t *testing.T) {
	client := dynamotest.Embedded(t)
	w := &ward{Client: client, t: t, table: dynamotest.CreateTable(t, client)}
	out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &w.table})
	if err != nil {
		t.Fatal(err)
	}
	own := strings.Split(aws.ToString(out.Table.TableArn), ":")[3]
	for _, region := range []string{own, "eu-west-1", "eu-west-2"} {
		w.replicas = append(w.replicas, types.ReplicaDescription{RegionName: aws.String(region)})
	}
	got := w.fixOf("orders", "replication")
	if !strings.Contains(got.Fix, `--replica-updates '[{"Delete":{"RegionName":"eu-west-1"}}]'`) || !strings.Contains(got.Text, "one at a time") {
		t.Errorf("got %+v, want the deletion of eu-west-1 alone", got)
	}
}
