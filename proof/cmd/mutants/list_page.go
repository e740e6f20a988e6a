package main

const pageOwn = "./cmd/nodelease/internal/ui"

// The mutants of what the page of nodelease ui says and keeps to itself.
var pageMutants = []mutant{
	{"page: cooling node IDs count as room", "cmd/nodelease/internal/ui/verdict.go", `taken := 100 * float64(capacity-free)`, `taken := 100 * float64(held)`, pageOwn},
	{"page: mostly expired looks calm", "cmd/nodelease/internal/ui/verdict.go", `case expired > held && expired > 2:`, `case expired > held && expired < 0:`, pageOwn},
	{"page: an outage looks like the pool before", "cmd/nodelease/internal/ui/verdict.go", `case s.failure.err != nil:`, `case s.failure.err != nil && !s.whole:`, pageOwn},
	{"page: sessions are found by parts", "cmd/nodelease/internal/ui/find.go", `text == strings.ToLower(n.holder) ||`, `strings.Contains(n.holder, text) ||`, pageOwn},
	{"page: a task has any length", "cmd/nodelease/internal/ui/state.go", `text.Line(l.Task)`, `l.Task`, pageOwn},
	{"page: other sites may read", "cmd/nodelease/internal/ui/handler.go", `case "", "none", "same-origin":`, `case "", "none", "same-origin", "same-site", "cross-site":`, pageOwn},
	{"page: the history has no end", "cmd/nodelease/internal/ui/news.go", `len(s.kept) > mostKept+mostKept/10`, `len(s.kept) < 0`, pageOwn},
	{"page: a projection over a gap", "cmd/nodelease/internal/ui/history.go", `n < mostFit && h.Used[i] != nil; i-- {`, `n < mostFit; i-- {
		if h.Used[i] == nil {
			continue
		}`, pageOwn},
}
