package local

import (
	"errors"
	"fmt"
	"net"
)

// ErrElsewhere is returned by Listen if other machines could reach the address.
var ErrElsewhere = errors.New("not on the loopback interface")

// open is net.Listen, except in tests.
var open = net.Listen

// Listen opens a TCP address. The caller has checked its host with Loopback.
//
// Invariant: only programs on this machine can connect. The address that was opened is
// checked, because the hosts file or a DNS server may give localhost any address.
func Listen(addr string) (net.Listener, error) {
	l, err := open("tcp", addr)
	if err != nil {
		return nil, err
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("address %q is %v on this machine, which is %w: use 127.0.0.1", addr, l.Addr(), ErrElsewhere), l.Close())
	}
	return l, nil
}
