package leasefixed

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/nodelease/nodelease/pkg/snowflake"
)

// StatefulSet calls [New] with the ordinal of a Kubernetes StatefulSet's pod, which is
// the number at the end of the host name: 7 in "orders-7". Only Kubernetes ensures that
// one pod at a time has an ordinal, and it cannot ensure this if a pod is deleted by
// force.
//
// StatefulSet returns an error if the host name has no such number, or if the number
// means something else, such as a part of an IP address, or the random end of the name of
// a Deployment's pod.
func StatefulSet(layout snowflake.Layout) (*Node, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("leasefixed: no host name to take an ordinal from: %w", err)
	}
	n, err := ordinal(host)
	if err != nil {
		return nil, err
	}
	return New(n, layout)
}

var (
	// An ordinal is never padded, and a node ID has at most 16 bits, which is five digits.
	ordinalName = regexp.MustCompile(`^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?-(0|[1-9][0-9]{0,4})$`)
	// ip-10-0-1-25 is an EC2 host name. Other networks have hosts with the same address.
	addressName = regexp.MustCompile(`[0-9]+-[0-9]+-[0-9]+-[0-9]+$`)
	// A Deployment's pods are named NAME-HASH-RANDOM, and some of the random parts consist
	// only of digits. In HASH and RANDOM, Kubernetes omits the letters and digits that could
	// spell words.
	deploymentName = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
)

// ordinal returns the ordinal in a host name, ignoring the domain.
func ordinal(host string) (int, error) {
	name, _, _ := strings.Cut(host, ".")
	found := ordinalName.FindStringSubmatch(name)
	if found == nil || addressName.MatchString(name) || deploymentName.MatchString(name) {
		return 0, fmt.Errorf("leasefixed: host name %.80q has no StatefulSet ordinal, as in orders-7: run the process in a StatefulSet, pass the node ID yourself, or lease one", host)
	}
	n, err := strconv.Atoi(found[1])
	if err == nil && n >= 1<<16 {
		err = fmt.Errorf("leasefixed: ordinal %d of host name %.80q is beyond 16 bits", n, host)
	}
	return n, err
}
