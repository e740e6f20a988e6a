package demo

import (
	"context"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"

	"github.com/nodelease/nodelease/cmd/nodelease/internal/ui"
	"github.com/nodelease/nodelease/pkg/lease"
)

// pageEvery is how often the page reads the table: often enough to show a kill when it
// happens.
const pageEvery = 500 * time.Millisecond

// onPage are the kinds of news that the page cannot find in the table by itself.
var onPage = map[string]bool{
	"kill -9": true, "SIGSTOP": true, "SIGCONT": true, "SIGTERM": true, "clock": true, "outage": true, "back": true,
	"alone": true, "went on": true, "stopped": true, "suspended": true, "lost": true, "DUPLICATE": true, "DISORDER": true,
}

// withNode matches the words in which the director names the node ID of a task.
var withNode = regexp.MustCompile(`, with node (\d+)`)

// tellPage passes news to the page, with the node ID separate from the text.
func (b *Board) tellPage(n News) {
	if b.page == nil || !onPage[n.Kind] {
		return
	}
	number := -1
	if m := withNode.FindStringSubmatch(n.Text); m != nil {
		number, _ = strconv.Atoi(m[1])
	}
	b.page.Tell(number, n.Kind, withNode.ReplaceAllString(n.Text, ""))
}

// openPage opens the page of --ui, and puts its address on the board.
func (b *Board) openPage(store lease.Store) (*ui.Server, net.Listener, error) {
	l, err := ui.Listen("127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	page := ui.New(ui.Options{Source: store, Pool: b.opts.Pool, Title: b.opts.Table, Every: pageEvery, Idle: pageEvery, Marks: b.marks, Line: b.line})
	url := "http://" + l.Addr().String() + "/"
	b.mu.Lock()
	defer b.mu.Unlock()
	b.page, b.pageURL = page, url
	b.say("page", "%s", url)
	return page, l, nil
}

// servePage serves the page until ctx ends.
func (b *Board) servePage(ctx context.Context, page *ui.Server, l net.Listener) {
	if err := page.Serve(ctx, l); err != nil {
		b.Tell("page", "it has ended: %v", err)
	}
}

// marks returns the node IDs whose processes are frozen, dead or suspended.
func (b *Board) marks() map[int]string {
	marks := map[int]string{}
	for _, n := range b.snapshot().NodeIDs {
		switch n.State {
		case taskSuspended, taskFrozen, taskDead:
			marks[n.Node] = n.State
		}
	}
	return marks
}

// line describes the demo in one line.
func (b *Board) line() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("%s IDs compared, %s", thousands(b.sum.IDs), Count(b.sum.Duplicates, "duplicate"))
}
