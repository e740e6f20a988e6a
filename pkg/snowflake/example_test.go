package snowflake_test

import (
	"context"
	"fmt"
	"time"

	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
	"github.com/nodelease/nodelease/pkg/snowflake"
	"github.com/nodelease/nodelease/pkg/snowflake/snowflaketest"
)

// This generator has no lease. With a lease, use snowflake.New(agent).
func ExampleNew() {
	node, err := leasefixed.New(7, snowflake.Default())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	ids, err := snowflake.New(node)
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := ids.Next()
	fmt.Println(id.Node(), time.Since(id.Time()) < time.Minute, err)
	// Output: 7 true <nil>
}

func ExampleGenerator_NextN() {
	clock := snowflaketest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	ids, _ := snowflake.New(clock.Node(7))
	batch := make([]snowflake.ID, 5000) // more IDs than fit one millisecond
	n, err := ids.NextN(context.Background(), batch)
	fmt.Println(n, err, batch[n-1].Time().Sub(batch[0].Time()))
	// Output: 5000 <nil> 1ms
}

func ExampleID() {
	id, _ := snowflake.Parse("132680284897308673")
	fmt.Println(id.Time().Format(time.RFC3339), id.Node(), id.Sequence())
	fmt.Println(id.Base32(), id.Base58())
	// Output:
	// 2026-01-02T03:04:05Z 7 1
	// 03NV00GH00W01 1Js496h5uc4
}

func ExampleJS53() {
	fmt.Println(snowflake.JS53())
	_, err := leasefixed.New(64, snowflake.JS53())
	fmt.Println(err)
	// Output:
	// 41 time, 6 node, 6 sequence bits of 1ms from 2025-01-01 until 2094-09-07; 64 nodes, 64000 IDs/s each
	// leasefixed: node ID 64 does not fit the layout, which has 6 node bits: use 0 to 63
}

func ExampleLayout_Decompose() {
	p := snowflake.Discord().Decompose(175928847299117063)
	fmt.Println(p.Time, p.Node, p.Sequence)
	// Output: 2016-04-30 11:18:25.796 +0000 UTC 32 7
}
