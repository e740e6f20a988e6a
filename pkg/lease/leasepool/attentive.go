package leasepool

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/nodelease/nodelease/internal/protocol"
)

// attentive is a store that records whether any request was not answered, even if a retry
// was answered. While the store does not answer this machine, it may not answer holders
// either.
type attentive struct {
	protocol.Store
	failed atomic.Bool
	first  atomic.Pointer[error] // the error of the first request that was not answered
}

func (s *attentive) note(err error) {
	var corrupt *protocol.CorruptError
	if err != nil && !errors.As(err, &corrupt) && !errors.Is(err, protocol.ErrPoolNotSeeded) {
		s.first.CompareAndSwap(nil, &err)
		s.failed.Store(true)
	}
}

func (s *attentive) PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error) {
	p, err := s.Store.PoolItem(ctx, pool)
	s.note(err)
	return p, err
}

func (s *attentive) Group(ctx context.Context, pool string, n int) (protocol.Group, error) {
	g, err := s.Store.Group(ctx, pool, n)
	s.note(err)
	return g, err
}

// EventualGroup implements [protocol.EventualStore].
func (s *attentive) EventualGroup(ctx context.Context, pool string, n int) (protocol.Group, error) {
	g, err := protocol.EventualGroup(ctx, s.Store, pool, n)
	s.note(err)
	return g, err
}

func (s *attentive) Write(ctx context.Context, w protocol.Write) (protocol.Result, error) {
	r, err := s.Store.Write(ctx, w)
	s.note(err)
	return r, err
}

func (s *attentive) ReaperMemory(ctx context.Context, pool string) (protocol.ReaperMemory, error) {
	m, err := s.Store.ReaperMemory(ctx, pool)
	s.note(err)
	return m, err
}

func (s *attentive) WriteReaperMemory(ctx context.Context, w protocol.MemoryWrite) (bool, error) {
	applied, err := s.Store.WriteReaperMemory(ctx, w)
	s.note(err)
	return applied, err
}
