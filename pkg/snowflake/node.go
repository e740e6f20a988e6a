package snowflake

// Node provides the timeline that generators draw from. Each of pkg/lease's providers
// is one, and so is *Timeline.
type Node interface {
	// Timeline returns the same timeline at every call: all generators on one node share
	// it.
	Timeline() *Timeline
}
