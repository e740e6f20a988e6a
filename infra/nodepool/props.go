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

// Props describe a table, its pools and how they are looked after. Only Pools is required; a zero value in any other field means the field's
// default.
type Props struct {
	// Pools are the pools in the table, at least one. Each pool is an ID space of its own: two pools may make equal IDs.
	Pools []PoolProps

	// TableName is the name of the DynamoDB table. Changing it means another table and another ID space, which the bootstrap function refuses
	// to seed unless a new Floor is set. If the context value nodelease:names lists the deployed names, the synthesis refuses the change too.
	// Defaults to a name that CloudFormation makes, so that a table left behind by a failed first deployment does not block the next
	// deployment. With a name of your own, set AllowDeletion for the first deployment (docs/deploy.md).
	TableName string

	// Replicas are the other Regions of a multi-Region table: two Regions, or one and a Witness. They require a stack whose Region is set, and
	// Consistency STRONG, which can be chosen only when the table is created. Defaults to none: one Region.
	Replicas []string

	// Witness is the third Region of a multi-Region table, if that Region is to store no readable copy. Defaults to none.
	Witness string

	// Consistency is the consistency between Regions. With Replicas, only STRONG is accepted, because with eventual consistency each Region
	// decides a conditional write alone and the last writer wins, so that two processes could get the same node ID. Defaults to none: one Region.
	Consistency awsdynamodb.MultiRegionConsistency

	// Key encrypts the table. Every grantee of a pool may encrypt and decrypt with it. It can be changed at any time. Defaults to the key that
	// DynamoDB owns.
	Key awskms.IKey

	// ReplicaKeys maps each Region of Replicas to the ARN of a key there. With a Key, every Region needs an entry. Every grantee of a pool may
	// use these keys, as far as their own policies let the roles of this account use them. Defaults to none.
	ReplicaKeys map[string]string

	// RemovalPolicy is the table's removal policy. DESTROY needs AllowDeletion. Defaults to RETAIN, since a new table would not know how far
	// the IDs of the old one went. With AllowDeletion, defaults to RETAIN_ON_UPDATE_OR_DELETE, which deletes the table if the first deployment
	// fails.
	RemovalPolicy awscdk.RemovalPolicy

	// AllowDeletion turns the table's deletion protection off. Use it for throwaway stacks, as in tests, and for the first deployment of a
	// table with a TableName. It can be changed at any time. Defaults to false.
	AllowDeletion bool

	// FunctionsDir holds bootstrap.zip, reaper.zip and poolmetric.zip as `make functions` writes them, built for Architecture. A relative path
	// is relative to the directory where the app runs. In another repository, build the zips from this module. Each contains one file, built
	// with, for example, `GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -tags lambda.norpc -o bootstrap
	// github.com/nodelease/nodelease/functions/reaper`. Defaults to dist/functions.
	FunctionsDir string

	// Architecture is the architecture that the zips were built for. Defaults to the context value "arch" (arm64, amd64 or x86_64), and without
	// it to arm64.
	Architecture awslambda.Architecture

	// Every is the interval at which the reaper frees what crashed tasks left behind, and at which the pools are measured; whole minutes, 1 to
	// 60. Each run of either reads the items of all open groups: see docs/cost.md before opening many. Defaults to 1 minute.
	Every time.Duration

	// LogRetention is how long the functions' logs are kept. Defaults to ONE_MONTH.
	LogRetention awslogs.RetentionDays

	// AlarmTopic receives a message when an alarm goes off and when it ends. Defaults to a new topic without subscribers: see
	// NodePool.AlarmTopic.
	AlarmTopic awssns.ITopic

	// UtilizationAlarm is the share of a pool's usable node IDs, in percent above 0 and up to 100. The pool's alarm goes off when that share
	// or more is in use. Leave room for a rolling deploy, in which the old and the new fleet hold node IDs at once. Defaults to 80.
	UtilizationAlarm float64

	// ExpiredAlarm is the share of a pool's usable node IDs, or of the PoolProps.Expect that are held at once, in percent above 0 and up to 100.
	// An alarm goes off when the leases of that share or more, but of at least one node ID, are expired and have not been freed by the reaper for
	// five measurements. Set Expect in a pool that is mostly empty, since the alarm could not go off otherwise. Defaults to 5.
	ExpiredAlarm float64

	// ExhaustionAlarm is a time, from 1 minute to 24 hours, and at least Every. An alarm goes off when for ten measurements in a row, at the rate
	// of that moment, every node ID of a pool would be held before that time has passed. If ten measurements take more than half of that time,
	// the alarm needs fewer. Defaults to 1 hour.
	ExhaustionAlarm time.Duration
}

// PoolProps describe one pool: a numbered set of node IDs that share one namespace.
type PoolProps struct {
	// Name is the pool's name: 1 to 64 letters, digits, dots, underscores or hyphens.
	Name string

	// Size is how many node IDs the pool has: at least 1 and at most 65,536. The node IDs are 0 to Size-1. Raise Size at any time; lowering it
	// retires the node IDs at the top and lets their holders finish.
	Size int

	// ExcludeBelow is the number of node IDs at the bottom that are never leased, because they are in use without a lease (in a migration from
	// fixed IDs). Less than Size. Defaults to 0.
	ExcludeBelow int

	// Floor is the time, to the millisecond, before which no ID of this pool may ever be stamped. Set it if IDs were made before this table
	// existed. Defaults to the time of seeding.
	Floor time.Time

	// Expect is the largest number of node IDs that will be held at once: the desired count of tasks, times the maximum percent of a deploy.
	// The seed opens groups of 256 for one and a half times as many (see leasepool.Spec), and for a large fleet the table is warmed (see
	// Throttling in docs/operations.md). Raise it at any time. Lowering it neither reduces the table's warm throughput nor closes groups.
	// Defaults, in narrow pools and in pools of more than 1,024 node IDs, to that count for the ECS services whose tasks are attached, as far
	// as the synthesis knows it; without such services, groups are opened as they fill. Only a value that is set here warms the table: without
	// it the table takes the writes of about 12,000 holders, counted over all pools, as every new table does.
	Expect int

	// MaxTTL and MaxReserve limit how far the leases of the containers passed to Attach grow: see lease.Config. Leases do not grow if MaxTTL
	// equals the containers' TTL, which is 15 seconds unless they set another. Whole milliseconds, up to 24 hours. Defaults to 15 minutes and
	// 4 hours. A container refuses to start if its TTL is longer than MaxTTL, or its reservation, by default TTL + 1 second, than MaxReserve.
	// Longer leases have costs (docs/operations.md): after a crash, the node ID cannot be claimed for up to half of its holder's
	// life, and every process must be stopped before a table is restored or replaced.
	MaxTTL, MaxReserve time.Duration

	// Layout is the layout of the pool's IDs: a name such as wide16, or bits for time, node and sequence such as 40/13/10
	// (leasepool.ParseLayout). It must have room for Size node IDs, and cannot be changed once a node ID has been claimed. By default, the first
	// task that makes IDs sets the layout, and tasks are allowed to write the layout's attributes of the pool's item.
	Layout string

	// Narrow makes node IDs only as wide as the groups of 256 in use require. The bits that this leaves extend the sequence, for bursts: see
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

// withDefaults returns a copy in which every zero value is replaced by the default that its comment names. It leaves Architecture to
// setArchitecture, which needs the construct's context.
func (p Props) withDefaults() Props {
	if p.RemovalPolicy == "" {
		// To roll a first deployment back, CloudFormation would have to delete the table. It cannot if the table is protected, and would be stuck.
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

// usable returns how many node IDs of the pool can be leased.
func (p PoolProps) usable() int { return p.Size - p.ExcludeBelow }

// expected returns how many node IDs of the pool are held at once, or can be if that is not known.
func (p PoolProps) expected() int {
	if p.Expect > 0 {
		return p.Expect
	}
	return p.usable()
}
