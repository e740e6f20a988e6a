//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

func zeebeSilentMember(ctx context.Context, w *world) error {
	name, _, err := w.seed(ctx, "silent", leasepool.Spec{Size: 2})
	if err != nil {
		return err
	}
	lc := short(name)
	lc.Wait = 30 * time.Second
	a, err := w.join(ctx, "old-release", lc, cluster.Config{}, nil) // this member publishes nothing
	if err != nil {
		return err
	}
	defer a.leave()
	b, err := w.join(ctx, "b", lc, cluster.Config{PublishKnown: true}, nil)
	if err != nil {
		return err
	}
	b.crash()
	var log bytes.Buffer
	c, err := w.join(ctx, "c", lc, cluster.Config{PublishKnown: true, Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	if err != nil {
		return err
	}
	took, err := within(func() error { return c.node.WaitKnown(ctx) })
	c.leave()
	w.judge("Z21", err, want(took > 8*time.Second && took < 12*time.Second, "after %v, with a time-out of 3 s", took),
		want(strings.Contains(log.String(), "old-release"), "the log does not name the member: %s", log.String()))
	return nil
}

func zeebeRenewalFails(ctx context.Context, w *world) error {
	name, pool, err := w.seed(ctx, "fails", leasepool.Spec{Size: 1})
	if err != nil {
		return err
	}
	live := func(p *proc) int {
		r := httptest.NewRecorder()
		p.ServeHTTP(r, httptest.NewRequest("GET", "/", nil))
		return r.Code
	}
	a, err := w.start(ctx, short(name))
	if err != nil {
		return err
	}
	old, err := a.Lease()
	if err != nil {
		return err
	}
	a.cable.cut.Store(true)
	if _, err := a.wait(ctx, 0, lease.EventSuspended); err != nil {
		return err
	}
	_, suspended := a.Lease()
	alive := live(a)
	cfg := short(name)
	cfg.Wait = 20 * time.Second
	b, err := w.start(ctx, cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	next, err := b.Lease()
	_, both := a.Lease()
	w.judge("Z24", err, want(errors.Is(suspended, lease.ErrSuspended) && both != nil, "the first one: %v, %v", suspended, both))

	resource := next.Version // the largest version that a resource has seen
	w.judge("Z25", want(old.Fenced() && old.Version < resource, "version %d after %d", old.Version, resource),
		want(next.Predecessor() != nil && next.Predecessor().Version == old.Version, "predecessor %+v", next.Predecessor()))

	a.cable.cut.Store(false)
	select {
	case <-a.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	w.differs("Z23", "200 while suspended, 503 when the node ID is lost", want(alive == 200 && live(a) == 503, "%d, then %d", alive, live(a)))
	tries := a.cable.tries.Load()
	err = a.Close()
	list, _, err2 := leases(ctx, pool)
	w.judge("Z26", err2, want(a.cable.tries.Load() == tries, "Close sent %d requests", a.cable.tries.Load()-tries),
		want(list[0].Holder == next.Holder, "the holder is %+v", list[0]), want(errors.Is(a.Err(), lease.ErrLost), "ended with %v, closed with %v", a.Err(), err))

	_ = b.Close()
	cfg.OnExpiry = lease.Stop
	c, err := w.start(ctx, cfg)
	if err != nil {
		return err
	}
	c.cable.cut.Store(true)
	select {
	case <-c.Done():
	case <-time.After(8 * time.Second):
	}
	w.differs("Z22", "suspended, not restarted; with OnExpiry: Stop it ends as there", want(errors.Is(c.Err(), lease.ErrLost), "with OnExpiry: Stop it ended with %v", c.Err()))
	go func() { _ = c.Close() }()
	return nil
}

func zeebeScale(ctx context.Context, w *world) error {
	name, pool, err := w.seed(ctx, "scale", leasepool.Spec{Size: 2})
	if err != nil {
		return err
	}
	for range 2 { // so that both node IDs have been held
		a, err := w.start(ctx, short(name))
		if err != nil {
			return err
		}
		defer a.Close()
	}
	down, err := pool.Resize(ctx, leasepool.Spec{Size: 1})
	list, _, err2 := leases(ctx, pool)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	unusable := list[1].Retired
	up, err := pool.Resize(ctx, leasepool.Spec{Size: 2})
	list, _, err2 = leases(ctx, pool)
	w.judge("Z27", err, err2, want(unusable && down.Retired == 1 && up.Restored == 1, "down %+v, up %+v", down, up),
		want(!list[1].Retired && list[1].Version == 1, "node ID 1 is %+v", list[1]))
	return nil
}

func zeebeCorrupt(ctx context.Context, w *world) error {
	name, pool, err := w.seed(ctx, "corrupt", leasepool.Spec{Size: 3})
	if err != nil {
		return err
	}
	for _, n := range []string{"0", "2"} {
		_, err := w.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName:                 &w.table,
			Key:                       map[string]types.AttributeValue{"pool_group": &types.AttributeValueMemberS{Value: name + "#0"}, "node_id": &types.AttributeValueMemberN{Value: n}},
			UpdateExpression:          aws.String("SET version = :v"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":v": &types.AttributeValueMemberS{Value: "x"}},
		})
		if err != nil {
			return err
		}
	}
	p, err := w.start(ctx, short(name))
	_, corrupt, err2 := leases(ctx, pool)
	w.judge("Z28", err, err2, want(corrupt == 2, "%d corrupt items", corrupt))
	if err == nil {
		w.judge("Z28", want(p.NodeID() == 1, "node ID %d", p.NodeID()))
		_ = p.Close()
	}
	return nil
}
