package protocol

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
)

// A clock that is off by more than five minutes is reported as such, and not as missing
// permissions. A wrong key is still reported as missing permissions.
func TestExplainClock(t *testing.T) {
	for _, c := range []struct {
		code, message string
		want          error
	}{
		{"InvalidSignatureException", "Signature expired: 20261122T100000Z is now earlier than 20261122T101000Z (20261122T101500Z - 5 min.)", ErrClockSkew},
		{"InvalidSignatureException", "Signature not yet current: 20261122T110000Z is still later than 20261122T101000Z (20261122T100500Z + 5 min.)", ErrClockSkew},
		{"SignatureDoesNotMatch", "Signature expired: 20261122T100000Z is now earlier than 20261122T101000Z", ErrClockSkew},
		{"RequestExpired", "Request has expired.", ErrClockSkew},
		{"RequestTimeTooSkewed", "The difference between the request time and the current time is too large.", ErrClockSkew},
		{"InvalidSignatureException", "The request signature we calculated does not match the signature you provided.", ErrAccess},
		{"AccessDeniedException", "User is not authorized to perform dynamodb:UpdateItem", ErrAccess},
	} {
		err := explain(&smithy.GenericAPIError{Code: c.code, Message: c.message}, "UpdateItem", "leases")
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %s: got %v, want %v", c.code, c.message, err, c.want)
		}
		if errors.Is(c.want, ErrClockSkew) && (errors.Is(err, ErrAccess) || !strings.Contains(err.Error(), "time synchronization") || strings.Contains(err.Error(), "grant the role")) {
			t.Errorf("%s: got %v, want the clock named and no word of permissions", c.code, err)
		}
	}
}
