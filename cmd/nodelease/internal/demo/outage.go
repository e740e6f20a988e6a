package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// away records that DynamoDB is down, and reports how long each task can make IDs
// without it, the oldest first.
func (b *Board) away(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.out = now
	b.say("outage", format, args...)
	for _, name := range b.byAge() {
		t := b.tasks[name]
		why := ""
		if t.member {
			why = "; as a member of the cluster it keeps a short lease"
		}
		b.say("alone", "%s, %s old: IDs for %s more%s", name, seconds(now.Sub(t.born)), seconds(max(0, t.idsUntil.Sub(now))), why)
	}
}

// stillMaking is the largest age of a task's last IDs at which the task is considered to be
// still making IDs. It allows for a busy machine, on which tasks have to wait.
const stillMaking = 500 * time.Millisecond

// back records that DynamoDB is up again, and reports which tasks made IDs throughout the
// outage.
func (b *Board) back(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, out := time.Now(), b.out
	b.out = time.Time{}
	b.say("back", "%s", text)
	for _, name := range b.byAge() {
		t := b.tasks[name]
		if now.Sub(t.lastIDs) <= stillMaking {
			b.sum.WentOn++
			b.say("went on", "%s, %s old, made IDs through the outage", name, seconds(now.Sub(t.born)))
			continue
		}
		b.sum.Stopped++
		b.say("stopped", "%s, %s old, made no IDs after %s of the outage", name, seconds(now.Sub(t.born)), seconds(max(0, t.lastIDs.Sub(out))))
	}
}

// byAge returns the tasks that have a node ID and are not dead, the oldest first.
func (b *Board) byAge() []string {
	var held []string
	for _, name := range slices.SortedFunc(maps.Keys(b.tasks), byNumber) {
		if t := b.tasks[name]; t.node >= 0 && t.status != taskDead {
			held = append(held, name)
		}
	}
	slices.SortStableFunc(held, func(x, y string) int { return cmp.Compare(b.tasks[x].born.UnixNano(), b.tasks[y].born.UnixNano()) })
	return held
}

// seconds formats a duration for people.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// isOut reports whether DynamoDB is down.
func (b *Board) isOut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.out.IsZero()
}
