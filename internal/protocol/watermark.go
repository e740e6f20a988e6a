package protocol

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Watermark has the values of a node ID that no write of this package lowers: its version,
// and a time below which its reserved_until never falls. While the node ID is not held,
// that time is reserved_until itself. While it is held, the time is not_before, since an
// abandoned claim sets reserved_until back to not_before, and a release sets it to
// not_before or later. So a watermark changes when the holder changes, and not with a
// renewal.
type Watermark struct {
	Version int64
	Until   int64 // milliseconds
}

// WatermarkOf returns the watermark of a lease in its current state.
func WatermarkOf(l Lease) Watermark {
	w := Watermark{l.Version, l.ReservedUntil.UnixMilli()}
	if l.Holder != "" {
		w.Until = min(w.Until, l.NotBefore.UnixMilli())
	}
	return w
}

// Max returns the larger version and the later time of both watermarks.
func (w Watermark) Max(o Watermark) Watermark {
	return Watermark{max(w.Version, o.Version), max(w.Until, o.Until)}
}

// Broken describes the attribute of l that went back since w was taken; empty if none did.
func (w Watermark) Broken(l Lease) string {
	switch {
	case l.Version < w.Version:
		return fmt.Sprintf("version went back from %d to %d", w.Version, l.Version)
	case l.ReservedUntil.UnixMilli() < w.Until:
		return fmt.Sprintf("reserved_until went back from %s or later to %s", Stamp(time.UnixMilli(w.Until)), Stamp(l.ReservedUntil))
	case l.Holder != "" && l.Version > w.Version && l.NotBefore.UnixMilli() < w.Until:
		return fmt.Sprintf("its span begins at %s, and %s was reserved before", Stamp(l.NotBefore), Stamp(time.UnixMilli(w.Until)))
	}
	return ""
}

// PoolWatermark has the values of a pool's own item that no write of this package lowers.
type PoolWatermark struct {
	Revision, Floor, Try int64
	Eras                 string // oldest first; later eras are only appended
}

// PoolWatermarkOf returns the watermark of a pool in its current state.
func PoolWatermarkOf(p PoolItem) PoolWatermark {
	w := PoolWatermark{Revision: p.Revision, Floor: max(p.Floor.UnixMilli(), 0), Try: p.Widening.Try}
	for _, e := range p.Eras {
		w.Eras += fmt.Sprintf("%d/%d,", e.From.UnixMilli(), e.NodeBits)
	}
	return w
}

// Broken describes the value of a pool that went back since w was taken; empty if none did.
func (w PoolWatermark) Broken(p PoolItem) string {
	now := PoolWatermarkOf(p)
	switch {
	case now.Revision < w.Revision:
		return fmt.Sprintf("revision went back from %d to %d", w.Revision, now.Revision)
	case now.Floor < w.Floor:
		return fmt.Sprintf("floor went back from %s to %s", Stamp(time.UnixMilli(w.Floor)), Stamp(p.Floor))
	case now.Try < w.Try:
		return fmt.Sprintf("widen_try went back from %d to %d", w.Try, now.Try)
	case !strings.HasPrefix(now.Eras, w.Eras):
		return fmt.Sprintf("eras were changed: %s is no continuation of %s", now.Eras, w.Eras)
	}
	return ""
}

// Watermarks has the watermarks of a pool's own item and of its node IDs.
type Watermarks struct {
	Pool  *PoolWatermark // nil: none was taken
	Nodes map[int]Watermark
}

// watermarks is the attribute that stores watermarks as text. The items with this attribute
// are in the partition of the reaper's memory. Their sort key is 1 + group for the node IDs
// of a group, and -1 for the pool.
const watermarks = "watermarks"

// ReadWatermarks reads the watermarks of a pool, strongly consistent. It leaves out
// watermarks that it cannot decode: the next scan of the reaper takes them again.
func (d *DynamoDB) ReadWatermarks(ctx context.Context, pool string) (Watermarks, error) {
	all := Watermarks{Nodes: map[int]Watermark{}}
	err := d.partition(ctx, pool+"#reaper", 2+MaxPoolSize/GroupSize, all.decode)
	return all, err
}

// mostWatermarks bounds the text of a group's watermarks, in bytes.
const mostWatermarks = 16 << 10

func (all *Watermarks) decode(av attributes) {
	text, ok := av[watermarks].(*types.AttributeValueMemberS)
	node, err := strconv.Atoi(numberOf(av[sortKey]))
	if !ok || err != nil || len(text.Value) > mostWatermarks {
		return
	}
	if node == poolNode {
		var p PoolWatermark
		if n, _ := fmt.Sscanf(text.Value, "%d %d %d", &p.Revision, &p.Floor, &p.Try); n == 3 {
			if fields := strings.Fields(text.Value); len(fields) == 4 {
				p.Eras = fields[3]
			}
			all.Pool = &p
		}
		return
	}
	if node < 1 || node > MaxPoolSize/GroupSize {
		return
	}
	for one := range strings.FieldsSeq(text.Value) {
		parts := strings.Split(one, ".")
		if len(parts) != 3 {
			return
		}
		n, err1 := strconv.ParseInt(parts[0], 36, 32)
		version, err2 := strconv.ParseInt(parts[1], 36, 64)
		until, err3 := strconv.ParseInt(parts[2], 36, 64)
		if err1 != nil || err2 != nil || err3 != nil || n < 0 || n >= GroupSize || version < 0 || version > mostEver || !plausible(until) {
			return
		}
		all.Nodes[(node-1)*GroupSize+int(n)] = Watermark{version, until}
	}
}

// WriteWatermarks replaces the watermarks of a group. The write has no condition, so of two
// reapers, the second may write older watermarks. With older watermarks, less is noticed,
// but nothing is reported falsely.
func (d *DynamoDB) WriteWatermarks(ctx context.Context, pool string, group int, marks map[int]Watermark) error {
	nodes := make([]int, 0, len(marks))
	for n := range marks {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	var b strings.Builder
	for _, n := range nodes {
		m := marks[n]
		fmt.Fprintf(&b, "%s.%s.%s ", strconv.FormatInt(int64(n%GroupSize), 36), strconv.FormatInt(m.Version, 36), strconv.FormatInt(m.Until, 36))
	}
	return d.putWatermarks(ctx, pool, 1+group, b.String())
}

// WritePoolWatermark replaces the watermark of a pool's own item.
func (d *DynamoDB) WritePoolWatermark(ctx context.Context, pool string, w PoolWatermark) error {
	return d.putWatermarks(ctx, pool, poolNode, fmt.Sprintf("%d %d %d %s", w.Revision, w.Floor, w.Try, w.Eras))
}

func (d *DynamoDB) putWatermarks(ctx context.Context, pool string, node int, text string) error {
	_, err := Checked(ctx, d.client).UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &d.table, Key: rawKey(pool+"#reaper", node),
		UpdateExpression: aws.String("SET " + watermarks + " = :text"), ExpressionAttributeValues: attributes{":text": str(text)},
	}, once)
	return explain(err, "UpdateItem", d.table)
}
