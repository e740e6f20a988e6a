package main

import (
	"encoding/json"
	"maps"

	"github.com/nodelease/nodelease/internal/text"
)

// clusterSession is the name in metadata under which pkg/cluster has the session of a
// cluster's node.
const clusterSession = "session_id"

// MarshalJSON leaves the sessions out, but for the ends that tell them apart. Output is
// kept in logs and passed on, and its readers need not be permitted to read the table.
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

// withheld is metadata without the session of a cluster's node, but for its end.
func withheld(metadata map[string]string) map[string]string {
	session := metadata[clusterSession]
	if text.Session(session) == session {
		return metadata
	}
	metadata = maps.Clone(metadata)
	metadata[clusterSession] = text.Session(session)
	return metadata
}
