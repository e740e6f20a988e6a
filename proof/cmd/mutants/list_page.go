package main

const pageOwn = "./cmd/nodelease/internal/ui"

// The mutants of nodelease ui's page: of the texts that it shows, of the memory that it
// keeps, and of the requests that it refuses.
var pageMutants = []mutant{
	{"page: cooling node IDs count as room", "cmd/nodelease/internal/ui/verdict.go", `taken := 100 * float64(capacity-free)`, `taken := 100 * float64(held)`, pageOwn},
	{"page: node IDs that no width has room for are missing", "cmd/nodelease/internal/ui/model.go", `size := min(m.pool.Limit()-from, protocol.GroupSize)`, `size := min(m.pool.Size-from, protocol.GroupSize)`, pageOwn},
	{"page: a corrupt item has any node ID", "cmd/nodelease/internal/ui/model.go", `c.NodeID/protocol.GroupSize != index`, `c.NodeID < 0`, pageOwn},
	{"page: node IDs are seeded again without a floor", "cmd/nodelease/internal/remedy/remedy.go", `seed --size %d --floor +1m`, `seed --size %d`, pageOwn},
	{"page: mostly expired looks calm", "cmd/nodelease/internal/ui/verdict.go", `case expired > held && expired > 2:`, `case expired > held && expired < 0:`, pageOwn},
	{"page: an outage looks like the pool before", "cmd/nodelease/internal/ui/verdict.go", `case s.failure.err != nil && !slow:`, `case s.failure.err != nil && !slow && !s.whole:`, pageOwn},
	{"page: sessions are found by parts", "cmd/nodelease/internal/ui/find.go", `text == strings.ToLower(n.holder) ||`, `strings.Contains(n.holder, text) ||`, pageOwn},
	{"page: a task has any length", "cmd/nodelease/internal/ui/state.go", `text.Line(l.Task)`, `l.Task`, pageOwn},
	{"page: other sites may read", "internal/local/local.go", `case site == "" || site == "none", g.Page && site == "same-origin":`, `case site == "" || site == "none", g.Page:`, pageOwn},
	{"page: the history has no end", "cmd/nodelease/internal/ui/news.go", `len(s.kept) > mostKept+mostKept/10`, `len(s.kept) < 0`, pageOwn},
	{"page: a projection over a gap", "cmd/nodelease/internal/ui/history.go", `i >= 0 && h.Used[i] != nil && h.At[len(h.At)-1]-h.At[i] <= d.`, `i >= 0 && h.At[len(h.At)-1]-h.At[i] <= d.`, pageOwn},
	{"page: points have no end", "cmd/nodelease/internal/ui/history.go", `if len(h.At) > mostPoints {`, `if len(h.At) < 0 {`, pageOwn},
	{"page: a minute keeps its last point alone", "cmd/nodelease/internal/ui/history.go", `max(*short.Used[k], *h.Used[i]), *short.Claimed[k]+*h.Claimed[i]`, `*h.Used[i], *h.Claimed[i]`, pageOwn},
	{"page: the first read begins again in each turn", "cmd/nodelease/internal/ui/reader.go", `		if !s.known(i) {`, `		if i >= 0 {`, pageOwn},
	{"page: a pool with node IDs that can be claimed is full", "cmd/nodelease/internal/ui/verdict.go", `case free == 0 && claimable == 0:`, `case free == 0 && claimable >= 0:`, pageOwn},
	{"page: a resize is advised before the floor of a pool", "cmd/nodelease/internal/ui/verdict.go", `if !first.IsZero() && !s.model.pool.Floor.Before(first) {`, `if !first.IsZero() && s.model.pool.Size < 0 {`, pageOwn},
	{"page: node IDs that are gone stay", "cmd/nodelease/internal/ui/hub.go", `p.synced && !grown && !c.gone`, `p.synced && !grown`, pageOwn},
	{"page: points of the future stay", "cmd/nodelease/internal/ui/history.go", `for n > 0 && h.At[n-1] > at.UnixMilli() {`, `for n > 0 && h.At[n-1] < 0 {`, pageOwn},
	{"page: nobody reads while nobody looks", "cmd/nodelease/internal/ui/hub.go", `case s.idle == 0:`, `case true:`, pageOwn},
	{"page: idle reading is as often as any", "cmd/nodelease/internal/ui/hub.go", `due = time.After(max(s.idle-s.every, 0))`, `due = time.After(0)`, pageOwn},
	{"page: places that were looked up have no end", "cmd/nodelease/internal/ui/lists.go", `if len(l.known) >= mostLookups || l.known == nil {`, `if l.known == nil {`, pageOwn},
	{"page: a search of the history takes parts of node IDs", "cmd/nodelease/internal/ui/news.go", `return strconv.Itoa(n.NodeID) == w.text`, `return strings.Contains(strconv.Itoa(n.NodeID), w.text)`, pageOwn},
	{"lease: a closed body breaks the connection", "pkg/lease/open.go", `plainBodies{lastaddress.Remember(transport)},`, `lastaddress.Remember(transport),`, leaseOwn},
	{"cli: a wide character has no end on a tiny terminal", "cmd/nodelease/terminal.go", `if ansi.StringWidth(ansi.Truncate(word, room, "")) == 0 {`, `if len(word) == 0 {`, cliOwn},
	{"cli: the page waits for the browser", "cmd/nodelease/ui.go", `				go func() {
					if err := browse(url); err`, `				func() {
					if err := browse(url); err`, cliOwn},
	{"demo: a tiny terminal ends the demo", "cmd/nodelease/internal/demo/render.go", `full := int(float64(max(0, width-2)) *`, `full := int(float64(width-2) *`, "./cmd/nodelease/internal/demo"},
	{"cli: text of others begins a line", "cmd/nodelease/terminal.go", `b.WriteString(ansi.Truncate(word, room, "") + "\n" + strings.Repeat(" ", indent))`, `b.WriteString(ansi.Truncate(word, room, "") + "\n")`, cliOwn},
	{"local: a name that anybody can register is answered", "internal/local/local.go", `!strings.Contains(strings.TrimSuffix(name, "."), ".") ||`, `name != "" ||`, "./internal/local"},
	{"local: a name that leads elsewhere is listened on", "internal/local/listen.go", `!ok || !a.IP.IsLoopback()`, `!ok || a.IP == nil`, "./internal/local"},
	{"local: a server without a page answers pages", "internal/local/local.go", `if !(g.Page && origin == "http://"+r.Host) {`, `if origin != "http://"+r.Host {`, "./internal/local"},
}
