package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodelease/nodelease/internal/text"
)

// taking are the flags of verbs that take node IDs from their holders.
type taking struct {
	yes, dry bool
	answers  *bufio.Reader // one for all questions: it reads ahead
}

func (t *taking) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&t.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&t.dry, "dry-run", false, "show what would be done, and change nothing")
}

// confirm asks on stderr for confirmation, unless the user passed --yes.
func (t *taking) confirm(cmd *cobra.Command, facts text.Safe, question string) error {
	if t.yes {
		return nil
	}
	if err := say(cmd.ErrOrStderr(), text.Sprintf("%s%s [y/N] ", facts, question)); err != nil {
		return err
	}
	if t.answers == nil {
		t.answers = bufio.NewReader(typed{cmd.Context(), cmd.InOrStdin()})
	}
	answer, err := t.answers.ReadString('\n')
	if err != nil {
		_ = say(cmd.ErrOrStderr(), text.Sprintf("\n"))
	}
	if ended := context.Cause(cmd.Context()); ended != nil {
		return fmt.Errorf("not confirmed, nothing was done: %w", ended)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed, nothing was done: answer y, or use --yes")
}

// typed reads what a user types until a context ends. A read that is given up continues in
// the background, since nothing can end it.
type typed struct {
	ctx context.Context
	in  io.Reader
}

// Read implements [io.Reader].
//
// Invariant (liveness): no command waits for its user beyond its own time-out, and the first
// Ctrl-C or SIGTERM ends the wait.
func (r typed) Read(b []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	own, done := make([]byte, len(b)), make(chan result, 1)
	go func() {
		n, err := r.in.Read(own)
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return copy(b, own[:got.n]), got.err
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	}
}
