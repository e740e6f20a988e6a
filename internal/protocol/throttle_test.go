package protocol

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// Limit names the limit of a throttle in one word, and each limit has its own remedy. The
// limit is the same for the error that AWS sends and the error that callers see.
func TestLimit(t *testing.T) {
	why := func(reasons ...string) (all []types.ThrottlingReason) {
		for _, r := range reasons {
			all = append(all, types.ThrottlingReason{Reason: new(r), Resource: new("arn:aws:dynamodb:eu-west-1:1:table/leases")})
		}
		return all
	}
	remedies := map[string]bool{}
	for _, c := range []struct {
		err    error
		want   string
		remedy string
	}{
		{&types.ProvisionedThroughputExceededException{ThrottlingReasons: why("TableWriteKeyRangeThroughputExceeded")}, LimitHotKey, "one partition"},
		{&types.ThrottlingException{ThrottlingReasons: why("TableReadKeyRangeThroughputExceeded")}, LimitHotKey, "one partition"},
		{&types.ProvisionedThroughputExceededException{ThrottlingReasons: why("TableWriteProvisionedThroughputExceeded")}, LimitTable, "raise its provisioned capacity"},
		{&types.ThrottlingException{ThrottlingReasons: why("TableReadMaxOnDemandThroughputExceeded")}, LimitTable, "maximum on-demand throughput"},
		{&types.ThrottlingException{ThrottlingReasons: why("TableWriteAccountLimitExceeded")}, LimitAccount, "Service Quotas"},
		{&types.RequestLimitExceeded{ThrottlingReasons: why("IndexReadAccountLimitExceeded")}, LimitAccount, "Service Quotas"},
		{&types.RequestLimitExceeded{}, LimitAccount, "Service Quotas"},
		{&types.ThrottlingException{ThrottlingReasons: why("TableWriteAccountLimitExceeded", "TableWriteKeyRangeThroughputExceeded")}, LimitHotKey, "one partition"},
		{&types.ThrottlingException{ThrottlingReasons: why("TableWriteMoonPhaseExceeded")}, "", "does not say which limit"},
		{&types.ThrottlingException{ThrottlingReasons: []types.ThrottlingReason{{}}}, "", "does not say which limit"},
		{&types.ProvisionedThroughputExceededException{}, "", "does not say which limit"},
		{&smithy.GenericAPIError{Code: "ThrottlingException", Message: "slow down"}, "", "does not say which limit"},
	} {
		sent := &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "UpdateItem", Err: c.err}
		got := explain(sent, "UpdateItem", "leases")
		if Limit(sent) != c.want || Limit(got) != c.want || Reason(got) != "throttled" || !strings.Contains(got.Error(), c.remedy) {
			t.Errorf("%v: got %q, then %q: %v; want %q and %q", c.err, Limit(sent), Limit(got), got, c.want, c.remedy)
		}
		remedies[ThrottleRemedy(c.want)] = true
		if reasons, _ := throttled(c.err); len(reasons) > 0 && reasons[0].Reason != nil && !strings.Contains(got.Error(), *reasons[0].Reason+" arn:aws:dynamodb") {
			t.Errorf("%v does not say what DynamoDB said", got)
		}
	}
	if len(remedies) != 4 {
		t.Errorf("%d remedies, want one for each limit and one without", len(remedies))
	}
	for _, err := range []error{nil, errors.New("no such host"), &types.ResourceNotFoundException{}, &smithy.GenericAPIError{Code: "AccessDeniedException"}} {
		if got := Limit(err); got != "" {
			t.Errorf("%v: got %q, want no limit", err, got)
		}
	}
}
