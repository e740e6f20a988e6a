// Command migrate replaces hard-coded worker IDs with leased node IDs. No ID is generated twice, and no new ID is smaller than an old one.
//
// Its argument is the largest ID that the old generators have made. It seeds a pool whose floor is this ID's time, and generates IDs in the
// old layout. So stored IDs stay sortable, and can be decoded as before.
//
// The old generators must have stopped. If they must continue for a while, exclude their node IDs from the pool: see docs/migration.md.
//
//	go run ./examples/migrate -from sonyflake -last 582914386421679104
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// layouts are the layouts of well-known generators, with their default epochs. For a different epoch, set Layout.Epoch.
var layouts = map[string]snowflake.Layout{
	"bwmarrin":  snowflake.Twitter(), // github.com/bwmarrin/snowflake has Twitter's epoch and widths
	"twitter":   snowflake.Twitter(),
	"discord":   snowflake.Discord(),
	"sonyflake": snowflake.Sonyflake(),
}

func main() {
	log.SetFlags(0)
	from := flag.String("from", "bwmarrin", "the old generator: bwmarrin, twitter, discord or sonyflake")
	last := flag.String("last", "", "the largest ID that the old generators made, in decimal")
	size := flag.Int("size", 16, "size of the pool in node IDs")
	flag.Parse()
	layout, ok := layouts[*from]
	if !ok {
		log.Fatalf("-from %q: use bwmarrin, twitter, discord or sonyflake", *from)
	}
	old, err := snowflake.Parse(*last)
	if err != nil {
		log.Fatalf("-last %q: %v: use the largest stored ID, the result of SELECT max(id)", *last, err)
	}
	if err := run(context.Background(), layout, old, *size); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, layout snowflake.Layout, old snowflake.ID, size int) error {
	// A leased node ID stamps no ID at or before the floor. The tick of the old ID may be 10 ms long, so the floor is the end of that tick.
	parts := layout.Decompose(old)
	floor := parts.Time.Add(layout.Tick)
	fmt.Printf("the last ID is of node %d at %s; new IDs begin after %s\n",
		parts.Node, parts.Time.Format(time.RFC3339Nano), floor.Format(time.RFC3339Nano))

	agent, err := lease.Start(ctx, lease.Config{
		SeedIfMissing: &leasepool.Spec{Size: size, Floor: floor, Layout: layout}, // or: nodelease seed --size 16 --layout twitter --floor …
		Wait:          time.Minute,                                               // an old clock may have been ahead
	})
	if err != nil {
		return err
	}
	defer agent.Close()
	ids, err := snowflake.New(agent) // it takes the layout of the pool
	if err != nil {
		return err
	}
	id, err := ids.Next()
	if err != nil {
		return err
	}
	if id <= old {
		return fmt.Errorf("%d is not greater than %d", id, old)
	}
	fmt.Printf("node %d continues with %d, which is greater\n", agent.NodeID(), id)
	return nil
}
