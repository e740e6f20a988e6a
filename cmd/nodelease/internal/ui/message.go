package ui

import (
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// wholeGroups is the largest number of groups for which a page shows every node ID. Larger
// pools are shown by group.
const wholeGroups = 4

// status is the part that all messages except troubleMessage contain.
type status struct {
	Now   int64   `json:"now"` // ms of the Unix epoch, as all times
	Size  int     `json:"size"`
	Open  int     `json:"open"` // groups that are open
	Total counts  `json:"total"`
	Used  float64 `json:"used"`
	// Late are the leases that expire next, and Expired those that expired last. The
	// counts include leases that are not listed.
	Late         []*nodeID `json:"late"`
	LateCount    int       `json:"late_count"`
	Expired      []*nodeID `json:"expired"`
	ExpiredCount int       `json:"expired_count"`
	// Waits is [model.waits]. Outage describes the effect of an outage of DynamoDB that began now.
	Waits   int64          `json:"waits,omitempty"`
	Outage  string         `json:"outage,omitempty"`
	Marks   map[int]string `json:"marks"` // null if nothing is known beyond the table
	Line    string         `json:"line,omitempty"`
	Reads   int            `json:"reads"`
	Verdict verdict        `json:"verdict"`
	// ReadAt is when the last turn succeeded, and AsOf the time of the oldest read shown.
	ReadAt int64 `json:"read_at"`
	AsOf   int64 `json:"as_of"`
	// FullIn is when the pool will be full at this rate, in ms from now; 0 means unknown.
	FullIn int64   `json:"full_in,omitempty"`
	Slope  float64 `json:"slope,omitempty"` // percent per ms
}

// troubleMessage is sent instead of the other messages until the pool has been read for the
// first time.
type troubleMessage struct {
	Now     int64   `json:"now"`
	Pool    string  `json:"pool"`
	Every   int64   `json:"every"`
	Verdict verdict `json:"verdict"`
}

// allMessage is the first message of a page.
type allMessage struct {
	status
	Pool      string    `json:"pool"`
	Title     string    `json:"title"`
	Every     int64     `json:"every"`     // ms
	Threshold int       `json:"threshold"` // percent from which the pool is nearly full
	States    any       `json:"states"`
	Whole     bool      `json:"whole"` // the message contains every node ID; otherwise only those of Group
	Group     int       `json:"group"`
	Groups    []counts  `json:"groups"`
	NodeIDs   []*nodeID `json:"node_ids"`
	History   history   `json:"history"`
	News      []news    `json:"news"`
}

// turnMessage contains the changes since the previous message.
type turnMessage struct {
	status
	Point   *point         `json:"point,omitempty"`
	Groups  map[int]counts `json:"groups,omitempty"`
	NodeIDs []*nodeID      `json:"node_ids,omitempty"`
	Beats   []beat         `json:"beats,omitempty"`
	News    []news         `json:"news,omitempty"`
}

func (s *Server) status() status {
	now := time.Now()
	next, expired := s.model.late()
	first := func(all []*nodeID, most int) []*nodeID { return append([]*nodeID{}, all[:min(len(all), most)]...) } // never null in JSON
	return status{
		Now: now.UnixMilli(), Waits: s.model.waits(now), Outage: s.model.outage(now).Text(now), Size: s.model.pool.Size, Open: s.model.pool.OpenGroups, Total: s.model.total, Used: used(s.model.total),
		Late: first(next, mostLate), LateCount: len(next), Expired: first(expired, mostExpired), ExpiredCount: len(expired),
		Marks: s.marked, Line: s.said, Reads: s.reads, Verdict: s.verdict,
		ReadAt: millis(s.lastGood), AsOf: millis(s.model.asOf()), FullIn: s.history.fullIn().Milliseconds(), Slope: s.history.slope(),
	}
}

// isWhole reports whether pages show every node ID.
func (s *Server) isWhole() bool { return len(s.model.groups) <= wholeGroups }

func (s *Server) all(p *page) allMessage {
	m := allMessage{
		status: s.status(), Pool: s.pool, Title: s.title, Every: s.every.Milliseconds(), Threshold: nearlyFull, States: states,
		Whole: s.isWhole(), Group: p.group, History: s.history, News: s.news,
	}
	for g := range s.model.groups {
		m.Groups = append(m.Groups, s.model.groups[g].counts)
		if s.shows(p, g) {
			for i := range s.model.groups[g].nodeIDs {
				m.NodeIDs = append(m.NodeIDs, &s.model.groups[g].nodeIDs[i])
			}
		}
	}
	return m
}

// changed returns the changes of a turn that concern a page.
func (s *Server) changed(p *page, c *change) turnMessage {
	m := turnMessage{status: s.status(), Groups: c.groups, News: s.fresh}
	if s.failure.err == nil {
		m.Point = s.history.last()
	}
	for g := range s.model.groups {
		if s.shows(p, g) {
			m.NodeIDs = append(m.NodeIDs, c.nodeIDs[g]...)
			m.Beats = append(m.Beats, c.beats[g]...)
		}
	}
	return m
}

// shows reports whether a page shows the node IDs of a group.
func (s *Server) shows(p *page, group int) bool { return s.isWhole() || p.group == group }

var _ Source = (lease.Store)(nil)
