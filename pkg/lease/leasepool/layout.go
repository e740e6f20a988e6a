package leasepool

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// named are the layouts of package snowflake with the names under which pools, the CLI and
// the sidecar know them.
var named = []struct {
	name   string
	layout func() snowflake.Layout
}{
	{"default", snowflake.Default}, {"wide16", snowflake.Wide16}, {"js53", snowflake.JS53},
	{"twitter", snowflake.Twitter}, {"discord", snowflake.Discord}, {"sonyflake", snowflake.Sonyflake},
}

// LayoutNames returns the names that [ParseLayout] accepts.
func LayoutNames() []string {
	var names []string
	for _, n := range named {
		names = append(names, n.name)
	}
	return names
}

// ParseLayout returns the layout that text describes. text is a name from [LayoutNames],
// or the numbers of bits T/N/S for time, node and sequence, such as 40/3/10. In the
// second case, the layout has the default epoch and a tick of 1 ms.
func ParseLayout(text string) (snowflake.Layout, error) {
	for _, n := range named {
		if n.name == text {
			return n.layout(), nil
		}
	}
	bits := strings.Split(text, "/")
	if len(bits) != 3 {
		return snowflake.Layout{}, fmt.Errorf("layout %s: use %s, or bits such as 40/3/10", text, strings.Join(LayoutNames(), ", "))
	}
	var width [3]uint8
	for i := range bits {
		n, err := strconv.ParseUint(bits[i], 10, 8)
		if err != nil {
			return snowflake.Layout{}, fmt.Errorf("layout %s: %q is not a number of bits", text, bits[i])
		}
		width[i] = uint8(n)
	}
	l := snowflake.Default()
	l.TimeBits, l.NodeBits, l.SequenceBits = width[0], width[1], width[2]
	return l, l.Validate()
}

// LayoutName returns a text for which [ParseLayout] returns l, or a description of l if
// there is no such text.
func LayoutName(l snowflake.Layout) string {
	stored := protocol.LayoutOf(l)
	for _, n := range named {
		if protocol.LayoutOf(n.layout()) == stored {
			return n.name
		}
	}
	bits := fmt.Sprintf("%d/%d/%d", l.TimeBits, l.NodeBits, l.SequenceBits)
	if same, err := ParseLayout(bits); err == nil && protocol.LayoutOf(same) == stored {
		return bits
	}
	order := "node above sequence"
	if l.NodeLast {
		order = "node last"
	}
	return fmt.Sprintf("%s of %v from %s, %s", bits, l.Tick, l.Epoch.UTC().Format(time.RFC3339Nano), order)
}

// holds returns an error if a layout has too few node bits for a pool of the given size.
func holds(l protocol.IDLayout, size int) error {
	if nodes := l.Snowflake().Nodes(); size > nodes {
		return fmt.Errorf("size %d does not fit the layout %s, whose %d node bits hold %d: use at most %d, or seed another pool with a layout such as wide16 and move the fleet there",
			size, LayoutName(l.Snowflake()), l.NodeBits, nodes, nodes)
	}
	return nil
}

// fitsLayout calls holds for the layout of a pool, and for the layout to which an
// interrupted set-layout may have to return. It returns nil if the pool has no layout yet.
func fitsLayout(p protocol.PoolItem, size int) error {
	for _, l := range []*protocol.IDLayout{p.Layout, p.LayoutBefore} {
		if l == nil {
			continue
		}
		if err := holds(*l, size); err != nil {
			return fmt.Errorf("lease: resize of pool %q: %w", p.Pool, err)
		}
	}
	return nil
}

// otherLayout reports whether s requests a layout that differs from the pool's.
func (s Spec) otherLayout(p protocol.PoolItem) bool {
	return s.Layout != (snowflake.Layout{}) && p.Layout != nil && *p.Layout != protocol.LayoutOf(s.Layout)
}

// bindLayout gives an existing pool the layout that a seed requests, if the pool has no
// layout.
func (p *Pool) bindLayout(ctx context.Context, c *Changes, l snowflake.Layout) error {
	if l == (snowflake.Layout{}) {
		return nil
	}
	item, err := bindLayout(ctx, p.table(), c.Pool, &l)
	if err == nil {
		c.Pool = item
	}
	return err
}

// bindLayout is [siblings.BindLayout].
func bindLayout(ctx context.Context, s protocol.Store, item protocol.PoolItem, want *snowflake.Layout) (protocol.PoolItem, error) {
	bind := snowflake.Default()
	if want != nil {
		bind = *want
	}
	if item.Layout == nil && item.LayoutBefore == nil {
		if item.Size > bind.Nodes() {
			return item, fmt.Errorf("lease: pool %q of size %d has no layout yet, and %s holds only %d node IDs: bind a layout with more node bits, such as wide16, with the seed of the pool or with set-layout",
				item.Pool, item.Size, LayoutName(bind), bind.Nodes())
		}
		res, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.PoolResult, error) {
			return s.WritePool(ctx, protocol.BindLayout{Pool: item.Pool, Layout: protocol.LayoutOf(bind)})
		})
		if err != nil {
			return item, err
		}
		if res.Pool == nil {
			return item, fmt.Errorf("lease: pool %q vanished while its layout was bound", item.Pool)
		}
		item = *res.Pool
	}
	switch {
	case item.LayoutBefore != nil:
		return item, fmt.Errorf("lease: an operator is changing the layout of pool %q from %s: run set-layout again to end that", item.Pool, LayoutName(item.LayoutBefore.Snowflake()))
	case item.Layout == nil:
		return item, fmt.Errorf("lease: pool %q has no layout: it was resized to %d at the same time; try again", item.Pool, item.Size)
	case want != nil && *item.Layout != protocol.LayoutOf(*want):
		return item, fmt.Errorf("lease: the IDs of pool %q have the layout %s, not %s: two layouts in one pool make equal IDs; leave the layout out, or use another pool",
			item.Pool, LayoutName(item.Layout.Snowflake()), LayoutName(*want))
	}
	return item, nil
}

// SetLayout sets the layout of a pool that has none, or corrects the layout of a pool if
// none of its node IDs was ever claimed. Otherwise the layout stays unchanged and SetLayout
// returns an error, since IDs with this layout may exist.
//
// An agent reads the layout after its claim. So either SetLayout finds the claim and
// keeps the layout, or the agent finds no layout and makes no IDs until SetLayout has
// finished.
func (p *Pool) SetLayout(ctx context.Context, l snowflake.Layout) (item Item, err error) {
	if err := p.absent(); err != nil {
		return item, err
	}
	item, err = p.setLayout(ctx, l)
	if err == nil {
		p.tryPublish(ctx, item)
	}
	return item, err
}

func (p *Pool) setLayout(ctx context.Context, l snowflake.Layout) (item Item, err error) {
	if err := l.Validate(); err != nil {
		return item, err
	}
	if item, err = p.item(ctx); err != nil {
		return item, err
	}
	if err := holds(protocol.LayoutOf(l), item.Size); err != nil {
		return item, fmt.Errorf("lease: pool %q: %w", p.Name, err)
	}
	if item.Layout == nil && item.LayoutBefore == nil {
		return bindLayout(ctx, p.table(), item, &l)
	}
	if item.Layout != nil {
		if *item.Layout == protocol.LayoutOf(l) {
			return item, nil
		}
		if item.LayoutFinal {
			return item, fmt.Errorf("lease: node IDs of pool %q were claimed with the layout %s: %w", p.Name, LayoutName(item.Layout.Snowflake()), errClaimed)
		}
		if err := p.unclaimed(ctx, *item.Layout); err != nil { // checked before the change, which makes agents wait
			return item, err
		}
		if item, err = p.change(ctx, protocol.SuspendLayout{Pool: p.Name, Revision: item.Revision}); err != nil {
			return item, err
		}
	}
	before := item.LayoutBefore
	if before == nil {
		return item, errOvertaken(p.Name)
	}
	claimed := p.unclaimed(ctx, *before)
	if claimed != nil && !errors.Is(claimed, errClaimed) {
		return item, claimed // no agent makes IDs until it is known whether a node ID was claimed
	}
	w := protocol.ReplaceLayout{Pool: p.Name, Revision: item.Revision, Layout: protocol.LayoutOf(l)}
	if claimed != nil {
		w.Layout = *before
	}
	if w.Layout == protocol.LayoutOf(l) {
		claimed = nil // the pool gets the layout that was asked for
	}
	item, err = p.change(ctx, w)
	if err == nil && (item.Layout == nil || *item.Layout != w.Layout) {
		err = errOvertaken(p.Name)
	}
	return item, errors.Join(err, claimed)
}

// finalizeLayout marks the layout of a pool as final once a node ID of the pool has been
// claimed. SetLayout would then refuse to change the layout anyway; from the mark, an
// agent can tell that the layout is final before its own claim, and so it reads the
// pool's item only once. Nothing else depends on the mark, so the write is not retried;
// the next run tries again.
//
// Invariant: a layout that an operator may still correct is never marked. The mark is
// written only if the pool's item still has the revision that was read before the scan
// found the claim.
func (p *Pool) finalizeLayout(ctx context.Context, item Item) {
	if item.Layout == nil || item.LayoutFinal {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, finalizeLimit)
	defer cancel()
	if _, err := p.table().WritePool(ctx, protocol.FinalizeLayout{Pool: p.Name, Revision: item.Revision}); err != nil {
		p.logger().Warn("the layout of the pool's IDs was not marked as final, so each start reads the pool's item twice; the next run tries again", "pool", p.Name, "error", err)
	}
}

// finalizeLimit is how long a run waits for the write that marks a layout as final.
const finalizeLimit = 2 * time.Second

func errOvertaken(pool string) error {
	return fmt.Errorf("lease: pool %q was changed by someone else at the same time: run it again", pool)
}

var errClaimed = errors.New("its layout stays, since IDs of it may exist: use another pool")

// unclaimed returns an error that wraps errClaimed if a node ID was ever claimed, or may
// have been claimed, because IDs with the layout l may then exist.
func (p *Pool) unclaimed(ctx context.Context, l protocol.IDLayout) error {
	var corrupt Corrupt
	err := p.sweep(ctx, maxGroups, &corrupt, func(_ context.Context, _ *sweep, _ int, g protocol.Group) error {
		for _, n := range g.Leases {
			if n.Version > 0 {
				return fmt.Errorf("lease: node %d of pool %q was claimed with the layout %s: %w", n.NodeID, p.Name, LayoutName(l.Snowflake()), errClaimed)
			}
		}
		return nil
	})
	if err == nil && len(corrupt) > 0 {
		err = fmt.Errorf("lease: pool %q has corrupt items (%v), and nobody knows whether they were claimed: %w", p.Name, corrupt, errClaimed)
	}
	return err
}

// change sends one write of the pool's item and returns the item after the write.
func (p *Pool) change(ctx context.Context, w protocol.PoolWrite) (Item, error) {
	res, err := p.writePool(ctx, w)
	if err != nil {
		return Item{}, err
	}
	if res.Pool == nil {
		return Item{}, fmt.Errorf("lease: pool %q vanished", p.Name)
	}
	return *res.Pool, nil
}
