package ui

import (
	"time"

	"github.com/nodelease/nodelease/pkg/lease"
)

// wholeGroups is up to how many groups a page shows number by number; larger
// pools are shown by group.
const wholeGroups = 4

// status is in every message.
type status struct {
	Now      int64          `json:"now"` // ms of the Unix epoch, as all times
	Size     int            `json:"size"`
	Open     int            `json:"open"` // groups that are open
	Total    counts         `json:"total"`
	Used     float64        `json:"used"`
	Late     []*number      `json:"late"`
	LateMore int            `json:"late_more"`
	Marks    map[int]string `json:"marks"` // null where nothing is known beside the table
	Line     string         `json:"line,omitempty"`
	Reads    int            `json:"reads"`
	Trouble  string         `json:"trouble,omitempty"`
}

// allMessage is the first message of a page.
type allMessage struct {
	status
	Pool    string    `json:"pool"`
	Title   string    `json:"title"`
	Every   int64     `json:"every"` // ms
	States  any       `json:"states"`
	Whole   bool      `json:"whole"` // every number is in it, else those of Group
	Group   int       `json:"group"`
	Groups  []counts  `json:"groups"`
	Numbers []*number `json:"numbers"`
	History history   `json:"history"`
	News    []news    `json:"news"`
}

// turnMessage is what changed since the message before.
type turnMessage struct {
	status
	Point   *point         `json:"point,omitempty"`
	Groups  map[int]counts `json:"groups,omitempty"`
	Numbers []*number      `json:"numbers,omitempty"`
	Beats   []beat         `json:"beats,omitempty"`
	News    []news         `json:"news,omitempty"`
}

func (s *Server) status() status {
	late, total := s.model.late()
	return status{
		Now: time.Now().UnixMilli(), Size: s.model.pool.Size, Open: s.model.pool.OpenGroups, Total: s.model.total, Used: used(s.model.total),
		Late: late, LateMore: total - len(late), Marks: s.marked, Line: s.said, Reads: s.reads, Trouble: s.trouble,
	}
}

// isWhole tells whether pages show every number.
func (s *Server) isWhole() bool { return len(s.model.groups) <= wholeGroups }

func (s *Server) all(p *page) allMessage {
	m := allMessage{
		status: s.status(), Pool: s.pool, Title: s.title, Every: s.every.Milliseconds(), States: states,
		Whole: s.isWhole(), Group: p.group, History: s.history, News: s.news,
	}
	for g := range s.model.groups {
		m.Groups = append(m.Groups, s.model.groups[g].counts)
		if s.shows(p, g) {
			for i := range s.model.groups[g].numbers {
				m.Numbers = append(m.Numbers, &s.model.groups[g].numbers[i])
			}
		}
	}
	return m
}

// changed is a turn as far as it concerns a page.
func (s *Server) changed(p *page, c *change) turnMessage {
	m := turnMessage{status: s.status(), Groups: c.groups, News: s.fresh}
	if s.trouble == "" {
		m.Point = s.history.last()
	}
	for g := range s.model.groups {
		if s.shows(p, g) {
			m.Numbers = append(m.Numbers, c.numbers[g]...)
			m.Beats = append(m.Beats, c.beats[g]...)
		}
	}
	return m
}

// shows tells whether a page shows the numbers of a group.
func (s *Server) shows(p *page, group int) bool { return s.isWhole() || p.group == group }

var _ Source = (lease.Store)(nil)
