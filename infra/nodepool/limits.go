package nodepool

import (
	"errors"
	"fmt"
)

// AWS limits that apply to the number of pools and to the length of their names.
const (
	// maxPools is the largest number of pools in one construct. CloudFormation accepts 500 resources in a stack; the construct makes about 40,
	// and 10 more for each pool.
	maxPools = 40

	// maxEnvironment is how many bytes the environment of a Lambda function may have.
	// https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
	maxEnvironment = 4096

	// longestTableName is the length assumed for a name that CloudFormation makes.
	longestTableName = 255
)

// validateLimits refuses more pools than one construct can have. Otherwise a deployment would fail halfway through.
func (p Props) validateLimits() error {
	const remedy = "spread them over several NodePools (each has a table of its own) in stacks of their own"
	var errs []error
	if len(p.Pools) > maxPools {
		errs = append(errs, fmt.Errorf("Pools are %d: one NodePool takes at most %d, as a stack may have 500 resources; %s", len(p.Pools), maxPools, remedy))
	}
	table := len(p.TableName)
	if table == 0 {
		table = longestTableName
	}
	if bytes := len("NODELEASE_TABLE") + table + len("NODELEASE_POOLS") + len(p.poolsJSON()); bytes > maxEnvironment {
		errs = append(errs, fmt.Errorf("Pools take %d bytes of the functions' environment, of which Lambda allows %d: use shorter names, or %s", bytes, maxEnvironment, remedy))
	}
	return errors.Join(errs...)
}
