package protocol

import (
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// The limits at which DynamoDB throttles requests.
const (
	LimitHotKey  = "hot_key" // of one partition
	LimitTable   = "table"   // of the table's configuration
	LimitAccount = "account" // of the account, in the Region
)

// throttled reports whether AWS throttled a request, and returns the reasons in its
// answer.
func throttled(err error) (reasons []types.ThrottlingReason, is bool) {
	var provisioned *types.ProvisionedThroughputExceededException
	var throttling *types.ThrottlingException
	var account *types.RequestLimitExceeded
	switch {
	case errors.As(err, &provisioned):
		return provisioned.ThrottlingReasons, true
	case errors.As(err, &throttling):
		return throttling.ThrottlingReasons, true
	case errors.As(err, &account):
		return account.ThrottlingReasons, true
	}
	var api smithy.APIError
	return nil, errors.As(err, &api) && isThrottle(api.ErrorCode())
}

// isThrottle reports whether an AWS error code means throttling.
func isThrottle(code string) bool {
	switch code {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "LimitExceededException":
		return true
	}
	return false
}

// Limit returns the limit at which a request was throttled: LimitHotKey, LimitTable or
// LimitAccount. It returns "" if the request was not throttled, or if DynamoDB does
// not report the limit. If DynamoDB reports several limits, it returns the narrowest,
// which should be checked first.
func Limit(err error) string {
	reasons, is := throttled(err)
	if !is {
		return ""
	}
	found := map[string]bool{}
	for _, r := range reasons {
		switch reason := aws.ToString(r.Reason); {
		case strings.HasSuffix(reason, "KeyRangeThroughputExceeded"):
			found[LimitHotKey] = true
		case strings.HasSuffix(reason, "ProvisionedThroughputExceeded"), strings.HasSuffix(reason, "MaxOnDemandThroughputExceeded"):
			found[LimitTable] = true
		case strings.HasSuffix(reason, "AccountLimitExceeded"):
			found[LimitAccount] = true
		}
	}
	for _, limit := range []string{LimitHotKey, LimitTable, LimitAccount} {
		if found[limit] {
			return limit
		}
	}
	var account *types.RequestLimitExceeded
	if len(reasons) == 0 && errors.As(err, &account) {
		return LimitAccount
	}
	return ""
}

// ThrottleRemedy names the exhausted resource and the remedy for a limit that Limit
// returned.
func ThrottleRemedy(limit string) string {
	switch limit {
	case LimitHotKey:
		return "one partition is at its limit of 1,000 writes or 3,000 reads a second: start large fleets in waves, and set Expect, which opens more groups and warms the table"
	case LimitTable:
		return "the table is at the throughput that it was given: raise its provisioned capacity or its maximum on-demand throughput, or make it on demand"
	case LimitAccount:
		return "the account is at its quota for this Region: ask Service Quotas for a higher table-level throughput, and see what else uses it"
	}
	return "DynamoDB does not say which limit was reached: see the table's throttles in CloudWatch, and start large fleets in waves"
}

// throttleReasons lists DynamoDB's reasons for a throttle; empty if it sent none.
func throttleReasons(reasons []types.ThrottlingReason) string {
	var all []string
	for _, r := range reasons {
		all = append(all, strings.TrimSpace(aws.ToString(r.Reason)+" "+aws.ToString(r.Resource)))
	}
	return strings.Join(all, ", ")
}
