// Package blockclient is the reference implementation of the clients that draw blocks from
// the sidecar and hand out IDs themselves, as docs/protocol-clients.md describes. Only tests
// and the composed world use it; Go programs use pkg/lease.
package blockclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// A Client hands out the IDs of its blocks. It is not safe for concurrent use, and must not
// be copied, because the copy would hand out the same IDs.
type Client struct {
	Send  func(*http.Request) (*http.Response, error)
	Clock snowflake.Clock
	Name  string        // distinguishes this client from the other clients of the sidecar
	Nonce func() string // returns a new value each time
	Want  int           // how many IDs a block should have

	block  snowflake.Run
	next   uint64
	mono   time.Duration // with wall: the clocks before the block was requested
	wall   time.Time
	blocks int
}

// ErrNotOurs is the error for an answer that belongs to another request.
var ErrNotOurs = errors.New("blockclient: the answer belongs to another request")

// Blocks returns how many blocks the client has had.
func (c *Client) Blocks() int { return c.blocks }

// Left returns how many IDs the block still has.
func (c *Client) Left() int { return int(c.block.Count - c.next) } //nolint:gosec // a block is short

// Next returns an ID from the block, or from a new block if the current one is used up or
// too old.
func (c *Client) Next(ctx context.Context) (snowflake.ID, error) {
	for range 3 { // a block that took too long to arrive is useless
		// The clocks are read before the ID is taken, so only a pause in between can make an
		// ID older than its deadline.
		if c.next < c.block.Count && !c.over() {
			c.next++
			return c.block.ID(c.next - 1), nil
		}
		if err := c.fetch(ctx); err != nil {
			return 0, err
		}
	}
	return 0, context.DeadlineExceeded
}

// over reports whether the block's time is over by either clock. It is also over if the wall
// clock went back, since that may hide a suspend of the machine.
func (c *Client) over() bool {
	wall := c.Clock.Wall().Sub(c.wall)
	return c.Clock.Monotonic()-c.mono >= c.block.Left || wall >= c.block.Left || wall < 0
}

// fetch requests a block. Before that it drops the previous block, even if the request
// fails, so that the client never has two.
func (c *Client) fetch(ctx context.Context) error {
	c.block, c.next = snowflake.Run{}, 0
	// The clocks are read before the request is sent. The sidecar computes the time left
	// later than that, so the client stops early, never late.
	mono, wall, nonce := c.Clock.Monotonic(), c.Clock.Wall(), c.Nonce()
	query := url.Values{"client": {c.Name}, "nonce": {nonce}, "n": {strconv.Itoa(max(c.Want, 1))}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/v1/blocks?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := c.Send(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("blockclient: %d: %s", response.StatusCode, text)
	}
	var b struct {
		Nonce    string `json:"nonce"`
		NodeID   int    `json:"node_id"`
		NodeBits int    `json:"node_bits"`
		First    uint64 `json:"first,string"`
		Count    uint64 `json:"count"`
		LeftMS   int64  `json:"left_ms"`
		Layout   struct {
			EpochMS      int64 `json:"epoch_ms"`
			TickMS       int64 `json:"tick_ms"`
			TimeBits     uint8 `json:"time_bits"`
			NodeBits     uint8 `json:"node_bits"`
			SequenceBits uint8 `json:"sequence_bits"`
			NodeLast     bool  `json:"node_last"`
		} `json:"layout"`
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	// Another nonce means that a proxy kept the answer, or that the answer belongs to an
	// earlier request, so its IDs may have been used.
	if b.Nonce != nonce {
		return ErrNotOurs
	}
	layout := snowflake.Layout{
		Epoch: time.UnixMilli(b.Layout.EpochMS).UTC(), Tick: time.Duration(b.Layout.TickMS) * time.Millisecond,
		TimeBits: b.Layout.TimeBits, NodeBits: b.Layout.NodeBits, SequenceBits: b.Layout.SequenceBits, NodeLast: b.Layout.NodeLast,
	}
	if err := layout.Validate(); err != nil {
		return err
	}
	c.block = snowflake.Run{Layout: layout, NodeID: b.NodeID, NodeBits: b.NodeBits, First: b.First, Count: b.Count, Left: time.Duration(b.LeftMS) * time.Millisecond}
	c.mono, c.wall, c.blocks = mono, wall, c.blocks+1
	return nil
}
