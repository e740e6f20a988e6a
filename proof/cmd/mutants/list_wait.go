package main

const (
	note     = "internal/protocol/note.go"
	waiting  = "internal/tenure/wait.go"
	awaiting = "pkg/lease/wait.go"
)

// Mutants of the code with which claimants wait for a node ID, and of the code with which a
// release passes its node ID on to them.
var waitMutants = []mutant{
	{"a release writes the note although nobody waits", note, `return n.Awaited(at) && recent < NotePlaces/2`, `return recent < NotePlaces/2`, "./internal/protocol"},
	{"a note from the future keeps releases writing", note, `return now.Before(n.Until) && !n.Until.After(now.Add(noteFar))`, `return now.Before(n.Until)`, "./internal/protocol"},
	{"a release writes whatever the note's time is", note, `"waiting_until BETWEEN :after AND :far"`, `"waiting_until >= :after AND :far = :far"`, "./internal/protocol"},
	{"a release writes when nobody waits any more", note, `"waiting_until BETWEEN :after AND :far"`, `"waiting_until <= :far AND :after = :after"`, "./internal/protocol"},
	{"a fleet that ends writes without bound", note, `return n.Awaited(at) && recent < NotePlaces/2`, `return n.Awaited(at)`, "./internal/protocol"},
	{"a late word of waiting comes back", note, `u.onlyIf = "waiting_until = :seen"`, `u.onlyIf = ":seen = :seen"`, "./internal/protocol"},
	{"a large note is polled", note, `if size > mostNote || Trimmed(av) != nil {`, `if Trimmed(av) != nil {`, "./internal/protocol"},
	{"a note whose time is none is polled", note, `if err != nil || !plausible(ms) {`, `if err != nil && !plausible(ms) {`, "./internal/protocol"},
	{"an offer of another place counts", note, `plausible(o.MS) && place(o.NodeID) == place(i) {`, `plausible(o.MS) {`, "./internal/protocol"},
	{"a failed note fails Close", closing, `		a.offer(ctx, t.Lease.NodeID)
`, `		if notes, ok := a.cfg.Store.(protocol.NoteStore); ok {
			_, err = notes.Note(ctx, a.cfg.Pool)
		}
		a.offer(ctx, t.Lease.NodeID)
`, herdsOwn},
	{"a silent note holds Close up", awaiting, `const offerLimit = time.Second / 2`, `const offerLimit = time.Hour`, herdsOwn},
	{"what a copy gave back is left in the note", closing, `if _, whole := freed.(protocol.Release); whole {`, `if freed != nil {`, herdsOwn},
	{"what was left is claimed without a look", awaiting, `if a.isFree(ctx, w, node) {`, `if true {`, herdsOwn},
	{"a denied note ends the wait", awaiting, `	case permanent(err), errors.As(err, &corrupt):
		w.Off = true
`, `	case permanent(err), errors.As(err, &corrupt):
`, herdsOwn},
	{"one partition at its limit is an outage", awaiting, `protocol.Reason(err) == "throttled"`, `false`, herdsOwn},
	{"two clocks correct each other at every poll", waiting, `if !w.note.Due(wall) || w.said && now-w.told < protocol.NoteSpan/2 {`, `if !w.note.Due(wall) {`, "./internal/tenure"},
	{"each who waits writes", waiting, `if !w.note.Due(wall) || w.said`, `if w.said`, "./internal/tenure"},
	{"polls do not back off", waiting, `func (w *Wait) Missed() { w.missed++ }`, `func (w *Wait) Missed() {}`, "./internal/tenure"},
	{"what was released before the note is not searched for", waiting, `again := w.recheck && w.Awaited(wall)`, `again := false`, herdsOwn},
	{"an old offer counts", waiting, `return age.Abs() <= freshOffer`, `return age.Abs() >= 0`, "./internal/tenure"},
	{"looks have no bound", waiting, `	w.looks--
`, ``, "./internal/tenure"},
	{"a look at a node ID of no pool", waiting, `return o.NodeID < p.ExcludeBelow || o.NodeID >= p.Limit() })`, `return false })`, "./internal/tenure"},
	{"what rests is forgotten", "internal/tenure/outlook.go", `o.Rests = append(o.Rests, Rest{l.NodeID, at})`, `_ = at`, "./internal/tenure"},
	{"the other free node IDs of a page are forgotten", waiting, `if w.On && n != claimed &&`, `if false &&`, "./internal/tenure"},
	{"a group is not read again", "internal/tenure/search.go", `s.turns[n] < s.turns[longest[0]]:`, `s.turns[n] > s.turns[longest[0]]:`, "./internal/tenure"},
	{"who has begun to wait searches four groups again", "internal/tenure/search.go", `{ s.Waiting, s.Paced = false, 0 }`, `{ s.Paced = 0 }`, herdsOwn},
	{"a release of which an answer was lost leaves nothing", closing, `res.Applied || l != nil && l.Holder == "" && l.Version == t.Lease.Version {`, `res.Applied || l != nil && false {`, herdsOwn},
	{"a crowded part with room opens groups", claim, `n == last && !chance && one`, `n == last && (!chance || true) && one`, herdsOwn},
	{"everybody's second page is the newest group", "internal/tenure/search.go", `return last + 1 - (last+2-first)/2, last`, `return last + 0*first, last`, "./internal/tenure"},
	{"a herd reads whole pages after a small part", "internal/tenure/search.go", `		size = protocol.LargePart
	case`, `		return 0, 0, false
	case`, "./internal/tenure"},
	{"a large part is read in a pool that is mostly taken", "internal/tenure/search.go", `s.parts == 1 && !s.Taken &&`, `s.parts == 1 &&`, "./internal/tenure"},
	{"a claimant whose claim was refused searches at once", "internal/tenure/search.go", `longest := min(s.took+s.took/4, longestPause)`, `longest := 0 * s.took`, "./internal/tenure"},
	{"a claimant whose claim was refused may search before others' claims are answered", "internal/tenure/search.go", `shortest := longest * 3 / 5`, `shortest := longest * 0`, "./internal/tenure"},
	{"a guess into a full pool", "internal/tenure/search.go", `return m.Fresh(now, skew) && 2*(m.Held+m.Cooling) >= p.Limit()-p.ExcludeBelow`, `return m.Fresh(now, skew) && false`, "./internal/tenure"},
	{"a pause has 32 bits", "internal/tenure/wait.go", `w.Dice.Int64N(int64(d))`, `w.Dice.Int32N(int32(d))`, "./internal/tenure"},
}
