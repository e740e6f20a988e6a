package nodepool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"

	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// validate reports every problem of the properties at once. Props must have their defaults.
func (p Props) validate(region string) error {
	return errors.Join(p.validatePools(), p.validateRegions(region), p.validateTimes(), p.validateZips())
}

func (p Props) validatePools() error {
	var errs []error
	if len(p.Pools) == 0 {
		errs = append(errs, errors.New("Pools is empty: name at least one pool, such as {Name: \"orders\", Size: 1024}"))
	}
	seen := map[string]bool{}
	for i, pool := range p.Pools {
		// Besides '#', which would make the name look like another pool's group, this keeps '*' out, which would widen a grant.
		if err := leasepool.CheckName(pool.Name); err != nil {
			errs = append(errs, fmt.Errorf("Pools[%d].Name: %w", i, err))
		}
		if seen[pool.Name] {
			errs = append(errs, fmt.Errorf("Pools[%d].Name is %q for the second time: give each pool a name of its own", i, pool.Name))
		}
		seen[pool.Name] = true
		if pool.Size < 1 || pool.Size > leasepool.MaxSize {
			errs = append(errs, fmt.Errorf("Pools[%d].Size is %d: choose 1 to %d numbers", i, pool.Size, leasepool.MaxSize))
		}
		if pool.ReservedLow < 0 || pool.ReservedLow >= pool.Size {
			errs = append(errs, fmt.Errorf("Pools[%d].ReservedLow is %d of %d: it must be at least 0 and leave a number to lease", i, pool.ReservedLow, pool.Size))
		}
		if !pool.Floor.IsZero() && pool.Floor.Year() < 2000 {
			errs = append(errs, fmt.Errorf("Pools[%d].Floor is %s: the bootstrap function takes none before 2000", i, pool.Floor.Format(time.RFC3339)))
		}
	}
	return errors.Join(errs...)
}

// eventual says why eventually consistent replicas are refused.
const eventual = "with eventual consistency each Region decides a conditional write alone and the last writer wins, " +
	"so two processes would hold the same node ID"

// validateRegions accepts a single Region or the two shapes that strong consistency has: three replicas (this Region counts), or two and a
// witness. Anything else would be created as an eventually consistent table, on which two Regions can lease the same number.
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
	seen := map[string]bool{region: region != ""}
	for _, r := range append(append([]string(nil), p.Replicas...), p.Witness) {
		if r == "" {
			continue
		}
		if seen[r] {
			errs = append(errs, fmt.Errorf("Region %s is named twice among this stack's Region, Replicas and Witness: name three different ones", r))
		}
		seen[r] = true
		// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-properties-dynamodb-globaltable-globaltablewitness.html
		if continent(r) != continent(region) && region != "" {
			errs = append(errs, fmt.Errorf("Region %s is not near %s: strong consistency takes Regions of one set, all in the US, all in Europe or all in Asia Pacific", r, region))
		}
	}
	return errors.Join(errs...)
}

// continent of a Region: us, eu, ap and so on.
func continent(region string) string {
	before, _, _ := strings.Cut(region, "-")
	return before
}

func (p Props) validateTimes() error {
	var errs []error
	if p.Every < time.Minute || p.Every > time.Hour || p.Every%time.Minute != 0 {
		errs = append(errs, fmt.Errorf("Every is %v: choose whole minutes, from 1m to 60m", p.Every))
	}
	if p.ExhaustionAlarm < time.Minute || p.ExhaustionAlarm > horizon {
		errs = append(errs, fmt.Errorf("ExhaustionAlarm is %v: choose 1m to %v", p.ExhaustionAlarm, horizon))
	}
	if !(p.UtilizationAlarm > 0 && p.UtilizationAlarm <= 100) {
		errs = append(errs, fmt.Errorf("UtilizationAlarm is %v: it is a percentage, above 0 and up to 100", p.UtilizationAlarm))
	}
	return errors.Join(errs...)
}

func (p Props) validateZips() error {
	var errs []error
	for _, name := range functionNames {
		zip := filepath.Join(p.FunctionsDir, name+".zip")
		if _, err := os.Stat(zip); err != nil {
			errs = append(errs, fmt.Errorf("FunctionsDir has no %s.zip (%w): run `make functions`, or set FunctionsDir to where the zips are", name, err))
		}
	}
	return errors.Join(errs...)
}
