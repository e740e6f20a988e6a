package ui

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/discovery"
)

// Source is the store that the page reads; every [lease.Store] is one.
type Source interface {
	PoolItem(ctx context.Context, pool string) (protocol.PoolItem, error)
	Group(ctx context.Context, pool string, group int) (protocol.Group, error)
}

// Server reads a pool for the pages that are open and serves them. It is safe
// for concurrent use; Serve does the reading.
type Server struct {
	source      Source
	pool, title string
	complete    func(words string) string
	every, idle time.Duration
	directory   *discovery.Directory
	lookups     lookups
	marks       func() map[int]string
	line        func() string

	wake chan struct{} // receives a value when a page is opened
	gone chan struct{} // closed when run returns

	mu    sync.Mutex
	whole bool // every group was read
	// wasWhole is the value of isWhole after the last turn.
	wasWhole bool
	model    model
	readAt   time.Time // when the last turn succeeded; zero if the reads were interrupted since
	lastGood time.Time // when a turn last succeeded
	failure  trouble   // why the last turn failed
	verdict  verdict
	reads    int // groups that the last turn read
	history  history
	news     []news
	kept     log    // all news, for the history
	fresh    []news // news since the last turn
	marked   map[int]string
	said     string
	pages    map[*page]bool
}

// Options configure a [Server].
type Options struct {
	Source Source
	Pool   string
	Title  string // the table's name
	// Command, if not nil, completes words such as "resize --size 64" to a command line
	// for this pool, for people to copy.
	Command func(words string) string
	Every   time.Duration // how often the pool is read while a page is open
	// Idle is how often the pool is read while no page is open, so that the history
	// continues; 0 means not at all.
	Idle time.Duration
	// Directory, if not nil, is where services are looked up.
	Directory *discovery.Directory
	// Marks, if not nil, returns additional knowledge about node IDs, such as that their
	// process is frozen or dead. It is called once per turn.
	Marks func() map[int]string
	// Line, if not nil, returns a line of text that is shown with the counts.
	Line func() string
}

// New returns a server. It reads nothing before Serve is called.
func New(o Options) *Server {
	return &Server{
		source: o.Source, pool: o.Pool, title: o.Title, complete: o.Command, every: o.Every, idle: o.Idle, directory: o.Directory, marks: o.Marks, line: o.Line,
		wake: make(chan struct{}, 1), gone: make(chan struct{}), pages: map[*page]bool{},
	}
}

// page is an open page, which receives a stream of messages.
type page struct {
	group  int // of a large pool, the group whose node IDs it shows; -1: none
	synced bool
	out    chan []byte // closed when the page is too slow; the page then reconnects
}

// backlog is how many messages a page may be behind.
const backlog = 8

// run reads the pool once per interval while a page is open, and rarely or never while no
// page is open, until ctx ends. It is called once.
func (s *Server) run(ctx context.Context) {
	defer close(s.gone)
	for {
		if !s.looked() && !s.rest(ctx) {
			return
		}
		s.turn(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.every):
		}
	}
}

// rest waits until a page is opened, or until it is time to read for the history. It
// returns false if ctx has ended.
func (s *Server) rest(ctx context.Context) bool {
	var due <-chan time.Time
	s.mu.Lock()
	switch {
	case s.idle == 0:
		s.readAt = time.Time{} // from here on the pool is not read
	case s.readAt.IsZero():
		s.mu.Unlock()
		return ctx.Err() == nil // the history begins now
	default:
		due = time.After(max(s.idle-s.every, 0))
	}
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return false
	case <-s.wake:
	case <-due:
	}
	return true
}

func (s *Server) looked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pages) > 0
}

// watched returns the groups whose node IDs some page shows.
func (s *Server) watched() map[int]bool {
	groups := map[int]bool{}
	for p := range s.pages {
		groups[p.group] = true
	}
	return groups
}

// open adds a page. The page first receives the whole pool, immediately if the pool was
// read recently.
func (s *Server) open(group int) *page {
	p := &page{group: group, out: make(chan []byte, backlog)}
	s.mu.Lock()
	s.pages[p] = true
	if !s.readAt.IsZero() && time.Since(s.readAt) < 2*s.every {
		s.send(p, nil)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return p
}

func (s *Server) close(p *page) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pages, p)
}

// Tell adds an event that the table does not show. node is -1 if the event concerns no node
// ID.
func (s *Server) Tell(node int, kind, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := news{NodeID: node, Kind: kind, Text: text, At: time.Now().UnixMilli()}
	s.keep(n)
	s.tell(n)
}

// finish ends a turn: it updates the history and the verdict, and sends the changes to
// every page.
func (s *Server) finish(c *change, read int, began time.Time, err error) {
	var marks map[int]string
	if s.marks != nil {
		marks = s.marks()
	}
	var line string
	if s.line != nil {
		line = s.line()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.marked, s.said, s.reads, s.failure = marks, line, read, trouble{err}
	if err == nil {
		if s.readAt.IsZero() {
			s.model.churn = churn{} // changes from before the gap do not count
			s.history.gap(began)
		}
		s.history.add(began, s.model.total, s.model.churn)
		s.model.churn = churn{}
		s.readAt, s.lastGood = now, now
	}
	for i := range c.news {
		c.news[i].At = now.UnixMilli()
		s.keep(c.news[i])
	}
	for _, n := range merged(c.news) {
		n.At = now.UnixMilli()
		s.tell(n)
	}
	s.decide(now)
	grown := s.whole && s.isWhole() != s.wasWhole
	s.wasWhole = s.isWhole()
	for p := range s.pages {
		// If the pool is now shown in another way, the page needs everything again.
		// Invariant: a page shows no node ID that the pool no longer has. A turn only adds node IDs.
		p.synced = p.synced && !grown && !c.gone
		s.send(p, c)
	}
	s.fresh = s.fresh[:0]
}

// send sends a page the changes, or everything if the page has nothing yet.
func (s *Server) send(p *page, c *change) {
	event, body := "turn", any(nil)
	switch {
	case !s.whole:
		event, body = "trouble", troubleMessage{time.Now().UnixMilli(), s.pool, s.every.Milliseconds(), s.verdict}
	case p.synced && c != nil:
		body = s.changed(p, c)
	default:
		event, body = "all", s.all(p)
		p.synced = true
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // cannot happen: all types can be JSON
	}
	message := slices.Concat([]byte("event: "+event+"\ndata: "), text, []byte("\n\n"))
	select {
	case p.out <- message:
	default:
		close(p.out)
		delete(s.pages, p)
	}
}
