package leasefixed

import (
	"os"
	"strings"
	"testing"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

func TestOrdinal(t *testing.T) {
	for host, want := range map[string]int{
		"orders-0": 0, "orders-7": 7, "my-orders-12": 12, "orders-65535": 65535, "o-10.orders.prod.svc.cluster.local": 10,
		"orders2-3": 3, "orders-2-3": 3, "orders-v1-2-3": 3,
	} {
		if got, err := ordinal(host); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", host, got, err, want)
		}
	}
	for _, host := range []string{
		"", "orders", "orders-", "-7", "7", "orders7", "orders-07", "orders-00", "orders-7x", "orders--", "orders-65536", "orders-100000", "orders-+7",
		"ip-10-0-1-25", "ip-10-0-0-7", "ip-10-0-1-25.eu-west-1.compute.internal", "10-0-1-25",
		"orders-7d4b9c6f5d-24568", "orders-7d4b9c6f-x2v7q", "3f2b1c0d9e8f", "Orders-7", "orders-7\n", "orders_7",
	} {
		if n, err := ordinal(host); err == nil || !strings.HasPrefix(err.Error(), "leasefixed: ") {
			t.Errorf("%q: %d, %v, want an error", host, n, err)
		}
	}
}

// The error names the host and the alternatives.
func TestOrdinalError(t *testing.T) {
	_, err := ordinal("worker")
	for _, part := range []string{`"worker"`, "StatefulSet", "pass the node ID", "lease"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not say %q", err, part)
		}
	}
}

func TestStatefulSet(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	n, err := StatefulSet(snowflake.Wide16())
	if want, noOrdinal := ordinal(host); noOrdinal != nil {
		if err == nil || err.Error() != noOrdinal.Error() {
			t.Errorf("%v, want %v", err, noOrdinal)
		}
	} else if err != nil || n.NodeID() != want {
		t.Errorf("node %v, want %d, %v", n, want, err)
	}
}
