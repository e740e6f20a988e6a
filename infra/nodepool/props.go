package nodepool

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
)

// Props say which pools a table holds and how it is looked after. Only Pools is required; every other zero value means its default.
type Props struct {
	// Pools that live in the table, at least one. Each pool is an ID space of its own: two pools may make equal IDs.
	Pools []PoolProps

	// TableName of the DynamoDB table. Another name is another table and another ID space, which the bootstrap function refuses to seed unless
	// a new Floor is given; so does the synthesis, where the context value nodelease:names has the names that are deployed. Defaults to a name that CloudFormation makes, so that a table that a failed first deployment leaves behind does not
	// block the next one. With a name of your own, set AllowDeletion for the first deployment (docs/deploy.md).
	TableName string

	// Replicas are the other Regions of a multi-Region table: two of them, or one with a Witness. They require Consistency STRONG, which can
	// be chosen only when the table is created, and a stack whose own Region is set. Defaults to none: one Region.
	Replicas []string

	// Witness is the third Region of a multi-Region table that stores no readable copy. Defaults to none.
	Witness string

	// Consistency between Regions. With Replicas only STRONG is accepted: with eventual consistency each Region decides a conditional write
	// alone and the last writer wins, so two processes could get the same node ID. Defaults to none: one Region.
	Consistency awsdynamodb.MultiRegionConsistency

	// Key encrypts the table, and everybody who is granted a pool may use the key for that. It can be changed at any time. Defaults to the key
	// that DynamoDB owns.
	Key awskms.IKey

	// ReplicaKeys are the ARNs of the keys in the Regions of Replicas, by Region: one for each if there is a Key. Defaults to none.
	ReplicaKeys map[string]string

	// RemovalPolicy of the table. DESTROY needs AllowDeletion. Defaults to RETAIN, since a table that is made again has forgotten how far the
	// IDs went; with AllowDeletion to RETAIN_ON_UPDATE_OR_DELETE, with which a first deployment that fails takes the table with it.
	RemovalPolicy awscdk.RemovalPolicy

	// AllowDeletion turns the table's deletion protection off: for stacks that are thrown away, as in tests, and for the first deployment of a
	// table with a TableName. It can be changed at any time. Defaults to false.
	AllowDeletion bool

	// FunctionsDir holds bootstrap.zip, reaper.zip and poolmetric.zip as `make functions` leaves them, built for Architecture. A relative
	// path counts from the directory where the app runs. In another repository build them from this module: each is
	// `GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -tags lambda.norpc -o bootstrap github.com/nodelease/nodelease/functions/reaper`, alone in a
	// zip. Defaults to dist/functions.
	FunctionsDir string

	// Architecture that the zips were built for. Defaults to the context value "arch" (arm64, amd64 or x86_64), and without it to arm64.
	Architecture awslambda.Architecture

	// Every is how often the reaper frees what crashed tasks left behind and how often the pools are measured; whole minutes, 1 to 60. Both
	// read every item of every pool each time: see docs/cost.md before making a large pool. Defaults to 1 minute.
	Every time.Duration

	// LogRetention of the functions' logs. Defaults to ONE_MONTH.
	LogRetention awslogs.RetentionDays

	// AlarmTopic is told when an alarm goes off and when it ends. Defaults to a new topic without subscribers: see NodePool.AlarmTopic.
	AlarmTopic awssns.ITopic

	// UtilizationAlarm is the share of a pool's usable node IDs, in percent above 0 and up to 100, from which its alarm goes off. Keep room
	// for a rolling deploy, which holds the numbers of both fleets at once. Defaults to 80.
	UtilizationAlarm float64

	// ExpiredAlarm is the share of a pool's usable node IDs, in percent above 0 and up to 100, from which expired leases set off an alarm when
	// the reaper has not freed them for five measurements. Defaults to 5, and to one node ID at least.
	ExpiredAlarm float64

	// ExhaustionAlarm goes off when every number of a pool would be held within this time if more and more went on being taken as in the
	// last ten measurements; 1 minute to 24 hours. Defaults to 1 hour.
	ExhaustionAlarm time.Duration
}

// PoolProps describe one pool: a numbered set of node IDs that share one namespace.
type PoolProps struct {
	// Name of the pool: 1 to 64 letters, digits, dots, underscores or hyphens.
	Name string

	// Size is how many node IDs the pool has, from 0 to Size-1; 1 to 65,536. Raise it at any time; lowering it retires the node IDs at the top
	// and lets their holders finish.
	Size int

	// ExcludeBelow node IDs at the bottom are never leased, because someone uses them by another way (a migration from fixed IDs). Less than
	// Size. Defaults to 0.
	ExcludeBelow int

	// Floor is the time below which no ID of this pool may ever be stamped: when IDs were made before there was this table. To the
	// millisecond. Defaults to the time of seeding.
	Floor time.Time

	// Expect is how many node IDs will be held at once at most: the desired count of tasks, times the maximum percent of a deploy. The seed
	// opens the groups of 256 for half as many again, as leasepool.Spec says, and a large fleet warms the table by it: see Throttling in
	// docs/operations.md. Raise it at any time; when it is lowered, the table's warm throughput does not change, and
	// the groups stay open. Defaults to that count of the ECS services whose tasks are attached, as far as the synthesis knows it, for opening groups
	// in pools of more than 1,024 node IDs and narrow ones; without such services groups are opened as they fill. Only a value that is
	// given here warms the table: without it the table takes the writes of a new one, about 12,000 holders of all pools.
	Expect int

	// MaxTTL and MaxReserve are how far the leases of the containers passed to Attach grow: see lease.Config. With the MaxTTL of their TTL,
	// 15 seconds unless they say otherwise, they do not grow. Whole milliseconds, up to 24 hours. Defaults to 15 minutes and 4 hours.
	// docs/operations.md has the costs: after a crash a node ID rests for up to half of its holder's life, and whoever restores or makes a table stops every process first.
	MaxTTL, MaxReserve time.Duration

	// Layout is the layout of the pool's IDs: a name such as wide16, or bits for time, node and sequence such as 40/13/10
	// (leasepool.ParseLayout). It must have room for Size node IDs, and cannot be changed once a node ID has been claimed. Defaults to the layout
	// that the first task that makes IDs binds, for which tasks may write those attributes of the pool's item.
	Layout string

	// Narrow lets the width of the node IDs follow the groups of 256 in use, so that the other bits make IDs in bursts: see
	// leasepool.Spec. It cannot be changed later. Defaults to false.
	Narrow bool
}

const (
	defaultEvery            = time.Minute
	defaultFunctionsDir     = "dist/functions"
	defaultUtilizationAlarm = 80
	defaultExpiredAlarm     = 5
	defaultExhaustionAlarm  = time.Hour
)

// withDefaults returns a copy in which every zero value is replaced by the default of its comment. The architecture is left to arch, which needs
// the construct's context.
func (p Props) withDefaults() Props {
	if p.RemovalPolicy == "" {
		// CloudFormation cannot delete a protected table when it rolls a first deployment back, and would be stuck there.
		p.RemovalPolicy = awscdk.RemovalPolicy_RETAIN
		if p.AllowDeletion {
			p.RemovalPolicy = awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
		}
	}
	if p.FunctionsDir == "" {
		p.FunctionsDir = defaultFunctionsDir
	}
	if p.Every == 0 {
		p.Every = defaultEvery
	}
	if p.LogRetention == "" {
		p.LogRetention = awslogs.RetentionDays_ONE_MONTH
	}
	if p.UtilizationAlarm == 0 {
		p.UtilizationAlarm = defaultUtilizationAlarm
	}
	if p.ExpiredAlarm == 0 {
		p.ExpiredAlarm = defaultExpiredAlarm
	}
	if p.ExhaustionAlarm == 0 {
		p.ExhaustionAlarm = defaultExhaustionAlarm
	}
	return p
}

// usable is how many numbers of the pool can be leased.
func (p PoolProps) usable() int { return p.Size - p.ExcludeBelow }
