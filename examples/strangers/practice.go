//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasefixed"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

func practiceDeadline(ctx context.Context, w *world) error {
	name, _, err := w.seed(ctx, "deadline", leasepool.Spec{Size: 1})
	if err != nil {
		return err
	}
	p, err := w.start(ctx, lease.Config{Pool: name, TTL: 10 * time.Second, RenewEvery: 3 * time.Second, Guard: 2 * time.Second})
	if err != nil {
		return err
	}
	defer p.Close()
	ids, err := snowflake.New(p)
	if err != nil {
		return err
	}
	first, err := p.wait(ctx, 0, lease.EventRenewed)
	if err != nil {
		return err
	}
	second, err := p.wait(ctx, p.seen(), lease.EventRenewed)
	if err != nil {
		return err
	}
	gap := second.Time.Sub(first.Time)
	w.judge("P1", want(gap > 2500*time.Millisecond && gap < 3600*time.Millisecond, "renewed after %v", gap), want(second.Left > 7500*time.Millisecond && second.Left <= 8*time.Second, "%v are left after a renewal", second.Left))

	held, err := p.Lease()
	if err != nil {
		return err
	}
	p.cable.cut.Store(true)
	var last snowflake.ID
	for {
		id, err := ids.Next()
		if err != nil {
			w.judge("P2", want(errors.Is(err, snowflake.ErrFenced), "%v", err), want(time.Now().Before(held.ExpiresAt), "fenced %v after the expiry", time.Since(held.ExpiresAt)),
				want(time.Until(held.ExpiresAt) > 1500*time.Millisecond, "fenced %v before the expiry", time.Until(held.ExpiresAt)), want(last.Time().Before(held.ExpiresAt), "an ID of %v", last.Time()))
			break
		}
		last = id
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := p.wait(ctx, 0, lease.EventSuspended); err != nil {
		return err
	}
	p.cable.cut.Store(false)
	_, err = p.wait(ctx, 0, lease.EventResumed)
	now, err2 := p.Lease()
	_, err3 := ids.Next()
	w.judge("P3", err, err2, err3, want(now.Version == held.Version, "version %d, then %d", held.Version, now.Version))
	return nil
}

// A kid is a child process that runs this program. It prints a line for each line that it
// is sent.
type kid struct {
	*exec.Cmd
	in  *os.File
	out *bufio.Scanner
}

func (w *world) spawn(kind, pool string, attr *syscall.SysProcAttr) (*kid, error) {
	cmd := exec.Command("/proc/self/exe", kind, w.endpoint, w.table, pool) //nolint:gosec // itself, as another process
	cmd.Stderr, cmd.SysProcAttr = os.Stderr, attr
	r, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = r
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &kid{cmd, in, bufio.NewScanner(out)}, cmd.Start()
}

func (k *kid) hear() string {
	k.out.Scan()
	return k.out.Text()
}

func (k *kid) ask() string {
	fmt.Fprintln(k.in, "next")
	return k.hear()
}

func (k *kid) end() {
	_ = k.Process.Kill()
	_ = k.in.Close()
	_ = k.Wait()
}

// child is the program of the processes that spawn starts.
func child(kind string, args []string) error {
	ctx := context.Background()
	if kind == "child-ordinal" {
		if err := syscall.Sethostname([]byte(args[2])); err != nil {
			return err
		}
		node, err := leasefixed.StatefulSet(snowflake.Default())
		if err != nil {
			return err
		}
		fmt.Println("node", node.NodeID())
		return nil
	}
	client, err := lease.OpenClient(ctx, args[0])
	if err != nil {
		return err
	}
	cfg := short(args[2])
	cfg.Store, cfg.Logger = lease.NewDynamoDB(client, args[1]), quiet
	a, err := lease.Start(ctx, cfg)
	if err != nil {
		return err
	}
	ids, err := snowflake.New(a)
	if err != nil {
		return err
	}
	fmt.Println("node", a.NodeID())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		id, err := ids.Next()
		_, held := a.Lease()
		fmt.Println(id, err == nil, held == nil)
	}
	return nil
}

func practicePause(ctx context.Context, w *world) error {
	name, pool, err := w.seed(ctx, "pause", leasepool.Spec{Size: 1})
	if err != nil {
		return err
	}
	k, err := w.spawn("child-agent", name, nil)
	if err != nil {
		return err
	}
	defer k.end()
	if s := k.hear(); s != "node 0" {
		return fmt.Errorf("the child said %q", s)
	}
	if s := k.ask(); !strings.HasSuffix(s, "true true") {
		return fmt.Errorf("the child said %q", s)
	}
	if err := k.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	cfg := short(name)
	cfg.Wait = 30 * time.Second
	next, err := w.start(ctx, cfg)
	if err != nil {
		return err
	}
	defer next.Close()
	fmt.Fprintln(k.in, "next") // the child is asked before it wakes up
	if err := k.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	s := k.hear()
	w.judge("P4", want(strings.HasSuffix(s, "false false"), "old-7 made an ID, or relied on its lease: %q", s))

	// The same with a child that is killed.
	_ = next.Close()
	killed, err := w.spawn("child-agent", name, nil)
	if err != nil {
		return err
	}
	if s := killed.hear(); s != "node 0" {
		return fmt.Errorf("the second child said %q", s)
	}
	killed.end()
	_, err = w.start(ctx, short(name))
	heir, err2 := w.start(ctx, cfg)
	w.judge("P5", want(errors.Is(err, lease.ErrPoolExhausted), "at once: %v", err), err2)
	if err2 != nil {
		return nil
	}
	defer heir.Close()
	list, _, err := leases(ctx, pool)
	w.judge("P5", err, want(list[0].Predecessor() != nil && list[0].Predecessor().Ended == lease.EndExpired, "%+v", list[0]))
	return nil
}

func practicePool(ctx context.Context, w *world) error {
	_, _, err := w.seed(ctx, "cap", leasepool.Spec{Size: 1025, Layout: snowflake.Default()})
	w.judge("P6", want(err != nil, "1,025 node IDs in 10 bits"))
	name, pool, err := w.seed(ctx, "monitor", leasepool.Spec{Size: 4})
	if err != nil {
		return err
	}
	for range 3 {
		p, err := w.start(ctx, short(name))
		if err != nil {
			return err
		}
		defer p.Close()
	}
	s, err := pool.Stats(ctx)
	w.judge("P7", err, want(s.Held == 3 && s.Free == 1 && s.Utilization == 75, "%+v", s))
	return nil
}

func practiceOrdinal(ctx context.Context, w *world) error {
	k, err := w.spawn("child-ordinal", "orders-7", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS})
	if err != nil {
		return err
	}
	defer k.end()
	said := k.hear()
	other, err := w.spawn("child-ordinal", "ip-10-0-0-7", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUTS})
	if err != nil {
		return err
	}
	defer other.end()
	refused := other.hear()
	w.judge("P8", want(said == "node 7", "the child said %q", said), want(strings.HasPrefix(refused, "error"), "the host name of an address: %q", refused))
	return nil
}
