package main

import (
	"encoding/json"
	"maps"

	"github.com/nodelease/nodelease/internal/text"
)

// clusterSession is the metadata name under which pkg/cluster stores the session of a
// cluster node.
const clusterSession = "session_id"

// MarshalJSON shows only the last characters of each session, which suffice to distinguish
// sessions. Output is kept in logs and passed on, and its readers may not be permitted to
// read the table.
func (n listedNode) MarshalJSON() ([]byte, error) {
	n.Holder, n.TakenFrom = text.Session(n.Holder), text.Session(n.TakenFrom)
	if n.Previous != nil {
		before := *n.Previous
		before.Session = text.Session(before.Session)
		n.Previous = &before
	}
	n.Metadata = withheld(n.Metadata)
	type plain listedNode // without this method
	return json.Marshal(plain(n))
}

// withheld returns metadata with only the last characters of the cluster node's session.
func withheld(metadata map[string]string) map[string]string {
	session := metadata[clusterSession]
	if text.Session(session) == session {
		return metadata
	}
	metadata = maps.Clone(metadata)
	metadata[clusterSession] = text.Session(session)
	return metadata
}
