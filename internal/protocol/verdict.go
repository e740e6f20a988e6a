package protocol

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// VerdictAge is how long a verdict is valid.
const VerdictAge = time.Hour

// Judge is a [Store] that makes verdicts on its table, and that can tell whether a verdict
// is about this table. Any other store is checked with [Store.Check] at each start.
type Judge interface {
	// Judge does what [Store.Check] does, and also returns a verdict. The verdict is nil
	// unless the answer was complete: an incomplete answer may be enough for this check,
	// but not for the processes that would rely on the verdict. For an unsafe table, Judge
	// returns a verdict and an error.
	Judge(ctx context.Context) (*Verdict, error)
	// Place returns the Region to which requests are sent and the name of the table;
	// "" for an unknown Region.
	Place() (region, table string)
}

// Verdict is the last result of checking whether the table is safe for leases.
type Verdict struct {
	Region string    `json:"region"`
	Table  string    `json:"table"` // its name: a restored table has a different name
	At     time.Time `json:"at"`    // when the request was about to be sent
	By     string    `json:"by"`
	Safe   bool      `json:"safe"`

	odd types.AttributeValue // see asStored
}

// Counts reports whether a client of s may rely on the verdict instead of checking the
// table. now is the time by the client's own clock. In doubt, Counts returns false, which
// costs only one DescribeTable.
//
// Invariant: a verdict is valid only for the table for which it was made, and only in the
// Region where it was made: the table may have a replica in another Region, which only a
// check in that Region sees. A verdict is valid for an hour. A verdict from the future is
// not valid, since one of the clocks must be wrong. An unsafe verdict is never valid.
func (v *Verdict) Counts(s Store, now time.Time) bool {
	judge, ok := s.(Judge)
	if v == nil || !ok || !v.Safe {
		return false
	}
	region, table := judge.Place()
	age := now.Sub(v.At)
	return region != "" && v.Region == region && v.Table == table && age >= 0 && age <= VerdictAge
}

// stored returns v as stored in the item.
func (v *Verdict) stored() verdict {
	return verdict{Region: v.Region, Table: v.Table, At: v.At.UnixMilli(), By: v.By, Safe: v.Safe}
}

// item returns v as stored in the pool's item.
func (v *Verdict) item() types.AttributeValue { return encoded(v.stored()) }

// seen returns v as it was read from the pool's item.
func (v *Verdict) seen() types.AttributeValue {
	if v.odd != nil {
		return v.odd
	}
	return v.item()
}

// Vouch stores a verdict. Seen is the verdict that the writer read: of several concurrent
// writers, only one succeeds. A new verdict is not a change of the pool, so the revision
// stays the same.
type Vouch struct {
	Pool     string
	Revision int64    // of the item that the writer read; it matters only without Seen
	Seen     *Verdict // nil: there was none
	Verdict  Verdict
}

// PoolName implements [PoolWrite].
func (w Vouch) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w Vouch) Apply(old *PoolItem) (PoolItem, bool) {
	switch {
	case old == nil, (old.Verdict == nil) != (w.Seen == nil):
		return PoolItem{}, false
	case w.Seen == nil && w.Revision != old.Revision, w.Seen != nil && w.Seen.stored() != old.Verdict.stored():
		return PoolItem{}, false
	}
	p, v := *old, w.Verdict
	v.At = Trunc(v.At)
	p.Verdict = &v
	return p, true
}

// A write that arrives late must not bring back a verdict that a raise has removed. So it
// is conditional on the verdict that its writer has seen, like Measure, or, if there was
// none, on the revision, which ForgetVerdict increments.
func (w Vouch) update() update {
	u := update{
		set:    "SET verdict = :verdict",
		onlyIf: "attribute_not_exists(verdict) AND revision = :revision",
		values: attributes{":format": num(ItemFormat), ":verdict": w.Verdict.item()},
	}
	if w.Seen != nil {
		u.onlyIf = "verdict = :seen"
		u.values[":seen"] = w.Seen.seen()
	} else {
		u.values[":revision"] = num(w.Revision)
	}
	u.onlyIf = "item_format = :format AND " + u.onlyIf
	return u
}

// ForgetVerdict removes the verdict, whatever it is: a missing verdict only costs checks.
// It increments the revision even if there is no verdict, so that no hint card keeps an
// earlier verdict once the cards are rewritten.
type ForgetVerdict struct {
	Pool string
	// Behind is how far the pool's revision is behind that of a hint card, or 0 if no card
	// is ahead. A card that is ahead was written before the table was restored.
	Behind int64
}

// PoolName implements [PoolWrite].
func (w ForgetVerdict) PoolName() string { return w.Pool }

// Apply implements [PoolWrite].
func (w ForgetVerdict) Apply(old *PoolItem) (PoolItem, bool) {
	if old == nil {
		return PoolItem{}, false
	}
	p := *old
	p.Verdict = nil
	p.Revision += w.Behind + 1
	return p, true
}

func (w ForgetVerdict) update() update {
	return update{
		set:    "SET revision = revision + :more REMOVE verdict",
		onlyIf: "item_format = :format AND revision >= :one",
		values: attributes{":format": num(ItemFormat), ":one": num(1), ":more": num(w.Behind + 1)},
	}
}

// Place implements [Judge].
func (d *DynamoDB) Place() (region, table string) {
	if client, ok := d.client.(interface{ Options() dynamodb.Options }); ok && !IsNil(d.client) {
		region = client.Options().Region
	}
	return region, TableName(d.table)
}

// noAccount is in the ARNs of emulators, some of which name no Region there.
const noAccount = "000000000000"

// complete reports whether a description is enough for a verdict: it describes the
// requested table, in the requested Region, and the table is not being changed.
func (d *DynamoDB) complete(t *types.TableDescription) bool {
	region, table := d.Place()
	arn := tableARNs.FindStringSubmatch(aws.ToString(t.TableArn))
	return region != "" && arn != nil && arn[2] == table && (arn[1] == region || strings.Contains(*t.TableArn, ":"+noAccount+":")) &&
		t.TableStatus == types.TableStatusActive && len(t.AttributeDefinitions) > 0
}
