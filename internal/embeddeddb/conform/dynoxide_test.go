package conform

import (
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/nodelease/nodelease/internal/testkit/dynamotest"
)

// dynoxide starts a dynoxide server for the test, from the program that NODELEASE_DYNOXIDE names
// (scripts/dynoxide.sh builds it).
func dynoxide(t *testing.T) *dynamodb.Client {
	t.Helper()
	program := os.Getenv("NODELEASE_DYNOXIDE")
	if program == "" {
		t.Skip("NOT TESTED against dynoxide: NODELEASE_DYNOXIDE is not set. To run this test: scripts/test.sh differential")
	}
	for range 5 {
		l, err := net.Listen("tcp", "127.0.0.1:0") // dynoxide cannot report a port that it has chosen itself
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		l.Close()
		_, port, _ := net.SplitHostPort(address)
		server := exec.Command(program, "--log", "quiet", "--port", port)
		server.Stderr = os.Stderr
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { _ = server.Wait(); close(ended) }()
		t.Cleanup(func() { _ = server.Process.Kill(); <-ended })
		for tick := time.Tick(20 * time.Millisecond); ; { // it has no other sign that it is ready
			if c, err := net.Dial("tcp", address); err == nil {
				c.Close()
				return dynamotest.Client(t, "http://"+address)
			}
			select {
			case <-ended:
			case <-tick:
				continue
			}
			break // another process has taken the port
		}
	}
	t.Fatal("dynoxide did not start")
	return nil
}
