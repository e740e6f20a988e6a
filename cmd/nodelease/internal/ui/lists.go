package ui

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/nodelease/nodelease/internal/text"
	"github.com/nodelease/nodelease/pkg/cluster"
	"github.com/nodelease/nodelease/pkg/discovery"
	"github.com/nodelease/nodelease/pkg/lease"
)

// membersMessage is a page of the cluster's members.
type membersMessage struct {
	sheet
	Members []member `json:"members"`
}

// member is a live member of the cluster, as the page shows it.
type member struct {
	ID      int               `json:"n"`
	Name    string            `json:"name"`
	Session string            `json:"session"` // the last characters of the cluster session
	Since   int64             `json:"since,omitempty"`
	Expires int64             `json:"expires"`
	Leads   bool              `json:"leads,omitempty"` // its session is the oldest
	Meta    map[string]string `json:"meta,omitempty"`
	session string
}

// serveMembers answers with the members of the pool's cluster as of the last read: the
// holders whose leases name a member and have not expired, the oldest session first.
func (s *Server) serveMembers(w http.ResponseWriter, r *http.Request) {
	f := parse(r.URL.Query().Get("q"))
	s.mu.Lock()
	all := s.model.members()
	s.mu.Unlock()
	if len(all) > 0 {
		all[0].Leads = true
	}
	all = slices.DeleteFunc(all, func(m member) bool { return !f.find(m.Name, pairs(m.Meta)) })
	var m membersMessage
	m.sheet, m.Members = sheetOf(r, all)
	writeJSON(w, m)
}

// members lists the live members by session, the oldest first. The first one is the leader
// that [cluster.LowestSession] elects.
func (m *model) members() (all []member) {
	for g := range m.groups {
		for i := range m.groups[g].nodeIDs {
			n := &m.groups[g].nodeIDs[i]
			if n.State == lease.Held && n.member != nil {
				all = append(all, shownMember(n, *n.member))
			}
		}
	}
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.session, b.session) })
	return all
}

func shownMember(n *nodeID, m cluster.Member) member {
	return member{ID: n.ID, Name: text.Line(m.Name), Session: shown(m.SessionID), Since: began(m.SessionID), Expires: n.Expires, Meta: lines(m.Metadata), session: m.SessionID}
}

// find reports whether every word of a search is in one of the texts.
func (f filter) find(texts ...string) bool {
	for _, w := range f {
		if !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(strings.ToLower(s), w.text) }) {
			return false
		}
	}
	return true
}

func pairs(metadata map[string]string) string {
	var parts []string
	for k, v := range metadata {
		parts = append(parts, k+"="+v)
	}
	return strings.Join(parts, " ")
}

// servicesMessage is a page of search results: services, the keys of an endpoint,
// or the instances at one place.
type servicesMessage struct {
	sheet
	Services  []service  `json:"services,omitempty"`
	Keys      []string   `json:"keys,omitempty"` // an empty one means no key
	Instances []instance `json:"instances,omitempty"`
	// Problem explains why the answer may be outdated or empty.
	Problem string `json:"problem,omitempty"`
}

type service struct {
	Name      string   `json:"name"`
	Endpoints []string `json:"endpoints"`
}

// instance is a live instance. It contains no part of the instance's session.
type instance struct {
	ID      int               `json:"n"`
	Version int64             `json:"version"`
	Address string            `json:"address"`
	Zone    string            `json:"zone,omitempty"`
	Weight  int               `json:"weight"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// serveServices answers with registrations. Without a parameter, these are all services;
// with ?endpoint=, the endpoint's keys; with ?service=, or with ?endpoint= and &key=, the
// instances registered there.
func (s *Server) serveServices(w http.ResponseWriter, r *http.Request) {
	var m servicesMessage
	query := r.URL.Query()
	f := parse(query.Get("q"))
	var err error
	switch {
	case s.directory == nil:
		m.Problem = "This program cannot look up services."
	case query.Has("service"), query.Has("key"):
		var all []instance
		all, err = s.instances(r.Context(), query.Get("service"), query.Get("endpoint"), query.Get("key"))
		all = slices.DeleteFunc(all, func(i instance) bool { return !f.find(i.Address, i.Zone, pairs(i.Labels)) })
		m.sheet, m.Instances = sheetOf(r, all)
	case query.Has("endpoint"):
		var names *discovery.Names
		if names, err = s.directory.Keys(query.Get("endpoint")); err == nil {
			var keys []string
			keys, err = names.List(r.Context())
			m.sheet, m.Keys = sheetOf(r, slices.DeleteFunc(keys, func(k string) bool { return !f.find(k) }))
		}
	default:
		m.sheet, m.Services, err = s.services(r, f)
	}
	if err != nil {
		m.Problem = text.Error(err)
	}
	writeJSON(w, m)
}

func (s *Server) services(r *http.Request, f filter) (sheet, []service, error) {
	names, err := s.directory.Services().List(r.Context())
	at, names := sheetOf(r, slices.DeleteFunc(names, func(n string) bool { return !f.find(n) }))
	services := make([]service, len(names))
	for i, name := range names {
		services[i] = service{Name: text.Line(name), Endpoints: []string{}}
		endpoints, e := s.directory.Endpoints(name)
		if e != nil {
			return at, services[:i], e
		}
		list, _ := endpoints.List(r.Context()) // from the same read as the services
		for _, endpoint := range list {
			services[i].Endpoints = append(services[i].Endpoints, text.Line(endpoint))
		}
	}
	return at, services, err
}

// instances returns the live instances of a service, or of an endpoint's key.
func (s *Server) instances(ctx context.Context, service, endpoint, key string) ([]instance, error) {
	lookup, err := s.lookups.of(s.directory, service, endpoint, key)
	if err != nil {
		return nil, err
	}
	found, err := lookup.Resolve(ctx)
	all := make([]instance, len(found))
	for i, f := range found {
		all[i] = instance{ID: f.NodeID, Version: f.Version, Address: text.Line(f.Host), Zone: text.Line(f.Zone), Weight: max(f.Weight, 1), Labels: lines(f.Labels)}
		if f.Port != 0 {
			all[i].Address = text.Line(f.HostPort())
		}
	}
	return all, err
}

// lookups keeps a lookup for each place that was requested. A lookup remembers its last
// answer.
type lookups struct {
	mu    sync.Mutex
	known map[[3]string]*discovery.Lookup
}

// mostLookups bounds the number of lookups that are kept.
const mostLookups = 64

func (l *lookups) of(d *discovery.Directory, service, endpoint, key string) (*discovery.Lookup, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := [3]string{service, endpoint, key}
	if known := l.known[at]; known != nil {
		return known, nil
	}
	found, err := d.Service(service)
	if service == "" {
		found, err = d.Endpoint(endpoint, key)
	}
	if err != nil {
		return nil, err
	}
	if len(l.known) >= mostLookups || l.known == nil {
		l.known = map[[3]string]*discovery.Lookup{}
	}
	l.known[at] = found
	return found, nil
}
