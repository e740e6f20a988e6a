// Package ui is the page of `nodelease ui`: a pool to look at. It says first how
// the pool is and how old that is, and shows every node ID by its state, who holds
// it since when, whose lease runs low, and how full the pool is, was and will be.
//
//	lease.Store ──▶ reader ──▶ model ──▶ hub ──▶ a page (server-sent events)
//	   groups, once an         what        └───▶ a page
//	   interval in all         changed
//
// Promised: the page changes nothing, in the table or elsewhere. It has
// no request that could, listens only on the loopback interface, answers only
// hosts that are this machine (a name that was rebound to it is refused) and no
// other web page, and loads nothing from anywhere else. No session leaves it, and
// what holders write is cut and escaped. However many pages are open, the pool is
// read once an interval, at most readsPerTurn groups at a time, and not at all
// while no page is open.
//
// Not promised: that the page knows more than the table. A task that was killed
// still holds its node ID there until its lease ends, and each state is as old
// as the last read of its group.
package ui
