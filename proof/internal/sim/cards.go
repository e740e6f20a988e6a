package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// cardsFor is how old a hint card may be. Nothing may depend on a card's age. In a world
// with the part "cards", a read may return a card as it was up to cardsFor ago, or no card
// if there was none at that time. Writes of cards may be applied late, after newer ones, or
// twice. These faults continue after the other faults have ended.
const cardsFor = 15 * time.Minute

var cardKeys = regexp.MustCompile(`"` + poolName + `#card#[0-9]+"`)

// cards decides how the network treats requests for hint cards.
type cards struct {
	mu   sync.Mutex
	dice *rand.Rand
	past map[string][]shown // by key: the answers to reads, each with the time from which it was correct
}

func newCards(seed uint64) *cards {
	return &cards{dice: rand.New(rand.NewPCG(seed, 15)), past: map[string][]shown{}}
}

// old returns, for half of the reads, the answer as of an earlier time, which it draws. For
// the other half it returns nil, and the network reads the current card.
func (c *cards) old(key string) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(-time.Duration(c.dice.Int64N(int64(cardsFor))))
	if c.dice.IntN(2) == 0 {
		return nil
	}
	was := missing()
	for _, s := range c.past[key] {
		if s.at.After(at) {
			break
		}
		was = s.answer
	}
	return was
}

// missing returns the answer to a read of a card that was never written.
func missing() *answer {
	a := newAnswer()
	a.body = []byte("{}")
	a.header = http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amzn-Requestid": {"CARD"}, "X-Amz-Crc32": {checksum(a.body)}}
	return a
}

// wrote records the answer that reads of a card return from now on.
func (c *cards) wrote(key string, is *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.past[key] = append(c.past[key], shown{time.Now(), is})
}

// fate draws whether a write of a card is applied now, and after how long it is applied
// again; 0 means that it is not.
func (c *cards) fate() (now bool, again time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	again = time.Duration(c.dice.Int64N(int64(cardsFor)))
	switch c.dice.IntN(8) {
	case 0:
		return false, again
	case 1, 2:
		return true, again
	}
	return true, 0
}

// card handles a request for a hint card, in place of do. It returns false if the request is
// for something else. If the answer is nil, the sender receives no answer.
func (n *network) card(c *call) (a *answer, ok bool) {
	key := string(cardKeys.Find(c.body))
	if !n.Plan.has("cards") || key == "" {
		return nil, false
	}
	if !c.writes() {
		if a = n.cards.old(key); a != nil {
			n.count(func(c *Counts) { c.OldCards++ })
			return a, true
		}
		return n.do(c), true
	}
	now, again := n.cards.fate()
	if again > 0 {
		n.calls.Add(1) // allowed, since the count cannot be 0: carry has added 1 and not yet taken it back
		go func() {
			defer n.calls.Done()
			if sleep(n.ctx, again) == nil {
				n.count(func(c *Counts) { c.LateCards++ })
				n.writeCard(c, key)
			}
		}()
	}
	if !now {
		return nil, true
	}
	return n.writeCard(c, key), true
}

func (n *network) writeCard(c *call, key string) *answer {
	a := n.do(c)
	header := c.header.Clone()
	header.Set("X-Amz-Target", "DynamoDB_20120810.GetItem")
	read := &call{c.host, header, fmt.Appendf(nil, `{"TableName":%q,"Key":{"pool_group":{"S":%s},"node_id":{"N":"0"}}}`, tableName, key)}
	n.cards.wrote(key, n.do(read))
	return a
}

// judgeCard checks that no hint card is ever replaced by an older copy of the pool's item.
func (w *World) judgeCard(partition string, item map[string]json.RawMessage) {
	var is [3]int64
	for i, name := range []string{"revision", "vouched_at", "measured_at"} {
		is[i], _ = strconv.ParseInt(text(item[name]), 10, 64)
	}
	was := w.copied[partition]
	for i := range is {
		if is[i] < was[i] {
			w.fail(fmt.Errorf("hint card %s has revision, verdict and count %v, and had %v: an older copy has replaced a newer one", partition, is, was))
		}
		if is[i] != was[i] {
			break
		}
	}
	w.copied[partition] = is
}

// judgeExhausted checks that no start gives up because of a hint card alone: a claimant that
// finds no node ID must have read the pool's item, which may allow more node IDs.
func (p *process) judgeExhausted() {
	p.network.mu.Lock()
	read := p.network.strong[p.host]
	p.network.mu.Unlock()
	if read.Before(p.born) && !p.isDead() {
		p.World.fail(fmt.Errorf("process %d found the pool exhausted without a strong read of its item", p.number))
	}
}

// answered records the time of a machine's last strong read of the pool's item.
func (n *network) answered(c *call) {
	if c.is("GetItem") && strongItem.Match(c.body) {
		n.mu.Lock()
		n.strong[c.host] = time.Now()
		n.mu.Unlock()
	}
}

var strongItem = regexp.MustCompile(`"ConsistentRead":true.*"` + poolName + `"`)

// otherRegion is the Region in which the table is a replica that is not safe.
const otherRegion = "eu-west-1"

// abroad starts agents now and then in another Region, where the table has replicas with
// eventual consistency. Every such start must fail, whatever verdict on the table the pool's
// item and its cards contain.
func (w *World) abroad(ctx context.Context) {
	m := w.newMachine()
	w.network.isAbroad(m.host)
	for sleep(ctx, m.upTo(4*time.Minute)) == nil {
		p := &process{machine: m, number: 0, dead: make(chan struct{}), region: otherRegion}
		unchecked := false
		cfg := lease.Config{Pool: poolName, Store: lease.NewDynamoDB(p.client(), tableName), Logger: silent, Wait: m.upTo(20 * time.Second)}
		cfg.OnEvent = func(e lease.Event) { unchecked = unchecked || errors.Is(e.Err, protocol.ErrUnchecked) }
		a, err := lease.Start(ctx, cfg)
		if errors.Is(err, lease.ErrUnsafeReplication) {
			w.count(func(c *Counts) { c.Abroad++ })
		}
		if err != nil {
			continue
		}
		node := a.NodeID()
		_ = a.Close() // no event comes after Close
		if !unchecked {
			w.fail(fmt.Errorf("an agent has started on a replica with eventual consistency, with node %d", node))
		}
	}
}

// isAbroad makes a machine use the table of another Region.
func (n *network) isAbroad(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.foreign = host
}

// seenFrom returns the answer to a call as the machine that sent the call receives it.
func (n *network) seenFrom(c *call, a *answer) *answer {
	n.mu.Lock()
	foreign := n.foreign
	n.mu.Unlock()
	if c.host != foreign || !c.is("DescribeTable") || a.status != http.StatusOK {
		return a
	}
	b := newAnswer()
	b.header, b.body = a.header.Clone(), tableField.ReplaceAll(a.body, []byte(`"Table":{"Replicas":[{"RegionName":"eu-central-1"}],`))
	b.header.Set("X-Amz-Crc32", checksum(b.body))
	return b
}

var tableField = regexp.MustCompile(`"Table":\{`)
