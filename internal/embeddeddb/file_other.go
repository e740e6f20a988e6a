//go:build !unix || solaris || aix

package embeddeddb

import (
	"errors"
	"os"
)

// openLocked always fails: without a lock that ends with the process, two processes could share a data file and ruin it.
func openLocked(string, int) (*os.File, os.FileInfo, error) {
	return nil, nil, errors.New("the embedded DynamoDB cannot keep a data file on this platform: run it without one")
}
