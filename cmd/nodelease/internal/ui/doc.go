// Package ui is the page of `nodelease ui`, which shows a pool. It begins with a verdict
// on the pool and the age of that verdict. Below, it shows every node ID with its state,
// who holds it and since when, which leases are close to their end, and how full the pool is, was and
// will be.
//
//	lease.Store ──▶ reader ──▶ model ──▶ hub ──▶ a page (server-sent events)
//	   groups, once an         what        └───▶ a page
//	   interval in all         changed
//
// The page changes nothing, in the table or elsewhere: no request to the page can change anything. It
// listens only on the loopback interface, answers only requests that name this
// machine as their host (another name that was rebound to it is refused), refuses
// requests from other web pages, and loads nothing from elsewhere. It shows no session in full,
// and cuts and escapes text from holders. However many pages are open, the pool is
// read once per interval, at most readsPerTurn groups at a time. While no page is
// open, the pool is read only every Options.Idle, if at all.
//
// The page shows no more than the table records. A task that was killed still holds
// its node ID there until its lease ends, and each state is as old as the last read
// of its group.
package ui
