//go:build !unix || solaris || aix

package embeddeddb

import (
	"errors"
	"io"
)

// lockFile: without a lock that a kill ends, two processes could share a data file and ruin it.
func lockFile(string) (io.Closer, error) {
	return nil, errors.New("the embedded DynamoDB keeps no data file on this platform: leave Data empty")
}
