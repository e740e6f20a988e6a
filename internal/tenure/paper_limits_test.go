package tenure

import "hash/fnv"

// DynamoDB's limits, as far as AWS documents them: a partition does 1,000 write units and
// 3,000 read units a second, and a table on demand begins with four of them; the
// account may call DescribeTable 2,500 times a second. More than that is throttled
// at once, which costs nothing. Two things that would help are left out: a table's
// growth, which takes minutes, and burst capacity, which a new table has not saved.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/burst-adaptive-capacity.html
type paperTable struct {
	partitions []paperPartition
	describe   bucket
}

type paperPartition struct{ write, read bucket }

// bucket has so many tokens a second, and never saves more than for one second.
type bucket struct {
	rate, tokens float64
	at           int64 // ms
}

func (b *bucket) take(now int64, n float64) bool {
	b.tokens = min(b.rate, b.tokens+float64(now-b.at)*b.rate/1000)
	b.at = now
	if b.tokens < n {
		return false
	}
	b.tokens -= n
	return true
}

func newPaperTable(partitions int) *paperTable {
	t := &paperTable{partitions: make([]paperPartition, partitions), describe: bucket{rate: 2500}}
	for i := range t.partitions {
		t.partitions[i] = paperPartition{bucket{rate: 1000}, bucket{rate: 3000}}
	}
	return t
}

// of is the partition of a key; which one is a matter of its hash, as there.
func (t *paperTable) of(key string) *paperPartition {
	h := fnv.New64a()
	h.Write([]byte(key))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return &t.partitions[x%uint64(len(t.partitions))]
}
