// Package ui is the page of `nodelease ui`: a pool to look at. It shows every
// number by its state, who holds what since when, whose lease runs low, and how
// full the pool is and was, live.
//
//	lease.Store ──▶ reader ──▶ model ──▶ hub ──▶ a page (server-sent events)
//	   groups, once an         what        └───▶ a page
//	   interval in all         changed
//
// What is promised: the page changes nothing, in the table or elsewhere. It has
// no request that could, listens on the loopback interface alone, answers only
// hosts that are this machine (a name that was rebound to it is refused), and
// loads nothing from anywhere else. However many pages are open, the pool is
// read once an interval, at most readsPerTurn groups at a time, and not at all
// while nobody looks.
//
// What is not: that the page knows more than the table. A task that was killed
// still holds its number there until its lease ends, and what is shown is as old
// as the last read of its group.
package ui
