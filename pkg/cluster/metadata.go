package cluster

import "fmt"

// SetMetadata changes the named entries of the node's metadata and keeps the others; an
// empty value removes an entry. The next heartbeat writes the change; with an agent, the
// heartbeat is a renewal, which is sent at once. Other nodes see the change in State
// after their next read; the change causes no event. If SetMetadata returns an error,
// nothing has changed.
func (n *Node) SetMetadata(changes map[string]string) error {
	if n.absent() {
		return errAbsent
	}
	for name := range changes {
		if name == "" || n.cfg.Agent != nil && (name == metaNode || name == metaSession) {
			return fmt.Errorf("cluster: SetMetadata: the name %q is the cluster's own", name)
		}
	}
	if n.cfg.Agent != nil {
		if err := n.cfg.Agent.SetMetadata(changes); err != nil {
			return err
		}
		n.cfg.Agent.RenewNow()
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.now.self.clone()
	if m.Metadata == nil {
		m.Metadata = map[string]string{}
	}
	for name, value := range changes {
		if m.Metadata[name] = value; value == "" {
			delete(m.Metadata, name)
		}
	}
	if err := m.Validate(); err != nil {
		return fmt.Errorf("cluster: SetMetadata: %w", err)
	}
	n.now.self = m
	return nil
}
