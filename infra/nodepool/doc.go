// Package nodepool has one CDK construct, which provides every task of an ECS service with a
// node ID. The construct consists of a DynamoDB table of leases and the three functions that
// maintain the table. It also adds the grants and environment variables that a task needs.
//
//	nodes := nodepool.New(stack, "Nodes", &nodepool.Props{
//		Pools: []nodepool.PoolProps{{Name: "orders", Size: 1024}},
//	})
//	nodes.Pool("orders").Attach(task, container)
//
// The construct promises that the stack it synthesizes is safe to lease from:
//
//   - There is one table, in a single Region or in several with strong consistency. So a conditional write has one result everywhere.
//   - Nothing in the stack expires or deletes items of the table.
//   - Each role has only the permissions that it needs.
//   - Wrong properties and wrong calls are errors. All of them are reported together when the app is synthesized, each with its value and the
//     remedy.
//
// The construct does not promise that there are enough node IDs, but it warns if it can compute that there are too few.
//
// The construct deletes no data. The table outlives the stack unless Props say otherwise. If a pool is removed from Props, the pool's items stay
// in the table.
package nodepool
