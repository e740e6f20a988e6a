package protocol

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ReaperMemory is the item in which a pool's reaper keeps its last scan of the pool from
// one run to the next: partition "<pool>#reaper", node ID 0. Losing it is always safe:
// the reaper starts over.
type ReaperMemory struct {
	Pool string
	// Revision is a unique text that every write replaces; empty if nothing was
	// ever stored.
	Revision string
	Look     *ReaperLook // nil: no scan is stored
}

// ReaperLook is one scan of all leases of a pool in which every request was
// answered.
type ReaperLook struct {
	Ended time.Time     // when the last answer came
	Wait  time.Duration // how long after Ended the next scan may be counted
	// Count is how many scans have found the candidates unchanged, including this one.
	Count  int
	Held   int
	Braked bool // implausibly many candidates were unchanged at the same time
	// Candidates are the leases that the scan found due, as encoded by leasepool: at most
	// 6 bytes each, so that the candidates of the largest pool fit into an item.
	Candidates string
}

// Next returns the earliest time at which another scan is counted.
func (l ReaperLook) Next() time.Time { return l.Ended.Add(l.Wait) }

// MemoryWrite is one conditional write of a reaper's memory; see [Write].
type MemoryWrite interface {
	PoolName() string
	Apply(old ReaperMemory) (ReaperMemory, bool)
}

// Remember replaces the content of the memory at revision Seen. Without a Look, it removes
// the stored scan: of several reapers that want to act on that scan, only one can remove
// it.
type Remember struct {
	Pool      string
	Seen, New string // Seen is empty if there was no memory
	Look      *ReaperLook
}

// PoolName implements [MemoryWrite].
func (w Remember) PoolName() string { return w.Pool }

// Apply implements [MemoryWrite].
func (w Remember) Apply(old ReaperMemory) (ReaperMemory, bool) {
	if old.Revision != w.Seen {
		return ReaperMemory{}, false
	}
	m := ReaperMemory{Pool: w.Pool, Revision: w.New}
	if w.Look != nil {
		l := *w.Look
		l.Ended, l.Wait = Trunc(l.Ended), l.Wait.Truncate(time.Millisecond)
		m.Look = &l
	}
	return m, true
}

// Forget clears the memory, whatever its content. It is for a memory that is corrupt, and
// therefore has no revision to replace.
type Forget struct{ Pool, New string }

// PoolName implements [MemoryWrite].
func (w Forget) PoolName() string { return w.Pool }

// Apply implements [MemoryWrite].
func (w Forget) Apply(ReaperMemory) (ReaperMemory, bool) {
	return ReaperMemory{Pool: w.Pool, Revision: w.New}, true
}

const forgetLook = "REMOVE looked_at, look_wait, look_count, look_held, look_braked, candidates"

// A memory is replaced only by a reaper that has read it. Revisions never recur (unless a
// Forget is replayed), so a replayed write is refused, and so is the second of two
// concurrent writes.
func (w Remember) update() update {
	u := update{onlyIf: "revision = :seen", values: attributes{":new": str(w.New), ":seen": str(w.Seen)}}
	if w.Seen == "" {
		u.onlyIf = "attribute_not_exists(revision)"
		delete(u.values, ":seen")
	}
	if w.Look == nil {
		u.set = "SET revision = :new " + forgetLook
		return u
	}
	u.set = "SET revision = :new, looked_at = :at, look_wait = :wait, look_count = :count, look_held = :held, look_braked = :braked, candidates = :candidates"
	u.values[":at"], u.values[":wait"] = millis(w.Look.Ended), num(w.Look.Wait.Milliseconds())
	u.values[":count"], u.values[":held"], u.values[":braked"] = num(w.Look.Count), num(w.Look.Held), boolean(w.Look.Braked)
	u.values[":candidates"] = str(w.Look.Candidates)
	return u
}

// Forget has no condition, since nothing in a corrupt memory can be relied on. If a Forget
// is replayed, it brings back its revision.
func (w Forget) update() update {
	return update{set: "SET revision = :new " + forgetLook, values: attributes{":new": str(w.New)}}
}

type memoryItem struct {
	Revision   *string `dynamodbav:"revision"`
	At         *int64  `dynamodbav:"looked_at"`
	Wait       int64   `dynamodbav:"look_wait"`
	Count      int     `dynamodbav:"look_count"`
	Held       int     `dynamodbav:"look_held"`
	Braked     bool    `dynamodbav:"look_braked"`
	Candidates string  `dynamodbav:"candidates"`
}

// mostWait bounds the Wait of a scan: twice the longest lease.
const mostWait = 2 * MaxTTL

// mostCandidates is the length of the candidates of the largest pool.
const mostCandidates = 6 * MaxPoolSize

// decodeMemory decodes a reaper's memory; every defect is a *CorruptError.
func decodeMemory(pool string, av attributes) (ReaperMemory, error) {
	var it memoryItem
	corrupt := func(err error) (ReaperMemory, error) {
		return ReaperMemory{}, &CorruptError{Pool: pool, NodeID: poolNode, Err: fmt.Errorf("reaper's memory: %w", err)}
	}
	if err := errors.Join(Trimmed(av), attributevalue.UnmarshalMap(av, &it)); err != nil {
		return corrupt(err)
	}
	// If the revision could not be used in a condition, no reaper could ever write again.
	if _, isText := av["revision"].(*types.AttributeValueMemberS); !isText || *it.Revision == "" {
		return corrupt(errors.New("revision is missing or not a text"))
	}
	if len(*it.Revision) > maxSession {
		return corrupt(fmt.Errorf("revision has %d bytes, at most %d", len(*it.Revision), maxSession))
	}
	m := ReaperMemory{Pool: pool, Revision: *it.Revision}
	if it.At == nil {
		return m, nil
	}
	if !plausible(*it.At) || it.Wait < 0 || it.Wait > mostWait.Milliseconds() || it.Count < 1 || it.Count > 2 || it.Held < 0 || it.Held > MaxPoolSize || len(it.Candidates) > mostCandidates {
		return corrupt(fmt.Errorf("looked_at %d, look_wait %d, look_count %d or look_held %d is out of range", *it.At, it.Wait, it.Count, it.Held))
	}
	m.Look = &ReaperLook{
		Ended: fromMS(it.At), Wait: time.Duration(it.Wait) * time.Millisecond,
		Count: it.Count, Held: it.Held, Braked: it.Braked, Candidates: it.Candidates,
	}
	return m, nil
}

// memoryKey returns the table's key of a reaper's memory.
func memoryKey(pool string) attributes { return rawKey(pool+"#reaper", 0) }
