package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// checkTable checks the table itself, and reports whether it can be read at all.
func (d *doctor) checkTable(ctx context.Context) bool {
	err := d.store.Check(ctx)
	out, described := d.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &d.table})
	switch {
	case hasCode(described, "ResourceNotFoundException"):
		d.add("table", problem, fmt.Sprintf("%s does not exist in this account and Region", d.table), d.createTable())
		return false
	case hasCode(described, "AccessDeniedException"):
		d.add("table", skipped, "these credentials do not allow DescribeTable: keys and replication were not checked", "")
		return true
	case described != nil && errors.As(context.Cause(ctx), new(*silenceError)):
		d.add("table", problem, plain(context.Cause(ctx)), "")
		return false
	case described != nil && err != nil:
		fix := ""
		if errors.Is(err, lease.ErrAccess) {
			fix = "aws sts get-caller-identity"
		}
		d.add("table", problem, plain(err), fix)
		return false
	case described != nil:
		d.add("table", problem, plain(described), "")
		return false
	case out.Table == nil:
		d.add("table", problem, "the answer to DescribeTable is not DynamoDB's: check the endpoint", "")
		return false
	}
	if out.Table == nil {
		d.add("table", problem, "the answer to DescribeTable is not DynamoDB's: it describes no table; check the endpoint", "")
		return false
	}
	d.arn = aws.ToString(out.Table.TableArn)
	if status := out.Table.TableStatus; status != types.TableStatusActive && status != types.TableStatusUpdating {
		d.add("table", problem, fmt.Sprintf("%s is %s", d.table, status), d.aws("wait table-exists", ""))
		return false
	}
	d.add("table", fine, d.table+" exists", "")
	switch {
	case errors.Is(err, lease.ErrTable):
		d.add("keys", problem, plain(err), strings.Replace(d.createTable(), "--table-name "+d.table, "--table-name "+d.anotherName(), 1))
		return false
	case errors.Is(err, lease.ErrUnsafeReplication):
		d.add("keys", fine, "pool_group (S), node_id (N)", "")
		says, fix, others := plain(err), "", d.otherRegions(out.Table.Replicas)
		if len(others) > 0 {
			// Invariant: DynamoDB carries the fix out. It refuses to delete the replica of the Region that is
			// asked, and more than one replica at a time.
			fix = d.aws("update-table", fmt.Sprintf(`--replica-updates '[{"Delete":{"RegionName":%q}}]'`, others[0]))
		}
		if len(others) > 1 {
			says += "; replicas are deleted one at a time: when the first is gone, run doctor again for the next"
		}
		d.add("replication", problem, says, fix)
	case err != nil:
		d.add("table", problem, plain(err), "")
	default:
		d.add("keys", fine, "pool_group (S), node_id (N)", "")
		d.add("replication", fine, replication(out.Table), "")
	}
	return true
}

// otherRegions returns the Regions of the replicas without that of the table itself, which some
// answers list too.
func (d *doctor) otherRegions(replicas []types.ReplicaDescription) (regions []string) {
	own := ""
	if parts := strings.Split(d.arn, ":"); len(parts) == 6 {
		own = parts[3]
	}
	for _, r := range replicas {
		if name := aws.ToString(r.RegionName); name != own {
			regions = append(regions, name)
		}
	}
	return regions
}

// anotherName returns a name for a table beside this one.
func (d *doctor) anotherName() string {
	if protocol.TableName(d.table) == "nodelease" {
		return "nodelease-leases" // Invariant: the fix does not name a table that exists
	}
	return "nodelease"
}

func replication(t *types.TableDescription) string {
	if len(t.Replicas) == 0 {
		return "one Region"
	}
	return fmt.Sprintf("%d replicas with strong consistency (MRSC)", len(t.Replicas))
}

func (d *doctor) createTable() string {
	return d.aws("create-table", "--billing-mode PAY_PER_REQUEST --attribute-definitions AttributeName=pool_group,AttributeType=S AttributeName=node_id,AttributeType=N "+
		"--key-schema AttributeName=pool_group,KeyType=HASH AttributeName=node_id,KeyType=RANGE")
}

// checkTTL checks that time to live is off, because DynamoDB would delete lease items and
// their history.
func (d *doctor) checkTTL(ctx context.Context) {
	out, err := d.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &d.table})
	if err != nil {
		d.add("ttl", skipped, "Time to Live was not checked: "+brief(err), "")
		return
	}
	switch t := out.TimeToLiveDescription; t.TimeToLiveStatus {
	case types.TimeToLiveStatusEnabled, types.TimeToLiveStatusEnabling:
		name := aws.ToString(t.AttributeName)
		d.add("ttl", problem, fmt.Sprintf("Time to Live is on for the attribute %s: a lease item that it deletes loses its version and its reserved time", name),
			d.aws("update-time-to-live", "--time-to-live-specification Enabled=false,AttributeName="+name))
	default:
		d.add("ttl", fine, "Time to Live is off", "")
	}
}

// checkPermissions tries each call that an agent makes. It returns false if the pool
// cannot be read.
func (d *doctor) checkPermissions(ctx context.Context) (readable bool) {
	// DynamoDB first checks the permissions and then refuses a write whose condition
	// cannot hold, so these writes never change anything.
	const cannotHold = "attribute_exists(pool_group) AND attribute_not_exists(pool_group)"
	key := func(group, node string) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: group}, "node_id": &types.AttributeValueMemberN{Value: node}}
	}
	update := func(k map[string]types.AttributeValue, attribute string) error { // attribute must be one that the role may write
		_, err := d.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &d.table, Key: k, UpdateExpression: aws.String("REMOVE " + attribute), ConditionExpression: aws.String(cannotHold),
		})
		if hasCode(err, "ConditionalCheckFailedException") {
			return nil
		}
		return err
	}
	before := d.now()
	item, get := d.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &d.table, Key: key(d.pool, "-1"), ConsistentRead: aws.Bool(true)})
	if get == nil {
		d.checkClock(before, d.now(), item)
	}
	_, query := d.client.Query(ctx, &dynamodb.QueryInput{
		TableName: &d.table, KeyConditionExpression: aws.String("pool_group = :group"), Limit: aws.Int32(1), ConsistentRead: aws.Bool(true),
		ExpressionAttributeValues: map[string]types.AttributeValue{":group": &types.AttributeValueMemberS{Value: d.pool + "#0"}},
	})
	_, describe := d.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &d.table})
	var missing, others []string
	slow := map[string][]string{} // throttled calls by the limit that they exceeded
	for _, tried := range []struct {
		action string
		err    error
	}{
		{"dynamodb:DescribeTable", describe}, {"dynamodb:GetItem", get}, {"dynamodb:Query", query},
		{"dynamodb:UpdateItem", update(key(d.pool+"#0", "0"), "taken_from")},
	} {
		switch {
		case hasCode(tried.err, "AccessDeniedException"):
			missing = append(missing, tried.action)
		case protocol.Reason(tried.err) == "throttled" && tried.err != nil:
			limit := protocol.Limit(tried.err)
			slow[limit] = append(slow[limit], tried.action)
		case tried.err != nil:
			others = append(others, tried.action+": "+brief(tried.err))
		}
	}
	d.checkThrottles(slow)
	switch {
	case len(missing) > 0:
		policy := d.policy(missing)
		// Invariant: the suggested command removes no permission that the role has. put-role-policy
		// replaces a policy with the same name, so the name depends on the pool and the permissions.
		name := fmt.Sprintf("nodelease-%s-%08x", d.pool, crc32.ChecksumIEEE([]byte(policy)))
		d.add("permissions", problem, "these credentials lack "+strings.Join(missing, ", "),
			"aws iam put-role-policy --role-name ROLE --policy-name "+name+" --policy-document '"+policy+"'")
	case len(others) > 0:
		d.add("permissions", problem, strings.Join(others, "; "), "")
	case len(slow) > 0:
		d.add("permissions", skipped, "some calls were throttled before their permissions were checked", "")
	default:
		d.add("permissions", fine, "these credentials allow all that an agent does", "")
	}
	if len(missing) == 0 && hasCode(update(key(d.pool, "-1"), "open_groups"), "AccessDeniedException") {
		d.add("permissions", fine, "they do not allow opening groups of the pool: agents use the open ones, and the reaper opens more", "")
	}
	return get == nil && query == nil
}

// checkThrottles reports the throttled calls, grouped by the limit that they exceeded. Its
// fix only shows the limit, because a person must decide whether to raise it.
func (d *doctor) checkThrottles(slow map[string][]string) {
	fixes := map[string]string{
		protocol.LimitHotKey:  d.again("resize --size N --expect HOLDERS"),
		protocol.LimitTable:   d.aws("describe-table", "--query 'Table.[BillingModeSummary,ProvisionedThroughput,OnDemandThroughput]'"),
		protocol.LimitAccount: "aws service-quotas list-service-quotas --service-code dynamodb",
	}
	for _, limit := range slices.Sorted(maps.Keys(slow)) {
		d.add("throttling", problem, strings.Join(slow[limit], ", ")+" was throttled: "+protocol.ThrottleRemedy(limit), fixes[limit])
	}
}

// policy returns a policy that allows actions on the pool's items and on nothing else.
func (d *doctor) policy(actions []string) string {
	arn := d.arn
	if arn == "" && protocol.TableName(d.table) != d.table {
		arn = d.table
	} else if arn == "" {
		arn = "arn:aws:dynamodb:*:*:table/" + d.table
	}
	type object = map[string]any
	onItems, onTable, onLeases := []string{}, []string{}, []string{}
	for _, a := range actions {
		switch a {
		case "dynamodb:DescribeTable": // a call without leading keys
			onTable = append(onTable, a)
		case "dynamodb:UpdateItem":
			onLeases = append(onLeases, a)
		default:
			onItems = append(onItems, a)
		}
	}
	statements := []object{}
	if len(onItems) > 0 {
		statements = append(statements, object{"Effect": "Allow", "Action": onItems, "Resource": arn,
			"Condition": object{"ForAllValues:StringLike": object{"dynamodb:LeadingKeys": []string{d.pool, d.pool + "#*"}}}})
	}
	if len(onLeases) > 0 { // tasks need no access to the reaper's memory and the hint cards
		statements = append(statements, object{"Effect": "Allow", "Action": onLeases, "Resource": arn, "Condition": object{
			"ForAllValues:StringLike":    object{"dynamodb:LeadingKeys": []string{d.pool + "#*"}},
			"ForAllValues:StringNotLike": object{"dynamodb:LeadingKeys": []string{d.pool + "#reaper", d.pool + "#card#*"}}}})
	}
	if len(onTable) > 0 {
		statements = append(statements, object{"Effect": "Allow", "Action": onTable, "Resource": arn})
	}
	doc, err := json.Marshal(object{"Version": "2012-10-17", "Statement": statements})
	if err != nil {
		panic(err) // cannot happen: the policy has only strings
	}
	return string(doc)
}

// clockError is the clock error that agents with the default guards tolerate.
const clockError = 1500 * time.Millisecond

// checkClock compares this machine's clock, read before and after a request, with
// DynamoDB's, which is in whole seconds.
func (d *doctor) checkClock(before, after time.Time, out *dynamodb.GetItemOutput) {
	server, ok := middleware.GetServerTime(out.ResultMetadata)
	if !ok {
		d.add("clock", skipped, "the answers carry no time", "")
		return
	}
	ahead, behind := before.Sub(server.Add(time.Second)), server.Sub(after)
	word, off := "ahead of", ahead
	if behind > ahead {
		word, off = "behind", behind
	}
	if off > clockError {
		d.add("clock", problem, fmt.Sprintf("this machine's clock is at least %v %s DynamoDB's; agents refuse to start at %v", off.Round(time.Millisecond), word, clockError),
			"sudo chronyc makestep (on Fargate: stop the task; its replacement runs on another host, with another clock)")
		return
	}
	d.add("clock", fine, fmt.Sprintf("this machine's clock is within %v of DynamoDB's, to the accuracy of whole seconds", clockError), "")
}

func hasCode(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code
}

// brief returns AWS's message without the operation's name and request ID.
func brief(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return plain(err)
}
