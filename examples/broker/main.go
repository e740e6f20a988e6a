// Command broker uses its number and its version for more than IDs. Each broker owns the segment of its node ID and appends to it; every
// append carries the lease's version, the fencing token, and the segment refuses one that is below the highest it has seen. So a broker
// that was paused between its check and its write harms nothing when it wakes up, however long that took: no lease of any system can
// promise this without the resource's help.
//
//	NODELEASE_TABLE=… NODELEASE_POOL=one go run ./examples/broker
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/nodelease/nodelease/pkg/lease"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	segments := newSegments()

	first, err := lease.Start(ctx, lease.Config{})
	if err != nil {
		return err
	}
	held, err := first.Lease() // the check: this broker may write now
	if err != nil {
		return err
	}
	report(held, "first", segments.append(held.NodeID, held.Version, "first"))

	// The broker is paused here, with a write in hand, until its number is another's. Closing stands for that: what counts is that the
	// token in the broker's hand is an old one when the write arrives.
	if err := first.Close(); err != nil {
		return err
	}
	second, err := lease.Start(ctx, lease.Config{})
	if err != nil {
		return err
	}
	defer second.Close()
	now, err := second.Lease()
	if err != nil {
		return err
	}
	report(now, "second", segments.append(now.NodeID, now.Version, "second"))

	report(held, "too late", segments.append(held.NodeID, held.Version, "too late"))
	return nil
}

func report(l lease.Lease, entry string, err error) {
	if err != nil {
		fmt.Printf("broker %d, version %d: %q was refused: %v\n", l.NodeID, l.Version, entry, err)
		return
	}
	fmt.Printf("broker %d, version %d: %q was appended\n", l.NodeID, l.Version, entry)
}
