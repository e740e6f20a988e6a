package conform

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func TestTables(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		ctx, nowhere := t.Context(), "nodelease-no-such-table"
		described, err := db.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &db.table})
		if err != nil {
			t.Fatal(err)
		}
		table := described.Table
		if *table.TableName != db.table || table.TableStatus != types.TableStatusActive || table.BillingModeSummary.BillingMode != types.BillingModePayPerRequest ||
			*table.KeySchema[0].AttributeName != "pool_group" || table.KeySchema[1].KeyType != types.KeyTypeRange || len(table.Replicas) != 0 {
			t.Errorf("described as %+v", table)
		}
		if !db.local && (table.TableId == nil || table.CreationDateTime == nil || table.ItemCount == nil || table.TableSizeBytes == nil || table.ProvisionedThroughput == nil || table.WarmThroughput == nil || table.DeletionProtectionEnabled == nil) {
			t.Errorf("described without the fields of every table: %+v", table)
		}
		_, err = db.client.CreateTable(ctx, &dynamodb.CreateTableInput{TableName: &db.table, BillingMode: types.BillingModePayPerRequest, AttributeDefinitions: table.AttributeDefinitions, KeySchema: table.KeySchema})
		db.wantError(t, err, "ResourceInUseException: Table already exists: "+db.table)

		other := db.table + "-other"
		_, err = db.client.CreateTable(ctx, &dynamodb.CreateTableInput{TableName: &other, BillingMode: types.BillingModePayPerRequest, AttributeDefinitions: table.AttributeDefinitions, KeySchema: table.KeySchema})
		if err != nil {
			t.Fatal(err)
		}
		deleted, err := db.client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &other})
		if err != nil {
			t.Fatal(err)
		}
		if d := deleted.TableDescription; !db.local && (d.TableStatus != types.TableStatusDeleting || d.TableId == nil || d.ItemCount == nil || d.KeySchema != nil || d.AttributeDefinitions != nil || d.CreationDateTime != nil) {
			t.Errorf("deleted: got %+v, want no keys, attributes and date: DynamoDB returns none of a table that it deletes", d)
		}

		ttl, err := db.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &db.table})
		if err != nil || ttl.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusDisabled {
			t.Errorf("time to live: %+v, %v", ttl, err)
		}

		const gone = "ResourceNotFoundException: Requested resource not found: Table: nodelease-no-such-table not found"
		const missing = "ResourceNotFoundException: Requested resource not found" // calls on items do not name the table
		k := attributes(t, key(1))
		_, err = db.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &nowhere})
		db.wantError(t, err, gone)
		_, err = db.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &nowhere})
		db.wantError(t, err, gone)
		_, err = db.client.Scan(ctx, &dynamodb.ScanInput{TableName: &nowhere})
		db.wantError(t, err, missing)
		_, err = db.client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &nowhere})
		db.wantError(t, err, gone)
		_, err = db.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &nowhere, Key: k})
		db.wantError(t, err, missing)
		_, err = db.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &nowhere, Key: k})
		db.wantError(t, err, missing)
		_, err = db.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &nowhere, Item: k})
		db.wantError(t, err, missing)
	})
}
