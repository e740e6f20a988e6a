package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/pkg/lease"
)

// TestChanges changes a stack after its first day: it adds a second pool, makes a pool larger and smaller, adds a second stack,
// and tries a rename, which is refused. A fleet runs through all of these changes.
func TestChanges(t *testing.T) {
	port := emulator(t, "changes")
	s := openStack(t, "http://127.0.0.1:"+port, "Nodelease")
	f := newFleet(t, s)
	for range size {
		f.start(t)
	}
	f.wantDistinct(t)

	deploy(t, port, "pool=orders,mail", "size=8")
	for _, pool := range []string{"orders", "mail"} {
		s.wantSize(t, pool, 8)
	}

	// A larger pool has room for more tasks.
	f.start(t)
	f.wantDistinct(t)

	// A smaller pool keeps the holders of node IDs beyond its end, and leases none of those node IDs again.
	deploy(t, port, "pool=orders,mail", "size=4")
	s.wantSize(t, "orders", 4)
	f.wantDistinct(t)
	if _, err := lease.Start(t.Context(), lease.Config{Pool: poolName, Store: s.store}); !errors.Is(err, lease.ErrPoolExhausted) {
		t.Errorf("one more task in the smaller pool: got %v, want ErrPoolExhausted", err)
	}
	deploy(t, port, "pool=orders,mail", "size=8")
	f.start(t)
	f.wantDistinct(t)

	// A second stack is given the table's ARN, and so are its agents.
	arn := s.output(t, "Nodelease", "NodesTableArn")
	if out, err := tryDeploy(port, "NodeleaseImport", "pool=orders,mail", "size=8", "import="+arn); err != nil {
		t.Fatalf("the second stack: %v\n%s", err, out)
	}
	if role := s.output(t, "NodeleaseImport", "Role"); role == "" {
		t.Error("the second stack has no role")
	}
	agent, err := lease.Start(t.Context(), lease.Config{Pool: "mail", Store: lease.NewDynamoDB(dynamodb.NewFromConfig(s.config), arn)})
	if err != nil {
		t.Fatalf("an agent with the table's ARN: %v", err)
	}
	if err := agent.Close(); err != nil {
		t.Error(err)
	}

	// Only the second stack is deleted: the owner's table does not depend on it.
	destroy(t, port, "NodeleaseImport", "size=8", "import="+arn)
	s.wantSize(t, "orders", 8)

	// A pool with another name is another ID space. The function refuses to seed it while a fleet of the old pool runs, and that
	// fleet continues. This step comes last: LocalStack does not roll back, and afterwards the rest of the stack cannot even be
	// deleted.
	out, err := tryDeploy(port, "Nodelease", "pool=invoices,mail", "size=8")
	if err == nil || !strings.Contains(s.why(t)+out, "which this stack does not declare") {
		t.Errorf("a rename ended with %v, want the refusal of the bootstrap function:\n%s\n%s", err, out, s.why(t))
	}
	if _, err := s.store.PoolItem(t.Context(), "invoices"); err == nil {
		t.Error("the renamed pool was seeded")
	}
	s.wantSize(t, "orders", 8)
	f.wantDistinct(t)
	f.stop(t)
}

func destroy(t *testing.T, port, stack string, context ...string) {
	t.Helper()
	if out, err := cdk(port, "destroy", stack, append(context, "--force")...); err != nil {
		t.Fatalf("destroying %s: %v\n%s", stack, err, out)
	}
}

func (s *stack) wantSize(t *testing.T, pool string, want int) {
	t.Helper()
	item, err := s.store.PoolItem(t.Context(), pool)
	if err != nil || item.Size != want {
		t.Errorf("pool %s has the size %d (%v), want %d", pool, item.Size, err, want)
	}
}

// output returns an output of a stack.
func (s *stack) output(t *testing.T, stack, key string) string {
	t.Helper()
	out, err := cloudformation.NewFromConfig(s.config).DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: &stack})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range out.Stacks[0].Outputs {
		if aws.ToString(o.OutputKey) == key {
			return aws.ToString(o.OutputValue)
		}
	}
	t.Fatalf("the stack %s has no output %s", stack, key)
	return ""
}

// why returns the reasons in the events of the stack.
func (s *stack) why(t *testing.T) (reasons string) {
	t.Helper()
	out, err := cloudformation.NewFromConfig(s.config).DescribeStackEvents(context.WithoutCancel(t.Context()), &cloudformation.DescribeStackEventsInput{StackName: aws.String("Nodelease")})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range out.StackEvents {
		reasons += aws.ToString(e.ResourceStatusReason) + "\n"
	}
	return reasons
}
