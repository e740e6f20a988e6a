package local

import (
	"errors"
	"net"
	"testing"
)

// elsewhere is a listener on an address that other machines can reach.
type elsewhere struct {
	net.Listener
	closed bool
}

func (*elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 80} }

func (e *elsewhere) Close() error {
	e.closed = true
	return nil
}

// A name that resolves to an address of another interface is refused, and is not left open.
func TestNoNameLeavesTheMachine(t *testing.T) {
	l, e := net.Listen, &elsewhere{}
	defer func() { open = l }()
	open = func(string, string) (net.Listener, error) { return e, nil }
	if got, err := Listen("localhost:80"); !errors.Is(err, ErrElsewhere) || !e.closed {
		t.Errorf("got %v, %v, closed: %v, want it refused and closed", got, err, e.closed)
	}
	open = l
	for _, addr := range []string{"127.0.0.1:0", "localhost:0"} {
		got, err := Listen(addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Close(); err != nil {
			t.Error(err)
		}
	}
}
