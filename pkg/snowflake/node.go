package snowflake

// Node provides the timeline from which generators draw. Each of pkg/lease's
// providers is a Node, and so is *Timeline.
type Node interface {
	// Timeline returns the same timeline at every call: all generators on one node share
	// it.
	Timeline() *Timeline
}
