package handler

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/cfn"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// created returns the Create event of a pool without a Floor.
func created(t *testing.T, url, table string) (e map[string]any) {
	t.Helper()
	if err := json.Unmarshal(event(t, "bootstrap-create", url), &e); err != nil {
		t.Fatal(err)
	}
	properties := e["ResourceProperties"].(map[string]any)
	properties["Table"] = table
	delete(properties, "Floor")
	return e
}

// A pool that is renamed in the stack arrives as a Create while another pool is no longer
// declared.
func TestBootstrapRefusesARename(t *testing.T) {
	logs(t)
	cf, client := newCloudformation(t), dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	store := lease.NewDynamoDB(client, table)
	send := func(id, floor string, declared ...string) cfn.Response {
		t.Helper()
		e := created(t, cf.URL, table)
		e["RequestId"] = id
		properties := e["ResourceProperties"].(map[string]any)
		if properties["Pool"] = "invoices"; floor != "" {
			properties["Floor"] = floor
		}
		body, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b := &Bootstrap{Table: table, Store: store}
		for _, name := range declared {
			b.Pools = append(b.Pools, Spec{Pool: name, Size: 4})
		}
		_, _ = b.Handle(t.Context(), body) // the answer has the error
		return cf.answer(t)
	}
	if _, err := leasepool.Open(store, "orders").Seed(t.Context(), leasepool.Spec{Size: 4}); err != nil {
		t.Fatal(err)
	}
	if a := send("renamed", "", "invoices"); a.Status != cfn.StatusFailed || !strings.Contains(a.Reason, `has the pools ["orders"], which this stack does not declare`) {
		t.Errorf("a rename: %+v, want FAILED with the old pool", a)
	}
	if _, err := store.PoolItem(t.Context(), "invoices"); err == nil {
		t.Error("the renamed pool was seeded")
	}
	// The pool may have had this Floor already under its old name.
	if a := send("with the floor of the old pool", "2026-01-02T15:04:05Z", "invoices"); a.Status != cfn.StatusFailed || !strings.Contains(a.Reason, "more than 30 days ago") {
		t.Errorf("a rename with an old Floor: %+v, want FAILED", a)
	}
	if _, err := store.PoolItem(t.Context(), "invoices"); err == nil {
		t.Error("the pool was seeded at its old Floor")
	}
	if a := send("with a floor", time.Now().Add(-time.Minute).UTC().Format(time.RFC3339Nano), "invoices"); a.Status != cfn.StatusSuccess {
		t.Errorf("a rename with a Floor: %+v", a)
	}
	if a := send("again", "", "invoices"); a.Status != cfn.StatusSuccess {
		t.Errorf("a pool that exists: %+v", a)
	}
}

// unindexed is a client of a role that may not write the table's index of pools.
type unindexed struct{ *dynamodb.Client }

func (c unindexed) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if in.Key["pool_group"].(*types.AttributeValueMemberS).Value == protocol.PoolIndex {
		return nil, &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized"}
	}
	return c.Client.UpdateItem(ctx, in, o...)
}

// A rename is noticed even if a task seeded the pool before the stack did, and could not add it
// to the table's index.
func TestBootstrapRefusesARenameOfAPoolThatATaskSeeded(t *testing.T) {
	logs(t)
	cf, client := newCloudformation(t), dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	if _, err := leasepool.Open(lease.NewDynamoDB(unindexed{client}, table), "orders").Seed(t.Context(), leasepool.Spec{Size: 1024}); err != nil {
		t.Fatal(err)
	}
	for i, pool := range []string{"orders", "invoices"} {
		e := created(t, cf.URL, table)
		e["RequestId"], e["ResourceProperties"].(map[string]any)["Pool"] = pool, pool
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b := &Bootstrap{Table: table, Store: lease.NewDynamoDB(client, table), Pools: []Spec{{Pool: pool, Size: 1024}}}
		_, _ = b.Handle(t.Context(), text) // the answer has the error
		if a := cf.answer(t); (a.Status == cfn.StatusFailed) != (i == 1) {
			t.Errorf("the stack has %s: %+v, want only the rename refused", pool, a)
		}
	}
}

// A pool next to others that are declared, or in an empty table, is not a rename.
func TestBootstrapAddsAPool(t *testing.T) {
	logs(t)
	cf, client := newCloudformation(t), dynamotest.Embedded(t)
	table := dynamotest.CreateTable(t, client)
	store := lease.NewDynamoDB(client, table)
	if _, err := leasepool.Open(store, "mail").Seed(t.Context(), leasepool.Spec{Size: 4}); err != nil {
		t.Fatal(err)
	}
	b := &Bootstrap{Table: table, Store: store, Pools: []Spec{{Pool: "orders", Size: 1024}, {Pool: "mail", Size: 4}}}
	e := created(t, cf.URL, table)
	e["ResourceProperties"].(map[string]any)["Layout"] = "wide16"
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Handle(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	if a := cf.answer(t); a.Status != cfn.StatusSuccess {
		t.Fatalf("%+v", a)
	}
	item, err := store.PoolItem(t.Context(), "orders")
	if err != nil || item.Layout == nil || item.Layout.NodeBits != 16 {
		t.Errorf("%+v, %v, want the layout wide16", item.Layout, err)
	}
}

// A resize binds the layout of a pool that has none. After that, a different layout is
// refused.
func TestBootstrapLayout(t *testing.T) {
	logs(t)
	client := dynamotest.Embedded(t)
	store := lease.NewDynamoDB(client, dynamotest.CreateTable(t, client))
	b := &Bootstrap{Table: "nodelease", Store: store}
	for _, step := range []struct{ request, refused string }{
		{`{"Pool":"orders","Size":1000}`, ""},
		{`{"Pool":"orders","Size":2000,"Layout":"wide16"}`, ""},
		{`{"Pool":"orders","Size":2000,"Layout":""}`, ""},
		{`{"Pool":"orders","Size":2000,"Layout":"40/13/10"}`, "IDs have the layout wide16, not 40/13/10"},
		{`{"Pool":"orders","Size":2000,"Layout":"wide"}`, "layout wide: use default"},
	} {
		_, err := b.Handle(t.Context(), json.RawMessage(step.request))
		if step.refused == "" && err != nil || step.refused != "" && (err == nil || !strings.Contains(err.Error(), step.refused)) {
			t.Errorf("%s: %v, want %q", step.request, err, step.refused)
		}
	}
	item, err := store.PoolItem(t.Context(), "orders")
	if err != nil || item.Layout == nil || item.Layout.NodeBits != 16 || item.Size != 2000 {
		t.Errorf("%+v, %v", item, err)
	}
}
