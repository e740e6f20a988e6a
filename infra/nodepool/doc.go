// Package nodepool is one CDK construct that provides every task of an ECS service with a
// node ID: a DynamoDB table of numbered leases, the three functions that look after it, and
// the grants and environment that a task definition needs.
//
//	nodes := nodepool.New(stack, "Nodes", &nodepool.Props{
//		Pools: []nodepool.PoolProps{{Name: "orders", Size: 1024}},
//	})
//	nodes.Pool("orders").Attach(task, container)
//
// The construct promises that the stack it synthesizes is safe to lease from. There is one table, whose conditional writes are decided in one
// place (a single Region, or several with strong consistency). Nothing expires or deletes items behind the holders' backs. The roles can do
// what they are for and nothing else. Wrong properties and wrong calls never build something that merely looks right: all of them are
// reported together when the app is synthesized, each with its value and the remedy.
//
// The construct does not promise that there are enough node IDs, although it warns where it can count them. It deletes no data: the table
// outlives the stack unless Props say otherwise, and removing a pool from Props leaves the pool's items in the table.
package nodepool
