package protocol_test

import (
	"testing"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/protocol/protocoltest"
	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
	"github.com/nodelease/nodelease/pkg/lease/leasetest"
)

func TestMemoryConforms(t *testing.T) {
	protocoltest.Conformance(t, func(t *testing.T) protocol.Store { return leasetest.NewMemory("", 0) })
}

func TestEmbeddedConforms(t *testing.T) {
	protocoltest.Conformance(t, func(t *testing.T) protocol.Store {
		client := dynamotest.Embedded(t)
		return protocol.NewDynamoDB(client, dynamotest.CreateTable(t, client))
	})
}

func TestDynamoDBLocalConforms(t *testing.T) {
	protocoltest.Conformance(t, func(t *testing.T) protocol.Store {
		client := dynamotest.Local(t)
		return protocol.NewDynamoDB(client, dynamotest.CreateTable(t, client))
	})
}
