package lease

import (
	"context"
	"errors"
	"os/signal"
	"syscall"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Run holds a node ID for as long as fn runs. A main function needs nothing else:
//
//	func main() {
//		if err := lease.Run(context.Background(), lease.Config{}, work); err != nil {
//			log.Fatal(err)
//		}
//	}
//
// The context of fn ends on SIGTERM or SIGINT, and, with ErrLost as its cause, when the
// lease is lost. fn should then finish its work and return. The node ID is released after
// fn returns, even if fn panics. A second signal ends the process as usual. Run joins and
// returns the errors of fn, of the loss of the lease, and of a release that was not
// confirmed. If fn returned only because of a signal, its error is ignored.
func Run(ctx context.Context, cfg Config, fn func(ctx context.Context, a *Agent) error) error {
	if fn == nil {
		return errors.New("lease: Run without a function to run")
	}
	if err := protocol.CheckContext(ctx); err != nil {
		return err
	}
	ctx, unhook := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer unhook()
	context.AfterFunc(ctx, unhook)
	a, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer a.Close() // releases the node ID if fn panics; otherwise the call below releases it
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-a.Done():
			cancel(a.Err())
		case <-work.Done():
		}
	}()
	err = fn(work, a)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // fn returned because its context ended
	}
	lost := a.Err()
	cancel(nil)
	<-watching
	if errors.Is(lost, ErrLost) && errors.Is(err, context.Canceled) {
		err = nil // fn returned because its context ended, and the error lost is more specific
	}
	if errors.Is(lost, ErrLost) && !errors.Is(err, ErrLost) {
		err = errors.Join(lost, err)
	}
	return errors.Join(err, a.Close())
}
