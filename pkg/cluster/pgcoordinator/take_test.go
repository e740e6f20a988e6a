package pgcoordinator

import (
	"testing"

	"github.com/nodelease/nodelease/pkg/cluster"
)

// A row that no node writes, such as one that was inserted by hand, is no member. Otherwise a
// row without a session would be the leader of all members, for as long as its heartbeat says.
func TestRowThatIsNoMember(t *testing.T) {
	member := func(session, name string) cluster.Member {
		return cluster.Member{Cluster: "orders", Name: name, SessionID: session, NodeID: cluster.NoNodeID, Version: 1}
	}
	v := &view{}
	for _, all := range []bool{true, false} {
		v.take([]change{
			{Member: member("a", "first"), key: "@first", alive: true},
			{Member: member("", "by hand"), key: "@by hand", alive: true},
			{Member: member("b", "two\nlines"), key: "@two", alive: true},
		}, all)
		if len(v.members) != 1 || v.members[0].Name != "first" {
			t.Errorf("got %+v, want the first only", v.members)
		}
	}
	v.take([]change{{Member: member("", "first"), key: "@first", alive: true}}, false)
	if len(v.members) != 0 {
		t.Errorf("after its session was deleted by hand: got %+v, want no member", v.members)
	}
}
