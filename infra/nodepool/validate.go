package nodepool

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"

	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// validate returns every problem of the properties at once. Props must have their defaults.
func (p Props) validate(region string) error {
	return errors.Join(p.validateTable(), p.validatePools(), p.validateLimits(), p.validateRegions(region), p.validateRemoval(), p.validateKeys(), p.validateTimes())
}

var tableNames = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`)

// validateTable refuses a name that DynamoDB refuses, but only in the middle of a deployment.
func (p Props) validateTable() error {
	if p.TableName == "" || *awscdk.Token_IsUnresolved(p.TableName) || tableNames.MatchString(p.TableName) {
		return nil
	}
	return fmt.Errorf("TableName is %q: use 3 to 255 of A-Z a-z 0-9 . _ -, or leave it out for a name that CloudFormation makes", p.TableName)
}

// validateRemoval refuses a removal policy that CloudFormation could not carry out: it would fail to delete a protected table, and leave the
// stack in DELETE_FAILED or ROLLBACK_FAILED.
func (p Props) validateRemoval() error {
	switch p.RemovalPolicy {
	case awscdk.RemovalPolicy_RETAIN, awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE, awscdk.RemovalPolicy_DESTROY:
	default:
		return fmt.Errorf("RemovalPolicy is %s, which CloudFormation does not know of a table: use RETAIN, or, with AllowDeletion, RETAIN_ON_UPDATE_OR_DELETE or DESTROY", p.RemovalPolicy)
	}
	if p.AllowDeletion || p.RemovalPolicy == awscdk.RemovalPolicy_RETAIN {
		return nil
	}
	return fmt.Errorf("RemovalPolicy is %s, but the table is protected from deletion, so that the stack could not be destroyed or rolled back: "+
		"set AllowDeletion too, or leave RemovalPolicy at RETAIN", p.RemovalPolicy)
}

// validateKeys checks that, with a Key, each Region that stores the table has a key, and that no other Region has one.
func (p Props) validateKeys() error {
	var errs []error
	for region, arn := range p.ReplicaKeys {
		if p.Key == nil || !slices.Contains(p.Replicas, region) {
			errs = append(errs, fmt.Errorf("ReplicaKeys has a key of %s: it needs Key too, and %s among Replicas", region, region))
		}
		if parts := strings.Split(arn, ":"); !*awscdk.Token_IsUnresolved(arn) && (len(parts) != 6 || parts[2] != "kms" || parts[3] != region) {
			errs = append(errs, fmt.Errorf("ReplicaKeys[%q] is %q: give the ARN of a key in that Region", region, arn))
		}
	}
	for _, region := range p.Replicas {
		if p.Key != nil && p.ReplicaKeys[region] == "" {
			errs = append(errs, fmt.Errorf("Key is set, but ReplicaKeys has none for %s: a key belongs to one Region, so give the ARN of one there", region))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) }) // maps have no order
	return errors.Join(errs...)
}

// The ID of a part of a pool is one of poolPrefixes, a hyphen and the pool's name, or, for an alarm, the name, a hyphen and one of poolAlarms.
var (
	poolPrefixes = []string{"agent", "Policy", "seed"}
	poolAlarms   = []string{"utilization", "exhausted", "running-out", "corrupt", "stuck", "braked", "expired", "no-data"}
)

func (p Props) validatePools() error {
	var errs []error
	if len(p.Pools) == 0 {
		errs = append(errs, errors.New("Pools is empty: name at least one pool, such as {Name: \"orders\", Size: 1024}"))
	}
	seen := map[string]bool{}
	for i, pool := range p.Pools {
		// CheckName refuses '#', with which the name could look like another pool's group, and '*', which would widen a grant.
		if err := leasepool.CheckName(pool.Name); err != nil {
			errs = append(errs, fmt.Errorf("Pools[%d].Name: %w", i, err))
		}
		if seen[pool.Name] {
			errs = append(errs, fmt.Errorf("Pools[%d].Name is %q for the second time: give each pool a name of its own", i, pool.Name))
		}
		seen[pool.Name] = true
		if slices.Contains(poolPrefixes, pool.Name) {
			for _, kind := range poolAlarms {
				if slices.Contains(p.names(), kind) {
					errs = append(errs, fmt.Errorf("Pools are called %q and %q: an alarm of the first and a part of the second would both have the ID %s-%s: rename one", pool.Name, kind, pool.Name, kind))
				}
			}
		}
		if pool.Size < 1 || pool.Size > leasepool.MaxSize {
			errs = append(errs, fmt.Errorf("Pools[%d].Size is %d: choose 1 to %d node IDs", i, pool.Size, leasepool.MaxSize))
		}
		if pool.ExcludeBelow < 0 || pool.ExcludeBelow >= pool.Size {
			errs = append(errs, fmt.Errorf("Pools[%d].ExcludeBelow is %d of %d: it must be at least 0 and leave a node ID to lease", i, pool.ExcludeBelow, pool.Size))
		}
		for name, d := range map[string]time.Duration{"MaxTTL": pool.MaxTTL, "MaxReserve": pool.MaxReserve} {
			if d < 0 || d > 24*time.Hour || d%time.Millisecond != 0 || d > 0 && d < time.Second {
				errs = append(errs, fmt.Errorf("Pools[%d].%s is %v: give 0, which is the default, or 1 second to 24 hours in whole milliseconds", i, name, d))
			}
		}
		if pool.Expect < 0 || pool.Expect > pool.usable() {
			errs = append(errs, fmt.Errorf("Pools[%d].Expect is %d of %d usable node IDs: give 0 to %d, or raise Size", i, pool.Expect, pool.usable(), max(0, pool.usable())))
		}
		if pool.Layout != "" {
			if layout, err := leasepool.ParseLayout(pool.Layout); err != nil {
				errs = append(errs, fmt.Errorf("Pools[%d].Layout: %w", i, err))
			} else if pool.Size > layout.Nodes() {
				errs = append(errs, fmt.Errorf("Pools[%d].Layout is %s, which holds %d node IDs, and Size is %d: choose a layout with more node bits, such as wide16, or a smaller Size",
					i, pool.Layout, layout.Nodes(), pool.Size))
			}
		}
		if !pool.Floor.IsZero() && pool.Floor.Year() < 2000 {
			errs = append(errs, fmt.Errorf("Pools[%d].Floor is %s: the bootstrap function takes none before 2000", i, pool.Floor.Format(time.RFC3339)))
		}
	}
	return errors.Join(errs...)
}

// eventual explains why eventually consistent replicas are refused.
const eventual = "with eventual consistency each Region decides a conditional write alone and the last writer wins, " +
	"so two processes would hold the same node ID"

// validateRegions accepts a single Region, or the two shapes that strong consistency allows: three replicas, or two replicas and a witness,
// including this Region. Anything else would become an eventually consistent table, on which two Regions can lease the same node ID.
func (p Props) validateRegions(region string) error {
	if len(p.Replicas) == 0 {
		if p.Witness != "" || p.Consistency != "" {
			return fmt.Errorf("Witness is %q and Consistency is %q without Replicas: name the other Regions in Replicas, or leave all three empty", p.Witness, p.Consistency)
		}
		return nil
	}
	var errs []error
	if p.Consistency != awsdynamodb.MultiRegionConsistency_STRONG {
		errs = append(errs, fmt.Errorf("Replicas are %v with Consistency %q: set Consistency to STRONG; %s", p.Replicas, p.Consistency, eventual))
	}
	if n := len(p.Replicas); !(n == 2 && p.Witness == "" || n == 1 && p.Witness != "") {
		errs = append(errs, fmt.Errorf("Replicas are %v and Witness is %q: strong consistency takes exactly three Regions: "+
			"two Replicas, or one Replica and a Witness", p.Replicas, p.Witness))
	}
	if region == "" {
		errs = append(errs, errors.New("the stack has no Region of its own: set Env.Region in its StackProps, as replicas are named relative to it"))
	}
	set := setOf(region)
	if region != "" && set == nil {
		errs = append(errs, fmt.Errorf("the stack's Region is %s: strong consistency is offered in %s only", region, sets()))
	}
	seen := map[string]bool{region: region != ""}
	others := append([]string(nil), p.Replicas...)
	if p.Witness != "" {
		others = append(others, p.Witness)
	}
	for i, r := range others {
		if r == "" {
			errs = append(errs, fmt.Errorf("Replicas[%d] is empty: name a Region, such as us-east-2", i))
			continue
		}
		if seen[r] {
			errs = append(errs, fmt.Errorf("Region %s is named twice among this stack's Region, Replicas and Witness: name three different ones", r))
		}
		seen[r] = true
		if set != nil && !slices.Contains(set, r) {
			errs = append(errs, fmt.Errorf("Region %s cannot be in one table with %s: strong consistency takes Regions of one set, here of %s", r, region, strings.Join(set, ", ")))
		}
	}
	return errors.Join(errs...)
}

// strongSets are the sets of Regions within which DynamoDB offers strong consistency, as DynamoDB's API reference lists them for
// CreateGlobalTableWitnessGroupMemberAction. A test compares them with the SDK's copy of that page, so that an update of the SDK shows a change.
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_CreateGlobalTableWitnessGroupMemberAction.html
var strongSets = [][]string{
	{"us-east-1", "us-east-2", "us-west-2"},
	{"eu-central-1", "eu-west-1", "eu-west-2", "eu-west-3"},
	{"ap-northeast-1", "ap-northeast-2", "ap-northeast-3"},
}

// setOf returns the set that the Region is in, or nil.
func setOf(region string) []string {
	for _, set := range strongSets {
		if slices.Contains(set, region) {
			return set
		}
	}
	return nil
}

func sets() string {
	var texts []string
	for _, set := range strongSets {
		texts = append(texts, "{"+strings.Join(set, ", ")+"}")
	}
	return strings.Join(texts, ", ")
}

func (p Props) validateTimes() error {
	var errs []error
	if p.Every < time.Minute || p.Every > time.Hour || p.Every%time.Minute != 0 {
		errs = append(errs, fmt.Errorf("Every is %v: choose whole minutes, from 1m to 60m", p.Every))
	}
	if p.ExhaustionAlarm < time.Minute || p.ExhaustionAlarm > horizon {
		errs = append(errs, fmt.Errorf("ExhaustionAlarm is %v: choose 1m to %v", p.ExhaustionAlarm, horizon))
	} else if p.ExhaustionAlarm < p.Every {
		errs = append(errs, fmt.Errorf("ExhaustionAlarm is %v, but Every is %v, so that a pool could fill up between two measurements: choose an ExhaustionAlarm of %v or more, or a shorter Every",
			p.ExhaustionAlarm, p.Every, p.Every))
	}
	if !(p.ExpiredAlarm > 0 && p.ExpiredAlarm <= 100) {
		errs = append(errs, fmt.Errorf("ExpiredAlarm is %v: it is a percentage, above 0 and up to 100", p.ExpiredAlarm))
	}
	if !(p.UtilizationAlarm > 0 && p.UtilizationAlarm <= 100) {
		errs = append(errs, fmt.Errorf("UtilizationAlarm is %v: it is a percentage, above 0 and up to 100", p.UtilizationAlarm))
	}
	return errors.Join(errs...)
}
