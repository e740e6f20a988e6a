package pgcoordinator_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/cluster/pgcoordinator"
)

// A member without a lease takes part on PostgreSQL.
func Example() {
	ctx := context.Background()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(ctx, pgcoordinator.Schema); err != nil {
		log.Fatal(err)
	}
	node, err := cluster.Start(ctx, cluster.Config{Cluster: "orders", Name: "order-service-1", Coordinator: pgcoordinator.New(db)})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	for m := range node.State().Members() {
		fmt.Println(m.Name)
	}
}
