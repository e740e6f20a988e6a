package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/lease"
)

// The levels of a finding.
const (
	fine    = "ok"
	skipped = "skipped" // could not be checked
	warning = "warning" // not necessarily a fault
	problem = "problem"
)

// finding is the doctor's result for one check.
type finding struct {
	Check string `json:"check"`
	Level string `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"` // the command that fixes it
}

// diagnosis is the result of doctor.
type diagnosis struct {
	Table    string    `json:"table"`
	Pool     string    `json:"pool,omitempty"`
	OK       bool      `json:"ok"` // no problems
	Findings []finding `json:"findings"`
}

// doctorClient has the DynamoDB calls that the doctor needs in addition to the store's.
type doctorClient interface {
	lease.Client
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// doctor examines a table and a pool. Without repair it changes nothing.
type doctor struct {
	*globals
	client doctorClient
	store  lease.Store
	now    func() time.Time
	found  []finding
	arn    string // the table's ARN, once it is known
	repair bool   // adds missing items that nothing depends on
}

func newDoctor(g *globals) *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong with a table and a pool, and the command that fixes it",
		Long: "Check a table and a pool. Each check prints one line, and for a problem the command that fixes it. The checks cover\n" +
			"the table, its keys, replication and Time to Live; the permissions of these credentials; this machine's clock; whether the\n" +
			"pool is seeded, half-seeded or nearly full; stuck, corrupt and forgotten node IDs; which releases its tasks run; other pools\n" +
			"in the table that can make equal IDs; the table's index of pools. Run it where the tasks run, with their role, to see\n" +
			"the table as they do.\n\n" +
			"It changes nothing except the index, with --repair: write permissions are tested with conditions that never hold. It\n" +
			"reads the pool twice and the table once. The exit code is 1 if there is a problem; warnings do not count. Without --pool it\n" +
			"checks only the table.",
		Example: "  nodelease doctor --table leases --pool orders\n" +
			"  nodelease doctor --table leases --pool orders --json | jq -r '.findings[] | select(.level==\"problem\") | .fix'",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			check := g.check
			if g.pool == "" {
				check = g.checkTable
			}
			if err := check(); err != nil {
				return err
			}
			client, err := g.client(cmd.Context())
			if err != nil {
				return err
			}
			d := &doctor{globals: g, client: client, now: time.Now, repair: repair}
			result := d.examine(cmd.Context())
			if g.json {
				err = writeJSON(cmd.OutOrStdout(), result)
			} else {
				err = say(cmd.OutOrStdout(), result.text(cmd.OutOrStdout()))
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
	cmd.Flags().BoolVar(&repair, "repair", false, "add the pool to the table's index of pools if it is missing")
	return cmd
}

// examine runs one check after another, and stops where the remaining checks would only
// repeat the problem.
func (d *doctor) examine(ctx context.Context) diagnosis {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	d.store = lease.NewDynamoDB(d.client, d.table)
	if d.checkTable(ctx) {
		d.checkTTL(ctx)
		if d.pool == "" {
			d.add("pool", skipped, "not checked; choose one with --pool", "")
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

// add records a finding. It sanitizes and cuts the text, which may come from the table, and
// the fix, which is a command for people to copy. People read both even in the JSON.
func (d *doctor) add(check, level, says, fix string) {
	d.found = append(d.found, finding{check, level, text.Cut(says, text.MaxError), text.Cut(fix, maxCommand)})
}

// aws returns an AWS CLI command that acts on the table.
func (d *doctor) aws(verb, rest string) string {
	s := "aws dynamodb " + verb + " --table-name " + shellWord(d.table)
	if d.endpoint != "" {
		s += " --endpoint-url " + shellWord(redacted(d.endpoint))
	}
	if rest == "" { // Invariant: no blank at the end, which would be shown as an escape
		return s
	}
	return s + " " + rest
}

// err returns the reason for the exit code.
func (r diagnosis) err() error {
	if n := r.count(problem); n > 0 {
		return fmt.Errorf("%s found in table %s", count(n, "problem", "problems"), r.Table)
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

// text returns one line for each finding and, below it, the command that fixes it. The
// command is never cut or broken, so that it can be copied.
func (r diagnosis) text(out io.Writer) text.Safe {
	var b text.Builder
	for _, f := range r.Findings {
		sign := map[string]text.Safe{fine: good.of("✓"), skipped: faint.of("-"), warning: warn.of("!"), problem: bad.of("✗")}[f.Level]
		b.Printf("%s\n", folded(out, text.Sprintf("%s %s %s", sign, bold.of("%-11s", f.Check), command(f.Text)), 14))
		if f.Fix != "" {
			b.Printf("  %s %s\n", faint.of("%-11s", "→ fix:"), command(f.Fix))
		}
	}
	b.Printf("%s\n", folded(out, text.Sprintf("%d ok, %s, %s, %d skipped", r.count(fine), count(r.count(problem), "problem", "problems"), count(r.count(warning), "warning", "warnings"), r.count(skipped)), 2))
	return b.Safe()
}
