// Package clocks tests agents whose clocks are wrong: they jump ahead just before a claim or in
// the middle of one, they are an hour off and put right, or they are set back. Whatever a clock
// does, no ID may be made twice, and no agent may take over a lease that another relies on.
package clocks
