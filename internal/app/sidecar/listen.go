package sidecar

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
)

// CheckAddress returns an error unless Listen accepts an address: it is
// host:port, or unix:path. Beyond the loopback interface it is allowed only with
// remote.
func CheckAddress(address string, remote bool) error {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" || path[0] == '@' {
			return fmt.Errorf("--listen %s: give the path of a file", address)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--listen %s: use an address such as 127.0.0.1:7373, or unix:/path/to/socket", address)
	}
	if !remote && !loopbackName(host) {
		return fmt.Errorf("--listen %s reaches beyond this machine, and anybody who can connect can take IDs: use 127.0.0.1:%s or unix:/path/to/socket, or --allow-remote if you mean it", address, port)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("--listen %s: %q is no port: use 1 to 65535, or 0 for a free one", address, port)
	}
	return nil
}

// Listen opens where the sidecar is reached. mode is who may connect to a Unix
// socket.
func Listen(address string, remote bool, mode os.FileMode) (net.Listener, error) {
	if err := CheckAddress(address, remote); err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(path, mode)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w: choose another port (0 takes a free one)", address, err)
	}
	// What counts is where it listens, not what the name was taken for.
	if a, ok := l.Addr().(*net.TCPAddr); !remote && (!ok || !a.IP.IsLoopback()) {
		return nil, errors.Join(fmt.Errorf("--listen %s is %v, which is not the loopback interface", address, l.Addr()), l.Close())
	}
	return l, nil
}

// loopbackName reports whether an address can only be reached from this machine.
func loopbackName(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// listenUnix takes the place of a socket whose server is dead, and of nothing else.
func listenUnix(path string, mode os.FileMode) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		info, statErr := os.Lstat(path)
		if statErr != nil || info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("--listen unix:%s: there is a file that is not a socket: remove it, or use another path", path)
		}
		if c, err := net.Dial("unix", path); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("--listen unix:%s: another process listens there: stop it, or use another path", path)
		} else if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, fmt.Errorf("--listen unix:%s: %w: use a path of up to 100 bytes in a directory that this user may write to", path, err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
