package cluster

import "time"

// Age makes every heartbeat look older.
func (c *Memory) Age(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, all := range c.alive {
		for key, m := range all {
			m.Heartbeat = m.Heartbeat.Add(-by)
			all[key] = m
		}
	}
}
