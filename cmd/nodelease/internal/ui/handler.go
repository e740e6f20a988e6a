package ui

import (
	"embed"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/nodelease/nodelease/internal/local"
	"github.com/nodelease/nodelease/internal/protocol"
)

//go:embed page
var files embed.FS

// policy forbids the page to load anything from elsewhere, to run inline scripts, and to be
// shown in a frame. It allows data: images, which Pico uses for arrows and marks.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// ServeHTTP implements [http.Handler]. The page is read-only: every method but GET and HEAD
// is refused, and so is a request for another host.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	local.Harden(h)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	refused := local.Guard{Page: true}.Check(r)
	switch {
	case refused != nil && refused.Reason == local.BadHost:
		// If somebody else's name resolves to this machine (DNS rebinding), the site with
		// that name could otherwise read this page.
		http.Error(w, "this page is served only on this machine: open it as http://localhost:PORT/ or http://127.0.0.1:PORT/", http.StatusMisdirectedRequest)
		return
	case refused != nil:
		http.Error(w, "other web pages may not read this one: open it in its own window", http.StatusForbidden)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "this page is read-only: use the commands of nodelease to change a pool", http.StatusMethodNotAllowed)
		return
	}
	switch r.URL.Path {
	case "/events":
		s.serveEvents(w, r)
	case "/find":
		s.serveFind(w, r)
	case "/history":
		s.serveHistory(w, r)
	case "/services":
		s.serveServices(w, r)
	case "/members":
		s.serveMembers(w, r)
	default:
		serveFile(w, r)
	}
}

// serveEvents streams messages until the page is closed or the server ends.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	group := -1
	if text := r.URL.Query().Get("group"); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			http.Error(w, "group="+strconv.Quote(text)+" is not a group: use a number, 0 or more", http.StatusBadRequest)
			return
		}
		group = int(n)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	out := http.NewResponseController(w)
	if _, err := w.Write([]byte("retry: 1000\n\n")); err != nil || out.Flush() != nil {
		return
	}
	p := s.open(group)
	defer s.close(p)
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.gone:
			// The page then shows that the server has ended, and waits for another server.
			_, _ = w.Write([]byte("event: end\ndata: {}\n\n"))
			return
		case message, ok := <-p.out:
			if !ok {
				return // the page was too slow; it reconnects and receives everything
			}
			if _, err := w.Write(message); err != nil || out.Flush() != nil {
				return
			}
		}
	}
}

const (
	rowsPerPage = 50   // node IDs that an answer describes in full
	mostMarked  = 1024 // node IDs that an answer only names
	mostTold    = 200  // events in an answer
)

// sheet describes which page of all rows an answer contains.
type sheet struct {
	Total int `json:"total"`
	Page  int `json:"page"` // from 0
	Pages int `json:"pages"`
	Rows  int `json:"rows"` // how many rows a full page has
}

// sheetOf returns the page of rows that a request asks for.
func sheetOf[T any](r *http.Request, all []T) (sheet, []T) {
	at, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || at < 0 {
		at = 0
	}
	m := sheet{Total: len(all), Rows: rowsPerPage, Pages: max(1, (len(all)+rowsPerPage-1)/rowsPerPage)}
	m.Page = min(at, m.Pages-1)
	return m, append([]T{}, all[m.Page*rowsPerPage:min(len(all), (m.Page+1)*rowsPerPage)]...) // never null in JSON
}

// foundMessage is the answer to a search: one page of the node IDs found.
type foundMessage struct {
	sheet
	First  []*nodeID   `json:"first"`
	Named  []int       `json:"named"`  // found node IDs, among those that the page shows
	Groups map[int]int `json:"groups"` // how many in each group
}

// serveFind answers a search from the last read, without a read of its own.
func (s *Server) serveFind(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	group, err := strconv.Atoi(query.Get("group"))
	if err != nil {
		group = -1
	}
	q := strings.TrimSpace(query.Get("q"))
	s.mu.Lock()
	found := s.model.find(q)
	whole := s.isWhole()
	s.mu.Unlock()
	// No lock is needed for the node IDs found, because a new read replaces them and never
	// changes them.
	order(found, query.Get("sort"))
	m := foundMessage{Named: []int{}, Groups: map[int]int{}}
	m.sheet, m.First = sheetOf(r, found)
	if q != "" { // an empty search marks nothing
		for _, n := range found {
			in := n.ID / protocol.GroupSize
			m.Groups[in]++
			if (whole || in == group) && len(m.Named) < mostMarked {
				m.Named = append(m.Named, n.ID)
			}
		}
	}
	writeJSON(w, m)
}

// historyMessage lists the events seen, the newest first.
type historyMessage struct {
	Total int    `json:"total"`
	News  []news `json:"news"`
}

// serveHistory answers with the events of the history.
func (s *Server) serveHistory(w http.ResponseWriter, r *http.Request) {
	var m historyMessage
	s.mu.Lock()
	m.News, m.Total = s.kept.find(r.URL.Query().Get("q"), mostTold)
	s.mu.Unlock()
	writeJSON(w, m)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails if the page was closed
}
