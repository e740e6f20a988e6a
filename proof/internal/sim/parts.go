package sim

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// part is something that a world may have: an actor or a kind of fault. The seed of a plan
// determines which parts its world has.
type part struct {
	chance float64 // the probability that a world has the part
	about  string
	// run carries out the activity of the part until ctx ends. It is nil if the part has no
	// activity of its own. In that case, other code checks whether the world has the part.
	run func(w *World, ctx context.Context)
}

// parts lists all parts, by the names that the flag -parts accepts.
var parts = map[string]part{
	// Actors.
	"operators":  {.8, "verbs of the pool in any order, several at once", (*World).operate},
	"raises":     {.5, "the operators also raise the pool, by up to two minutes", nil},
	"deploys":    {.8, "rolling deploys, and processes that are killed", (*World).deployments},
	"releases":   {.5, "each deploy changes TTL, Reserve and policies", nil},
	"reaper":     {.6, "the reaper on its schedule, with Lambda's time-out", (*World).reaper},
	"waiting":    {.3, "who finds no node ID waits for up to twenty minutes", nil},
	"poolmetric": {.3, "the pool is measured on a schedule", (*World).poolmetric},
	"sidecar":    {.4, "IDs are also asked for over the sidecar's HTTP, in batches", nil},
	"cluster":    {.35, "each process is a node of a cluster, with a listener that leads", nil},
	"discovery":  {.35, "each process registers a service, and looks for the others", nil},
	"abroad":     {.3, "agents start in another Region, where the table is a replica that is not safe", (*World).abroad},
	"copies":     {.35, "running processes are copied, with the same and with other dice", (*World).copies},
	// Faults.
	"weather": {.9, "the network and the store fail in all the ways of the climate", (*World).changes},
	"outages": {.4, "now and then the store is away for up to ten minutes", (*World).outages},
	"stale":   {.5, "eventually consistent reads show what was true up to three seconds ago", nil},
	"cards":   {.5, "hint cards are shown as they were up to 15 minutes ago, and written late and again", nil},
	"garbage": {.4, "answers that are not DynamoDB's", nil},
	"denied":  {.3, "expired tokens, missing permissions, and tables that seem to be gone", nil},
	"replay":  {.5, "any request that was ever sent is sent again, at any time", (*World).replays},
	"pauses":  {.8, "processes are paused anywhere", nil},
	"steps":   {.8, "wall clocks step", nil},
	"glitch":  {.3, "a wall clock is an hour ahead for two seconds", nil},
	"sinks":   {.3, "log sinks and hooks that block", nil},
	"corrupt": {.2, "somebody breaks items by hand", (*World).vandals},
	"layouts": {.2, "a deploy asks for another layout than the pool's", nil},
	"epoch":   {.1, "the layout's epoch is still to come when the pool begins", nil},
}

// has reports whether the world has a part. TestParts checks that all names in the code are
// in the table of parts.
func (p Plan) has(name string) bool { return p.Parts[name] }

// drawParts draws the parts of a world. Parts that were added later have random sources of
// their own, so that each seed still draws the same values for everything else.
func drawParts(seed uint64, r *rand.Rand) map[string]bool {
	all := map[string]bool{}
	own := map[string]*rand.Rand{"waiting": rand.New(rand.NewPCG(seed, 11)), "stale": rand.New(rand.NewPCG(seed, 12)), "cards": rand.New(rand.NewPCG(seed, 16)), "abroad": rand.New(rand.NewPCG(seed, 17))}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		dice := r
		if own[name] != nil {
			dice = own[name]
		}
		if dice.Float64() < parts[name].chance {
			all[name] = true
		}
	}
	return all
}

// fewParts draws two to six parts. Where two parts meet without others, states last that other
// parts would soon end.
func fewParts(seed uint64) map[string]bool {
	r := rand.New(rand.NewPCG(seed, 18))
	names := slices.Sorted(maps.Keys(parts))
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	all := map[string]bool{}
	for _, name := range names[:2+r.IntN(5)] {
		all[name] = true
	}
	return all
}

// leaveOut returns the parts without those of a list.
func leaveOut(all map[string]bool, list string) (map[string]bool, error) {
	if list == "" {
		return all, nil
	}
	// Invariant: a mistyped part is refused. The run would be taken for one without the part.
	out, err := ParseParts(list)
	left := maps.Clone(all)
	maps.DeleteFunc(left, func(name string, _ bool) bool { return out[name] })
	return left, err
}

// ParseParts parses a list of parts, separated by commas.
func ParseParts(list string) (map[string]bool, error) {
	all := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		if _, known := parts[name]; !known {
			return nil, fmt.Errorf("there is no part %q; the parts are: %s", name, strings.Join(slices.Sorted(maps.Keys(parts)), ", "))
		}
		all[name] = true
	}
	return all, nil
}

// start starts the parts that have an activity of their own.
func (w *World) start() {
	for name := range w.Plan.Parts {
		if run := parts[name].run; run != nil {
			w.background.Go(func() { run(w, w.troubles) })
		}
	}
}
