package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/demo"
	"github.com/nodelease/nodelease/pkg/lease"
)

// levels of a finding.
const (
	fine    = "ok"
	skipped = "skipped" // it could not be looked at
	warning = "warning" // nothing breaks by it alone
	problem = "problem"
)

// finding is what the doctor says of one thing.
type finding struct {
	Check string `json:"check"`
	Level string `json:"level"`
	Text  string `json:"text"`
	Mend  string `json:"mend,omitempty"` // the command that mends it
}

// diagnosis is the result of doctor.
type diagnosis struct {
	Table    string    `json:"table"`
	Pool     string    `json:"pool,omitempty"`
	OK       bool      `json:"ok"` // no problems
	Findings []finding `json:"findings"`
}

// doctorClient is what the doctor needs of DynamoDB beside the store's calls.
type doctorClient interface {
	lease.Client
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// doctor examines a table and a pool. It changes nothing.
type doctor struct {
	*globals
	client doctorClient
	store  *lease.DynamoDB
	now    func() time.Time
	found  []finding
	arn    string // of the table, once it is known
}

func newDoctor(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong with a table and a pool, and the command that mends it",
		Long: "Examine a table and a pool, and say of each thing in one line whether it is well, and the command that mends it if not:\n" +
			"the table, its keys, replication and Time to Live; the permissions of these credentials; this machine's clock; whether the\n" +
			"pool is seeded, half-seeded or nearly full; stuck, corrupt and forgotten numbers; which releases its tasks run; other pools\n" +
			"in the table that make equal IDs. Run it where the tasks run, with their role, to see what they see.\n\n" +
			"It changes nothing: permissions to write are tried with conditions that cannot hold. It reads the pool twice, and the table\n" +
			"once. Exit code 1 if there is a problem; warnings are none. Without --pool it examines the table alone.",
		Example: "  nodelease doctor --table leases --pool orders\n" +
			"  nodelease doctor --table leases --pool orders --json | jq -r '.findings[] | select(.level==\"problem\") | .mend'",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if g.table == "" || g.pool != "" {
				if err := g.check(); err != nil {
					return err
				}
			}
			client, err := lease.OpenClient(cmd.Context(), g.endpoint)
			if err != nil {
				return err
			}
			d := &doctor{globals: g, client: client, now: time.Now}
			result := d.examine(cmd.Context())
			if g.json {
				err = writeJSON(cmd.OutOrStdout(), result)
			} else {
				err = say(cmd.OutOrStdout(), result.text())
			}
			if err != nil {
				return err
			}
			if err := cmd.Context().Err(); err != nil {
				return err
			}
			return result.err()
		},
	}
}

// examine looks at one thing after the other, and stops where the rest would
// only repeat what is wrong.
func (d *doctor) examine(ctx context.Context) diagnosis {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	d.store = lease.NewDynamoDB(d.client, d.table)
	if d.checkTable(ctx) {
		d.checkTTL(ctx)
		if d.pool == "" {
			d.add("pool", skipped, "name one with --pool, and it is examined too", "")
		} else if d.checkPermissions(ctx) {
			d.checkPool(ctx)
		}
		d.checkOtherPools(ctx)
	}
	result := diagnosis{Table: d.table, Pool: d.pool, OK: true, Findings: d.found}
	for _, f := range d.found {
		result.OK = result.OK && f.Level != problem
	}
	return result
}

func (d *doctor) add(check, level, text, mend string) {
	d.found = append(d.found, finding{check, level, text, mend})
}

// aws is a command of the AWS CLI on the table.
func (d *doctor) aws(verb, rest string) string {
	s := "aws dynamodb " + verb + " --table-name " + d.table
	if d.endpoint != "" {
		s += " --endpoint-url " + d.endpoint
	}
	return s + " " + rest
}

// err is the exit code's reason.
func (r diagnosis) err() error {
	if n := r.count(problem); n > 0 {
		return fmt.Errorf("%s found in table %s", demo.Count(n, "problem"), r.Table)
	}
	return nil
}

func (r diagnosis) count(level string) (n int) {
	for _, f := range r.Findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

// text has a line for each finding. It is never cut: its end is to be copied.
func (r diagnosis) text() string {
	var b strings.Builder
	for _, f := range r.Findings {
		sign := map[string]string{fine: good.Render("✓"), skipped: faint.Render("-"), warning: warn.Render("!"), problem: bad.Render("✗")}[f.Level]
		fmt.Fprintf(&b, "%s %s %s", sign, bold.Render(fmt.Sprintf("%-11s", f.Check)), f.Text)
		if f.Mend != "" {
			b.WriteString(faint.Render("; mend: ") + f.Mend)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%d well, %s, %s, %d not looked at\n", r.count(fine), demo.Count(r.count(problem), "problem"), demo.Count(r.count(warning), "warning"), r.count(skipped))
	return b.String()
}
