package leasetest_test

import (
	"testing"

	"github.com/nodelease/nodelease/internal/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

func TestMemoryConforms(t *testing.T) {
	leasetest.Conformance(t, func(t *testing.T) lease.Store { return leasetest.NewMemory("", 0) })
}

func TestEmbeddedConforms(t *testing.T) {
	leasetest.Conformance(t, func(t *testing.T) lease.Store {
		client := dynamotest.Embedded(t)
		return lease.NewDynamoDB(client, dynamotest.CreateTable(t, client))
	})
}

func TestDynamoDBLocalConforms(t *testing.T) {
	leasetest.Conformance(t, func(t *testing.T) lease.Store {
		client := dynamotest.Local(t)
		return lease.NewDynamoDB(client, dynamotest.CreateTable(t, client))
	})
}
