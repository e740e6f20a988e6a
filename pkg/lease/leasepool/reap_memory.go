package leasepool

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/nodelease/nodelease/internal/protocol"
)

// taken is used as the revision of a memory that another reaper has written meanwhile, or
// that was corrupt. A run with such a memory frees and stores nothing.
const taken = "taken"

// errUnanswered is the error of a run that frees or stores nothing after its scan,
// because a write that is sent only once was not answered. The next run starts over.
var errUnanswered = errors.New("lease: no answer")

// unanswered marks an error that a later run recovers from by itself.
func unanswered(err error) error {
	if err == nil || protocol.Permanent(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnanswered, err)
}

// recall reads the memory of an earlier run. It resets a corrupt memory.
func (p *Pool) recall(ctx context.Context) (protocol.ReaperMemory, error) {
	m, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.ReaperMemory, error) { return p.table().ReaperMemory(ctx, p.Name) })
	var corrupt *protocol.CorruptError
	if errors.As(err, &corrupt) {
		return protocol.ReaperMemory{Pool: p.Name, Revision: taken}, p.forget(ctx)
	}
	return m, err
}

// remember replaces the memory, with one attempt. It returns the memory with its new
// revision, or with the revision taken.
func (p *Pool) remember(ctx context.Context, m protocol.ReaperMemory, l *protocol.ReaperLook) (protocol.ReaperMemory, error) {
	w := protocol.Remember{Pool: p.Name, Seen: m.Revision, New: uuid.NewString(), Look: l}
	ctx, cancel := context.WithTimeout(ctx, protocol.CallLimit)
	defer cancel()
	applied, err := p.table().WriteReaperMemory(ctx, w)
	if err == nil && !applied {
		return protocol.ReaperMemory{Revision: taken}, nil
	}
	return protocol.ReaperMemory{Pool: p.Name, Revision: w.New, Look: l}, unanswered(err)
}

// forget resets the memory, so that the reaper starts over. Like remember, it replaces
// only the revision that it has read. An unconditional write that arrives twice would
// restore an old revision, and a delayed write that expects this revision could then
// store an old scan again.
func (p *Pool) forget(ctx context.Context) error {
	for {
		m, err := protocol.Retry(ctx, func(ctx context.Context) (protocol.ReaperMemory, error) { return p.table().ReaperMemory(ctx, p.Name) })
		var w protocol.MemoryWrite = protocol.Remember{Pool: p.Name, Seen: m.Revision, New: uuid.NewString()}
		var corrupt *protocol.CorruptError
		switch {
		case errors.As(err, &corrupt):
			w = protocol.Forget{Pool: p.Name, New: uuid.NewString()}
		case err != nil:
			return err
		}
		applied, err := protocol.Retry(ctx, func(ctx context.Context) (bool, error) { return p.table().WriteReaperMemory(ctx, w) })
		if err != nil || applied {
			return err
		}
	}
}
