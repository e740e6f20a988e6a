package main

import "github.com/nodelease/nodelease/internal/text"

// ways describe the ways to create a table for production.
var ways = map[string]func(*globals) text.Safe{
	"cdk": func(g *globals) text.Safe {
		// Invariant: a first deployment that fails does not block the next one. Its rollback would leave a
		// protected table behind, whose name is then taken.
		return text.Sprintf(`nodes := nodepool.New(stack, "Nodes", &nodepool.Props{
	TableName:     "%s",
	Pools:         []nodepool.PoolProps{{Name: "%s", Size: 1024}},
	FunctionsDir:  "dist/functions",
	AllowDeletion: true, // for the first deployment only: remove it and deploy again, so that the table is protected
})
nodes.Pool("%s").Attach(taskDefinition)
`, g.table, g.poolOr("orders"), g.poolOr("orders"))
	},
	"cloudformation": func(g *globals) text.Safe {
		return text.Sprintf(`Resources:
  Leases:
    Type: AWS::DynamoDB::Table
    DeletionPolicy: Retain
    UpdateReplacePolicy: Retain
    Properties:
      TableName: %s
      BillingMode: PAY_PER_REQUEST
      DeletionProtectionEnabled: true
      PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}
      SSESpecification: {SSEEnabled: true}
      AttributeDefinitions:
        - {AttributeName: pool_group, AttributeType: S}
        - {AttributeName: node_id, AttributeType: N}
      KeySchema:
        - {AttributeName: pool_group, KeyType: HASH}
        - {AttributeName: node_id, KeyType: RANGE}
`, g.table)
	},
	"aws": func(g *globals) text.Safe {
		d := &doctor{globals: g}
		return text.Sprintf("%s\n%s\n%s\n", command(d.createTable()+" --deletion-protection-enabled"), command(d.aws("wait table-exists", "")),
			command(d.aws("update-continuous-backups", "--point-in-time-recovery-specification PointInTimeRecoveryEnabled=true")))
	},
}

// poolOr returns the pool that the flags name or, without one, example.
func (g *globals) poolOr(example string) string {
	if g.pool != "" {
		return g.pool
	}
	return example
}
