package sidecar

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/nodelease/nodelease/internal/local"
)

// CheckAddress returns an error unless Listen accepts the address, which is host:port or
// unix:path. An address beyond the loopback interface is accepted only with remote.
func CheckAddress(address string, remote bool) error {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		if path == "" || path[0] == '@' {
			return fmt.Errorf("--listen %s: use the path of a file", address)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--listen %s: use an address such as 127.0.0.1:7373, or unix:/path/to/socket", address)
	}
	if !remote && !local.Loopback(host) {
		return fmt.Errorf("--listen %s can be reached from other machines, and every process that can connect can get IDs: use 127.0.0.1:%s or unix:/path/to/socket, or --allow-remote if that is intended", address, port)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("--listen %s: %q is not a port: use 1 to 65535, or 0 for a free one", address, port)
	}
	return nil
}

// Listen opens the sidecar's address. mode is the permissions of a Unix socket.
func Listen(address string, remote bool, mode os.FileMode) (net.Listener, error) {
	if err := CheckAddress(address, remote); err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(path, mode)
	}
	listen := local.Listen
	if remote {
		listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	l, err := listen(address)
	switch {
	case errors.Is(err, local.ErrElsewhere):
		return nil, fmt.Errorf("--listen %s: %w", address, err)
	case err != nil:
		return nil, fmt.Errorf("--listen %s: %w: choose another port (0 chooses a free one)", address, err)
	}
	return l, nil
}
