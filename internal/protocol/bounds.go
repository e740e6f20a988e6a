package protocol

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Bounds on the texts and lists of an item. They are the same for readers and writers. An
// item that exceeds them is corrupt: otherwise a writer could make a reader keep any
// amount of data.
const (
	maxSession  = 64   // bytes of a session; a UUIDv7 has 36
	maxTask     = 512  // bytes of a task: the limit of Config.Task; an ECS ARN has about 100
	maxMetadata = 1024 // bytes of names and values: the holder's 512, and those that a cluster node adds
	maxEras     = 64   // eras of a pool: each has more node bits than the previous one, except after a repair
	maxRegion   = 64   // bytes of a Region's name
	maxTable    = 255  // bytes of a table's name
)

// checkText returns an error for texts of a lease that no agent would write.
func (it leaseItem) checkText() error {
	text := 0
	for name, value := range it.Metadata {
		text += len(name) + len(value)
	}
	switch before := it.Previous; {
	case it.Holder != nil && len(*it.Holder) > maxSession, len(it.TakenFrom) > maxSession:
		return fmt.Errorf("holder or taken_from has more than %d bytes", maxSession)
	case len(it.Task) > maxTask:
		return fmt.Errorf("task has %d bytes, at most %d: %.80q", len(it.Task), maxTask, it.Task)
	case text > maxMetadata:
		return fmt.Errorf("metadata has %d bytes, at most %d", text, maxMetadata)
	case before == nil:
	case len(before.Session) > maxSession, before.Version < 0, before.Version > mostEver:
		return fmt.Errorf("previous is of version %d, with a session of %d bytes", before.Version, len(before.Session))
	case before.Ended != EndReleased && before.Ended != EndExpired && before.Ended != EndFreed:
		return fmt.Errorf("previous ended as %.80q, want %s, %s or %s", before.Ended, EndReleased, EndExpired, EndFreed)
	}
	return nil
}

// checkBounds returns an error for a pool's item that our writers do not produce.
func (it poolItem) checkBounds() error {
	for name, at := range map[string]*int64{"created_at": it.CreatedAt, "resized_at": it.ResizedAt} {
		if at != nil && !plausible(*at) {
			return fmt.Errorf("%s is %s", name, show(at))
		}
	}
	switch v, m := it.Verdict, it.Measured; {
	case it.OpenGroups > MaxPoolSize/GroupSize:
		return fmt.Errorf("open_groups is %d, at most %d", it.OpenGroups, MaxPoolSize/GroupSize)
	case it.Expect < 0 || int64(it.Expect) > mostEver:
		return fmt.Errorf("expect is %d", it.Expect)
	case len(it.Eras) > maxEras:
		return fmt.Errorf("it has %d eras, at most %d", len(it.Eras), maxEras)
	case v != nil && (!plausible(v.At) || len(v.Region) > maxRegion || len(v.By) > maxSession || len(v.Table) > maxTable):
		return fmt.Errorf("verdict is of %d by %.80q on %.80q in %.80q", v.At, v.By, v.Table, v.Region)
	case m != nil && (!plausible(m.At) || m.Held < 0 || m.Held > MaxPoolSize || m.Cooling < 0 || m.Cooling > MaxPoolSize):
		return fmt.Errorf("measured is %d held and %d cooling at %d", m.Held, m.Cooling, m.At)
	}
	return nil
}

// The names of the attributes that are decoded.
var (
	leaseNames = namesOf(reflect.TypeFor[leaseItem]())
	poolNames  = namesOf(reflect.TypeFor[poolItem]())
)

func namesOf(item reflect.Type) map[string]bool {
	names := map[string]bool{}
	for i := range item.NumField() {
		name, _, _ := strings.Cut(item.Field(i).Tag.Get("dynamodbav"), ",")
		names[name] = true
	}
	return names
}

// nulls returns an error if one of the named attributes is NULL. Such an attribute exists
// for the conditions of writes, and would be read as missing.
func nulls(item attributes, names map[string]bool) error {
	for name, value := range item {
		if _, null := value.(*types.AttributeValueMemberNULL); null && names[name] {
			return fmt.Errorf("%s is NULL", name)
		}
	}
	return nil
}

// Trimmed returns an error if parts of the item were left out on reading.
func Trimmed(item map[string]types.AttributeValue) error {
	if item[trimmed] != nil {
		return errOversized
	}
	return nil
}

var errOversized = errors.New("it is larger than any item of Nodelease: find out who wrote to it, and remove the attributes that docs/items.md does not have")

// Pages bounds the number of items that a Query returns in all its pages. So a server
// cannot make a reader continue forever, and a writer cannot make a reader keep more items
// than the partition may have.
type Pages struct {
	Most int // items
	read int
}

// Next counts the items of a page. It returns an error if there are more than Most items
// so far, or if an empty page is not the last one.
func (p *Pages) Next(page *dynamodb.QueryOutput) error {
	if p.read += len(page.Items); p.read > p.Most {
		// Invariant (liveness): the error is permanent. The items stay there, and every request is
		// answered, so a call that reads again would never end.
		return fmt.Errorf("%w: it has more than %d items, which is more than Nodelease writes: delete what is foreign in it", errForeign, p.Most)
	}
	if len(page.Items) == 0 && len(page.LastEvaluatedKey) > 0 {
		return notDynamoDB("it goes on after nothing")
	}
	return nil
}
