package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
)

// initialized is the result of init.
type initialized struct {
	Table   string `json:"table"`
	Created bool   `json:"created"` // false: the table already existed
}

func newInit(g *globals) *cobra.Command {
	var t taking
	var print string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a table for development, or show how to create one for production",
		Long: "Create a table with the keys that Nodelease needs, for development: on an endpoint of this machine at once, in AWS after\n" +
			"confirmation. An existing table is not changed; only its keys are checked. A production table also needs deletion\n" +
			"protection, point-in-time recovery, roles and alarms: --print shows how to create one with CDK, CloudFormation or the AWS\n" +
			"CLI, and does nothing.",
		Example: "  nodelease init --table leases --endpoint http://127.0.0.1:8000\n" +
			"  nodelease init --table leases --print cdk\n  nodelease init --table leases --print cloudformation >leases.yaml",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.checkTable(); err != nil {
				return err
			}
			if protocol.TableName(g.table) != g.table {
				return usagef("--table %s: a table is created by name, in the account of the credentials: use %s", g.table, protocol.TableName(g.table))
			}
			if cmd.Flags().Changed("print") {
				way, ok := ways[print]
				if !ok {
					return usagef("--print %s: use cdk, cloudformation or aws", print)
				}
				return say(cmd.OutOrStdout(), way(g))
			}
			client, err := g.client(cmd.Context())
			if err != nil {
				return err
			}
			store := lease.NewDynamoDB(client, g.table)
			result := initialized{Table: g.table}
			switch err := store.Check(cmd.Context()); {
			case err == nil:
			case errors.Is(err, protocol.ErrUnchecked):
				return fmt.Errorf("%w: these credentials do not allow a check whether the table exists: %w", lease.ErrAccess, err)
			case !missing(cmd.Context(), client, g.table):
				return err
			default:
				if endpoint := aws.ToString(client.Options().BaseEndpoint); !onThisMachine(endpoint) {
					facts := text.Sprintf("Table %s would be created in AWS, %s, billed by request, without deletion protection and backups.\n", g.table, client.Options().Region)
					if err := t.confirm(cmd, facts, "Create it?"); err != nil {
						return err
					}
				}
				if err := createTable(cmd.Context(), client, g.table); err != nil {
					return err
				}
				result.Created = true
			}
			if g.json {
				return writeJSON(cmd.OutOrStdout(), result)
			}
			did := "exists already, with the right keys"
			if result.Created {
				did = "was created"
			}
			next := &globals{table: g.table, pool: g.poolOr("NAME"), endpoint: g.endpoint}
			return say(cmd.OutOrStdout(), text.Sprintf("table %s %s; next: %s\n", g.table, did, command(next.again("seed --size 1024"))))
		},
	}
	cmd.Flags().StringVar(&print, "print", "", "show how to create a production table, in this `form`: cdk, cloudformation or aws")
	cmd.Flags().BoolVarP(&t.yes, "yes", "y", false, "do not ask")
	complete(cmd, "print", "cdk", "cloudformation", "aws")
	return cmd
}

// missing reports whether the table does not exist.
func missing(ctx context.Context, client *dynamodb.Client, table string) bool {
	_, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	return hasCode(err, "ResourceNotFoundException")
}

// createTable creates the table and waits until it can be used.
func createTable(ctx context.Context, client *dynamodb.Client, table string) error {
	if err := protocol.CreateTable(ctx, client, table); err != nil {
		return err
	}
	const limit = 2 * time.Minute
	return dynamodb.NewTableExistsWaiter(client).Wait(ctx, &dynamodb.DescribeTableInput{TableName: &table}, limit)
}

// onThisMachine reports whether an endpoint is on the loopback interface.
func onThisMachine(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil || endpoint == "" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
