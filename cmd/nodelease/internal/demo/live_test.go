package demo

import (
	"context"
	"errors"
	"io"
	"testing"

	"go.uber.org/goleak"
)

func TestLiveEnds(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, test := range map[string]struct {
		key  string // empty: no key is pressed, and the demo ends by itself
		want error
	}{
		"with the demo": {"", nil},
		"enough seen":   {"q", nil},
		"Ctrl-C":        {"\x03", ErrInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b, _ := testBoard(t)
			in, keys := io.Pipe()
			defer in.Close()
			ended := make(chan error)
			go func() { ended <- Live{In: in, Out: io.Discard}.Run(ctx, b) }()
			if test.key == "" {
				cancel()
			} else {
				go io.WriteString(keys, test.key)
			}
			if err := <-ended; !errors.Is(err, test.want) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}
