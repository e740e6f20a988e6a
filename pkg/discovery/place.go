package discovery

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Address locates and describes an instance. Host, Zone, and the names and values of
// Labels have at most 512 bytes together, so that writing an entry costs one write unit.
type Address struct {
	// Host is a name or an IP address, required: 1 to 253 of A-Z a-z 0-9 . _ : -.
	Host string `json:"host" dynamodbav:"host"`
	// Port is 1 to 65,535, or 0 for no port.
	Port int `json:"port,omitempty" dynamodbav:"port,omitempty"`
	// Zone is the instance's zone, for callers that prefer instances in their own zone.
	// Like Labels, it may contain only printable characters.
	Zone string `json:"zone,omitempty" dynamodbav:"zone,omitempty"`
	// Weight is the instance's share of the calls, relative to the weights of the other
	// instances: 1 to 100. 0 means 1.
	Weight int               `json:"weight,omitempty" dynamodbav:"weight,omitempty"`
	Labels map[string]string `json:"labels,omitempty" dynamodbav:"labels,omitempty"`
}

// HostPort returns the address to dial, host:port.
func (a Address) HostPort() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

const (
	maxText   = 512
	maxWeight = 100
)

// printable reports whether a text is one line of UTF-8 without invisible characters.
func printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,253}$`)

// check returns all errors of an address at once.
func (a Address) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !hostName.MatchString(a.Host) {
		bad("host %.80q: use a name or an IP address, 1 to 253 of A-Z a-z 0-9 . _ : -", a.Host)
	}
	if a.Port < 0 || a.Port > 65535 {
		bad("port %d: use 0 to 65535", a.Port)
	}
	if a.Weight < 0 || a.Weight > maxWeight {
		bad("weight %d: use 0 to %d", a.Weight, maxWeight)
	}
	text := len(a.Host) + len(a.Zone)
	if !printable(a.Zone) {
		bad("zone %.80q: use printable characters", a.Zone)
	}
	for name, value := range a.Labels {
		text += len(name) + len(value)
		if !printable(name) || !printable(value) {
			bad("label %.80q=%.80q: use printable characters", name, value)
		}
	}
	if text > maxText {
		bad("host, zone and labels have %d bytes together: use at most %d", text, maxText)
	}
	return errors.Join(errs...)
}

func (a Address) clone() Address {
	a.Labels = maps.Clone(a.Labels)
	return a
}

// Offer is anything that a process can register: a [Service] or an [Endpoint].
type Offer interface {
	where() (place, error)
	address() Address
}

// Service offers this process as an instance of a service. A process is at most one
// instance of each service.
type Service struct {
	Name string // 1 to 64 of A-Z a-z 0-9 . _ -
	Address
}

// Endpoint offers this process as an instance of an endpoint at a key. Callers look up
// instances by the key, for example the owner of a shard, or the sessions of a tenant. A
// process may offer several keys of an endpoint.
type Endpoint struct {
	Name string // 1 to 64 of A-Z a-z 0-9 . _ -
	Key  string // up to 128 of the same characters, but not "_"; empty for no key
	Address
}

func (s Service) where() (place, error)  { return servicePlace(s.Name) }
func (e Endpoint) where() (place, error) { return endpointPlace(e.Name, e.Key) }
func (a Address) address() Address       { return a }

// place is the part of an entry's partition key that follows the pool's name and a #:
// svc#<service>, or ep#<endpoint>#<key or _>. Names and keys contain no #, so that no
// place looks like another place, or like a group of leases.
type place string

const noKey = "_"

var (
	nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	keyForm  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
)

func servicePlace(name string) (place, error) {
	if !nameForm.MatchString(name) {
		return "", fmt.Errorf("service name %q: use 1 to 64 of A-Z a-z 0-9 . _ -", name)
	}
	return place("svc#" + name), nil
}

func endpointPlace(name, key string) (place, error) {
	if !nameForm.MatchString(name) {
		return "", fmt.Errorf("endpoint name %q: use 1 to 64 of A-Z a-z 0-9 . _ -", name)
	}
	switch {
	case key == "":
		key = noKey
	case key == noKey || !keyForm.MatchString(key):
		return "", fmt.Errorf("key %q of endpoint %q: use 1 to 128 of A-Z a-z 0-9 . _ -, but not \"_\" alone; empty for no key", key, name)
	}
	return place("ep#" + name + "#" + key), nil
}

// parsePlace parses a place from an item. It accepts only places that Register can have
// written, because items can be corrupt, and a write to a wrong place could overwrite a
// lease.
func parsePlace(text string) (place, bool) {
	kind, rest, _ := strings.Cut(text, "#")
	var p place
	var err error
	switch kind {
	case "svc":
		p, err = servicePlace(rest)
	case "ep":
		name, key, _ := strings.Cut(rest, "#")
		if key == noKey {
			key = ""
		}
		p, err = endpointPlace(name, key)
	}
	return p, err == nil && string(p) == text && text != ""
}

// in returns the partition that contains a pool's entries at this place.
func (p place) in(pool string) string { return pool + "#" + string(p) }
