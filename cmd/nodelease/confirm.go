package main

import (
	"bufio"
	"errors"
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
		t.answers = bufio.NewReader(cmd.InOrStdin())
	}
	answer, err := t.answers.ReadString('\n')
	if err != nil {
		_ = say(cmd.ErrOrStderr(), text.Sprintf("\n"))
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not confirmed, nothing was done: answer y, or use --yes")
}
