package cluster

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
)

// digest is the snapshot that one member keeps for all, so that N members do not
// read N items each. Its item 0 says when it was written and, for each part, the
// hash of what the part holds: half a read unit for each reader and heartbeat.
// The parts, one for each 256 numbers and one for members without, are written
// and read when their hash changes, that is, when members come or go. A part that
// is not what item 0 says is not used: so two writers harm nobody.
type digest struct {
	*Table
	partition string

	mu    sync.Mutex
	beat  int64     // item 0 as seen last: it grows with each writing
	since time.Time // when that was first seen, by this process's own clock
	hash  map[string]string
	parts map[string]part
}

// part is a part of the digest as read.
type part struct {
	hash    string
	members []Member
}

// nodesPart has the members without a lease.
const nodesPart = protocol.MaxPoolSize / protocol.GroupSize

// partOf is the part that has a member.
func partOf(m Member) int {
	if m.Number == NoNumber {
		return nodesPart
	}
	return m.Number / protocol.GroupSize
}

// read gives the members by the digest, if it is fresh: written again within the
// last time-out, by the reader's own clock. The first look only begins to count.
func (d *digest) read(ctx context.Context, b Beat) (members []Member, fresh bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	began := d.beat
	item, err := d.get(ctx, 0, false)
	if err != nil {
		return nil, false, err
	}
	if at := number(item["beat"]); at != d.beat {
		d.beat, d.since = at, time.Now()
	}
	d.hash = hashes(item["parts"])
	if began == 0 || d.beat == 0 || time.Since(d.since) > b.Timeout {
		return nil, false, nil
	}
	parts := make(map[string]part, len(d.hash))
	// Whoever is in it had a heartbeat within the time-out before it was written.
	heard := time.UnixMilli(number(item["written_at"])).Add(-b.Timeout).UTC()
	for name, hash := range d.hash {
		p, ok := d.parts[name]
		if !ok || p.hash != hash {
			if p, err = d.part(ctx, name); err != nil {
				return nil, false, err
			}
			if p.hash != hash {
				return nil, false, nil
			}
		}
		parts[name] = p
		for _, m := range p.members {
			m.Heartbeat = heard
			members = append(members, m)
		}
	}
	d.parts = parts
	return members, true, nil
}

// write writes the parts that have changed, and then item 0. If another member
// writes too, the second one's item 0 is refused; that is no error.
func (d *digest) write(ctx context.Context, b Beat, members []Member, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.beat == 0 { // not known what is there
		item, err := d.get(ctx, 0, true)
		if err != nil {
			return err
		}
		d.beat, d.hash = number(item["beat"]), hashes(item["parts"])
	}
	names, contents, err := split(members)
	if err != nil {
		return err
	}
	hash := map[string]string{}
	for _, name := range names {
		sum := sha256.Sum256(contents[name])
		hash[name] = base64.RawURLEncoding.EncodeToString(sum[:12])
		if hash[name] == d.hash[name] {
			continue
		}
		packed, err := pack(contents[name])
		if err != nil {
			return err
		}
		if _, err := d.update(ctx, d.partition, position(name), "SET content_hash = :hash, members = :members", "", attributes{
			":hash": str(hash[name]), ":members": str(packed),
		}); err != nil {
			return err
		}
	}
	listed := attributes{}
	for name, h := range hash {
		listed[name] = str(h)
	}
	values := attributes{
		":beat": num(d.beat + 1), ":seen": num(d.beat), ":now": num(now.UnixMilli()), ":session": str(b.Self.SessionID),
		":parts": &types.AttributeValueMemberM{Value: listed},
	}
	item, err := d.update(ctx, d.partition, 0, "SET beat = :beat, written_at = :now, session_id = :session, parts = :parts",
		"attribute_not_exists(beat) OR beat = :seen", values)
	if err != nil {
		return err
	}
	d.beat, d.since, d.hash = number(item["beat"]), time.Now(), hash // 0 when refused: look again
	return nil
}

// split gives what the parts hold, the same for the same members: heartbeats,
// which change all the time, are left out.
func split(members []Member) (names []string, contents map[string][]byte, err error) {
	byPart := map[string][]Member{}
	for _, m := range members {
		m.Heartbeat = time.Time{}
		name := strconv.Itoa(partOf(m))
		byPart[name] = append(byPart[name], m)
	}
	contents = map[string][]byte{}
	for name, all := range byPart {
		slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.SessionID, b.SessionID) })
		if contents[name], err = json.Marshal(all); err != nil {
			return nil, nil, err
		}
	}
	return slices.Sorted(maps.Keys(contents)), contents, nil
}

// part reads one.
func (d *digest) part(ctx context.Context, name string) (p part, err error) {
	item, err := d.get(ctx, position(name), true)
	if err != nil || item == nil {
		return p, err
	}
	content, err := unpack(text(item["members"]))
	if err == nil {
		err = json.Unmarshal(content, &p.members)
	}
	if err != nil {
		return part{}, fmt.Errorf("cluster: part %s of the digest in table %q: %w", name, d.table, err)
	}
	p.hash = text(item["content_hash"])
	return p, nil
}

func (d *digest) get(ctx context.Context, node int64, strong bool) (attributes, error) {
	out, err := d.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &d.table, Key: key(d.partition, node), ConsistentRead: aws.Bool(strong)})
	if err != nil {
		return nil, fmt.Errorf("cluster: GetItem of %s %d in table %q: %w", d.partition, node, d.table, err)
	}
	return out.Item, nil
}

// position is a part's sort key; item 0 comes before them.
func position(name string) int64 {
	n, _ := strconv.ParseInt(name, 10, 64)
	return n + 1
}

func hashes(av types.AttributeValue) map[string]string {
	all := map[string]string{}
	if m, ok := av.(*types.AttributeValueMemberM); ok {
		for name, hash := range m.Value {
			all[name] = text(hash)
		}
	}
	return all
}

// pack makes a part small: what members say of themselves is much alike.
func pack(content []byte) (string, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

func unpack(packed string) ([]byte, error) {
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(z)
	return b.Bytes(), err
}
