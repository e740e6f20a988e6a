// Command invoke sends an event to a built function under AWS's runtime interface emulator and
// prints the result. scripts/invoke.sh builds the function and downloads the emulator.
//
// The function uses the DynamoDB at AWS_ENDPOINT_URL_DYNAMODB and the table NODELEASE_TABLE. If no
// endpoint is set, it gets an embedded DynamoDB with a pool of 1,024 node IDs. One process holds
// one of them, and another process has crashed while it held one. CloudFormation and CloudWatch are
// replaced by stubs, which print the requests that they receive.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/functions/internal/rie"
	"github.com/nodelease/nodelease/internal/embeddeddb"
	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: invoke NAME BINARY EVENT.json (or scripts/invoke.sh NAME EVENT.json)")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "invoke:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name, binary, eventFile string) (err error) {
	event, err := os.ReadFile(eventFile)
	if err != nil {
		return err
	}
	emulator, err := rie.Emulator()
	if err != nil {
		return err
	}
	table := os.Getenv("NODELEASE_TABLE")
	if table == "" {
		table = "nodelease"
	}
	endpoint := os.Getenv("AWS_ENDPOINT_URL_DYNAMODB")
	if endpoint == "" {
		db, err := embeddeddb.New(embeddeddb.Options{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		if endpoint, err = db.Listen("127.0.0.1:0"); err != nil {
			return err
		}
		if err := furnish(ctx, endpoint, table, name); err != nil {
			return err
		}
	}
	cloud, err := rie.NewCloud()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cloud.Close()) }()

	pools := os.Getenv("NODELEASE_POOLS")
	if pools == "" {
		pools = `[{"pool":"orders","size":1024,"excludeBelow":0}]`
	}
	f, err := rie.Start(ctx, emulator, binary, rie.Environment(endpoint, cloud.URL, table, pools), os.Stderr)
	if err != nil {
		return err
	}
	defer f.Close()
	out, err := f.Invoke(ctx, rie.Redirect(event, cloud.URL))
	if err != nil {
		return err
	}
	for _, answer := range cloud.Answers() {
		fmt.Printf("sent to CloudFormation: %s\n", answer)
	}
	for _, metric := range cloud.Metrics() {
		fmt.Printf("sent to CloudWatch: %s\n", metric)
	}
	fmt.Printf("%s\n", out)
	return nil
}

// furnish makes a table for the function, with a pool unless the function is bootstrap.
func furnish(ctx context.Context, endpoint, table, name string) error {
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
	if err := protocol.CreateTable(ctx, client, table); err != nil || name == "bootstrap" {
		return err
	}
	store, err := lease.Open(ctx, table, endpoint)
	if err != nil {
		return err
	}
	for node, begun := range []time.Time{time.Now().Add(-5 * time.Minute), time.Now()} {
		key := protocol.Key{Pool: "orders", NodeID: node}
		for _, w := range []protocol.Write{
			protocol.Seed{Key: key, Floor: begun.Add(-time.Minute)},
			protocol.Claim{Key: key, Session: fmt.Sprintf("session-%d", node), Task: "invoke", At: begun, TTL: lease.DefaultTTL,
				ExpiresAt: begun.Add(lease.DefaultTTL), ReservedUntil: begun.Add(lease.DefaultTTL + time.Second)},
		} {
			if _, err := store.Write(ctx, w); err != nil {
				return err
			}
		}
	}
	_, err = leasepool.Open(store, "orders").Seed(ctx, leasepool.Spec{Size: 1024})
	return err
}
