package tenure

import "hash/fnv"

// paperTable has DynamoDB's limits, as far as AWS documents them: a partition does 1,000
// write units and 3,000 read units a second, and an on-demand table begins with four
// partitions. Requests beyond that are throttled at once, and cost nothing. Two things
// that would help are left out: a table's growth, which takes minutes, and burst
// capacity, which a new table has not saved.
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/burst-adaptive-capacity.html
type paperTable struct {
	partitions []paperPartition
}

type paperPartition struct{ write, read bucket }

// bucket gets rate tokens a second, and saves at most those of one second.
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
	t := &paperTable{partitions: make([]paperPartition, partitions)}
	for i := range t.partitions {
		t.partitions[i] = paperPartition{bucket{rate: 1000}, bucket{rate: 3000}}
	}
	return t
}

// of returns the partition of a key. A hash of the key chooses it, as in DynamoDB.
func (t *paperTable) of(key string) *paperPartition {
	h := fnv.New64a()
	h.Write([]byte(key))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return &t.partitions[x%uint64(len(t.partitions))]
}

// limits writes the section on the next limit of a growing fleet.
func (b *paperWriter) limits() {
	b.p("## Which limit comes next\n")
	b.p("The table has the limits of DynamoDB, and how many agents each of them allows. Quotas are AWS's defaults. The quotas of a table and an account can be raised.\n")
	b.p("| of | limit | meaning |\n|---|---|---|")
	b.p("| one partition | 1,000 write units a second | renewals of 5,000 holders, one every 5 s: 19 groups. 1,000 claims, refused ones included |")
	b.p("| | 3,000 read units a second | 3,000 starts that read the pool's item, because no card is usable; 6,000 starts that read one hint card; 2,000 parts of a group, or 315 whole pages; 6,000 polls of the note |")
	b.p("| the pool's item | one partition | at a first start without `Expect`, 3,000 agents a second, and the writes that open groups. Each of these writes at least doubles the number of groups. With cards, only agents that found everything full read the item |")
	b.p("| 16 hint cards | up to 16 partitions | 96,000 starts a second on 16 partitions or more, 24,000 on the 4 of a new table |")
	b.p("| the note | one partition | 6,000 polls a second, which is enough for 96,000 waiting claimants at the longest pause |")
	b.p("| a new table | 4 partitions: 4,000 writes, 12,000 read units a second | 20,000 holders that renew every 5 s, if groups were spread evenly. They are not: about 12,000 |")
	b.p("| a warmed table | what was paid for, up to the quota | 65,528 holders need 13,106 writes a second. Warm 22,000, because the fullest partition is the limit |")
	b.p("| a table's quota | 40,000 write and 40,000 read units a second | 200,000 holders that renew every 5 s: three full pools |")
	b.p("| one account in one Region | 2,500 DescribeTable a second | starts without a [verdict](architecture.md#who-asks-about-the-table), as in pools without the functions. A table on demand has no other limit for the account |")
	b.p("| one pool | 65,536 node IDs | the 16 node bits of the layout that has the most. Larger fleets need several pools |\n")
	b.p("| fleet | what limits it | what helps |\n|---|---|---|")
	b.p("| up to 1,024 | nothing: all groups are open, and one partition has room for all renewals | – |")
	b.p("| up to 12,000 | at the first start, the groups that are open | `Expect` |")
	b.p("| above 12,000 | write units of a new table's fullest partition, by renewals | `Expect` of the construct, which warms the table; or longer leases |")
	b.p("| 65,536 | the size of a pool; writes of a herd, which the table takes in some seconds | more pools |")
	b.p("| 200,000 in one table | its quota of write units | a higher quota, longer leases, or a second table |\n")
}
