package history

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var trace = flag.String("trace", "", "path of a saved history to judge again")

// TestReplay judges a saved history again: the file of -trace or, without that flag, a
// history of its own that breaks S1.
func TestReplay(t *testing.T) {
	if *trace == "" {
		var rec Recorder
		for _, e := range append(held(), claim(2, 2, 21, 60)) {
			_ = rec.Add(e)
		}
		path, err := rec.Save()
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		if got, want := replay(t, path), rec.Err(); want == nil || got == nil || got.Error() != want.Error() {
			t.Errorf("%v, want %v", got, want)
		}
		return
	}
	if err := replay(t, *trace); err != nil {
		t.Error(err)
	}
}

func replay(t *testing.T, path string) error {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, err := Replay(f)
	t.Logf("%d events", n)
	return err
}

// Events of node 7.

func seed() Event { return Event{Kind: Item, Op: Seed, Node: 7, Until: 10} }
func claim(version int64, who int, notBefore, until int64) Event {
	return Event{Kind: Item, Op: Claim, Node: 7, Who: who, Held: true, Version: version, NotBefore: notBefore, Until: until, Expires: until - 1}
}
func renew(who int, renewal, until int64) Event {
	return Event{Kind: Item, Op: Renew, Node: 7, Who: who, Held: true, Version: 1, NotBefore: 10, Renewal: renewal, Until: until, Expires: until - 1}
}
func free(op Op, until int64) Event {
	return Event{Kind: Item, Op: op, Node: 7, Version: 1, NotBefore: 10, Until: until}
}
func may(who int, version, until int64) Event {
	return Event{Kind: May, Node: 7, Who: who, Version: version, Until: until}
}
func stamp(who int, version, ms int64) Event {
	return Event{Kind: Stamp, Node: 7, Who: who, Version: version, MS: ms, ID: ms}
}
func hold(who int, version int64) Event {
	return Event{Kind: Hold, Node: 7, Who: who, Version: version}
}

func ask(who int, until int64) Event {
	return Event{Kind: Ask, Who: who, Node: 7, Version: 1, Until: until}
}

func copied(who, of int, until int64) Event {
	return Event{Kind: Copy, Who: who, Of: of, Node: 7, Version: 1, Until: until}
}

// both returns the events with which two processes, an original and its copy, are told of
// the same renewal.
func both(one, other int) []Event {
	return []Event{may(one, 1, 40), renew(1, 3, 50), may(other, 1, 50)}
}

// held returns the events after which process 1 holds a node ID with version 1, has renewed
// once, and may stamp up to 30.
func held() []Event {
	return []Event{{Kind: World, Bounded: true}, seed(), claim(1, 1, 10, 20), may(1, 1, 20), stamp(1, 1, 15), renew(1, 1, 30), may(1, 1, 30), hold(1, 1)}
}

func TestWhatIsAllowed(t *testing.T) {
	for name, events := range map[string][]Event{
		"a late renewal is confirmed later":          {renew(1, 4, 60), may(1, 1, 60), stamp(1, 1, 60)},
		"release, then another one":                  {stamp(1, 1, 25), free(Release, 25), {Kind: Unhold, Who: 1}, claim(2, 2, 25, 50), may(2, 2, 50), hold(2, 2), stamp(2, 2, 26)},
		"an old holder stamps its own span":          {claim(2, 2, 30, 50), may(2, 2, 50), stamp(2, 2, 31), stamp(1, 1, 30)},
		"learns late what it may stamp":              {renew(1, 2, 40), claim(2, 2, 40, 50), may(1, 1, 40), stamp(1, 1, 40)},
		"learns of a span that it has released":      {stamp(1, 1, 25), free(Release, 25), may(1, 1, 30)},
		"reaped, and still stamping":                 {free(Free, 30), stamp(1, 1, 30)},
		"abandoned by a holder that never stamped":   {claim(2, 2, 30, 50), {Kind: Item, Op: Abandon, Node: 7, Version: 2, NotBefore: 30, Until: 30}, claim(3, 3, 30, 60)},
		"a version that was never used":              {claim(2, 2, 30, 50), claim(3, 3, 50, 60), may(3, 3, 60), stamp(3, 3, 51)},
		"retired, and the holder finishes":           {{Kind: Item, Op: Retire, Node: 7, Who: 1, Held: true, Version: 1, NotBefore: 10, Renewal: 1, Expires: 29, Until: 30}, renew(1, 2, 40)},
		"raised after a restore":                     {free(Raise, 99)},
		"one believer after the other":               {{Kind: Unhold, Who: 1}, hold(2, 2)},
		"two believers in two different ones":        {{Kind: Hold, Node: 8, Who: 2, Version: 1}},
		"lost to another one":                        {claim(2, 2, 30, 50), {Kind: Lost, Who: 1, Node: 7, Version: 1}},
		"lost before its milliseconds begin":         {claim(2, 2, 30, 50), {Kind: Lost, Who: 2, Node: 7, Version: 2, At: 29}},
		"lost to the reaper":                         {free(Free, 30), {Kind: Lost, Who: 1, Node: 7, Version: 1}},
		"the same one believes again":                {hold(1, 1)},
		"two believers where clocks are wrong":       {{Kind: World}, hold(2, 2)},
		"a copy stamps reserved time":                {copied(2, 1, 30), stamp(2, 1, 15), stamp(1, 1, 29), stamp(2, 1, 29), hold(2, 1)},
		"the original renews, its copy is lost":      {copied(2, 1, 30), renew(1, 2, 40), may(1, 1, 40), {Kind: Lost, Who: 2, Node: 7, Version: 1}, stamp(1, 1, 40)},
		"the copy renews, the original is lost":      {copied(2, 1, 30), renew(1, 2, 40), may(2, 1, 40), {Kind: Lost, Who: 1, Node: 7, Version: 1}, stamp(2, 1, 40)},
		"both asked for the same milliseconds":       {copied(2, 1, 30), ask(1, 40), ask(2, 40), renew(1, 2, 40), may(1, 1, 40), may(2, 1, 40), stamp(1, 1, 40), stamp(2, 1, 40), renew(1, 3, 50), may(2, 1, 50), {Kind: Lost, Who: 1, Node: 7, Version: 1}},
		"both asked for the same, one had no answer": {copied(2, 1, 30), ask(1, 40), ask(2, 40), renew(1, 2, 40), may(2, 1, 40), stamp(2, 1, 40), ask(1, 50), renew(1, 3, 50), may(1, 1, 50), stamp(1, 1, 40), {Kind: Lost, Who: 2, Node: 7, Version: 1}},
		"released while a renewal had no answer":     {copied(2, 1, 30), renew(1, 2, 40), may(1, 1, 40), free(Release, 20), {Kind: Unhold, Who: 1}, claim(2, 3, 20, 50), stamp(2, 1, 29), stamp(3, 2, 29)},
		"released before either renewed":             {copied(2, 1, 30), stamp(2, 1, 25), free(Release, 20), {Kind: Unhold, Who: 1}, claim(2, 3, 20, 50), hold(2, 1), hold(3, 2), stamp(2, 1, 29), stamp(3, 2, 29)},
		"a broken item that is left alone":           {free(Release, 30), {Kind: Corrupt, Node: 7}, {Kind: Item, Op: Claim, Node: 7, Version: 2, Who: 2, Held: true}},
		"a claim of a broken item is undone":         {free(Release, 30), {Kind: Corrupt, Node: 7}, claim(2, 2, 0, 50), free(Abandon, 50), {Kind: Skip, Node: 7, Who: 2, Until: -1}},
		"the undone claim of it is replayed":         {free(Release, 30), {Kind: Corrupt, Node: 7}, claim(2, 2, 0, 50), free(Abandon, 50), claim(3, 2, 0, 50), {Kind: Skip, Node: 7, Who: 2, Until: -1}},
		"nothing worked when it was claimed":         {free(Release, 30), {Kind: Corrupt, Node: 7}, claim(2, 2, 0, 50), {Kind: Skip, Node: 7, Who: 2, Until: 1}},
		"broken, claimed blindly, and whole":         {stamp(1, 1, 29), free(Free, 30), {Kind: Corrupt, Node: 7}, claim(2, 2, 0, 20), claim(3, 3, 20, 25), may(3, 3, 25), {Kind: Item, Op: Renew, Node: 7, Who: 3, Held: true, Version: 3, Renewal: 1, NotBefore: 20, Expires: 27, Until: 28}},
		"raised, and its version still broken":       {free(Free, 30), {Kind: Corrupt, Node: 7}, {Kind: Item, Op: Raise, Node: 7, Until: 60}, {Kind: Item, Op: Claim, Node: 7, Who: 2, Held: true}},
		"freed and broken, and still stamping":       {free(Free, 30), {Kind: Corrupt, Node: 7}, claim(2, 2, 0, 50), stamp(1, 1, 30)},
		"followed, broken, and still stamping":       {claim(2, 2, 30, 50), {Kind: Corrupt, Node: 7}, claim(3, 3, 0, 60), stamp(1, 1, 29)},
		"created at the floor":                       {{Kind: Floor, Until: 50}, {Kind: Item, Op: Seed, Node: 8, Until: 50}, {Kind: Item, Op: Claim, Node: 8, Version: 1, Who: 1, Held: true, NotBefore: 50, Expires: 59, Until: 60}},
		"created below the floor, and raised":        {{Kind: Floor, Until: 50}, {Kind: Item, Op: Seed, Node: 8, Until: 49}, {Kind: Item, Op: Raise, Node: 8, Until: 50}, {Kind: Item, Op: Claim, Node: 8, Version: 1, Who: 1, Held: true, NotBefore: 50, Expires: 59, Until: 60}},
	} {
		var c Checker
		for i, e := range append(held(), events...) {
			if err := c.Add(e); err != nil {
				t.Errorf("%s: event %d, %+v: %v", name, i, e, err)
			}
		}
	}
}

func TestWhatIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		events []Event
		want   string
	}{
		"seeded again":                                 {[]Event{seed()}, "seeded again"},
		"made by a claim":                              {[]Event{{Kind: Item, Op: Claim, Node: 8, Version: 1}}, "was created by a claim"},
		"seeded with a version":                        {[]Event{{Kind: Item, Op: Seed, Node: 8, Version: 1}}, "with version 1"},
		"the version is reset":                         {[]Event{claim(1, 2, 30, 50)}, "from 1 to 1"},
		"the version jumps":                            {[]Event{claim(3, 2, 30, 50)}, "from 1 to 3"},
		"a renewal changes the version":                {[]Event{{Kind: Item, Op: Renew, Node: 7, Version: 2}}, "from 1 to 2"},
		"a span begins too early":                      {[]Event{claim(2, 2, 29, 50)}, "up to 30 was reserved"},
		"a span that ends before it begins":            {[]Event{claim(2, 2, 50, 49)}, "before it begins"},
		"a renewal lowers the reservation":             {[]Event{{Kind: Item, Op: Renew, Node: 7, Who: 1, Held: true, Version: 1, NotBefore: 10, Renewal: 2, Expires: 31, Until: 29}}, "lowered reserved_until from 30 to 29"},
		"a renewal lowers the expiry":                  {[]Event{{Kind: Item, Op: Renew, Node: 7, Who: 1, Held: true, Version: 1, NotBefore: 10, Renewal: 2, Expires: 28, Until: 30}}, "expires at 28"},
		"an older renewal lands":                       {[]Event{renew(1, 1, 31)}, "landed after renewal 1"},
		"a renewal by another":                         {[]Event{renew(2, 2, 40)}, "which does not hold it"},
		"a renewal of a freed node ID":                 {[]Event{free(Free, 30), renew(1, 2, 40)}, "which does not hold it"},
		"not_before moves":                             {[]Event{{Kind: Item, Op: Free, Node: 7, Version: 1, NotBefore: 11, Until: 30}}, "moved not_before"},
		"reaping lowers the reservation":               {[]Event{free(Free, 29)}, "lowered reserved_until"},
		"a release below the last stamp":               {[]Event{stamp(1, 1, 25), free(Release, 24)}, "25 was stamped"},
		"an ID after the release":                      {[]Event{stamp(1, 1, 25), free(Release, 25), stamp(1, 1, 26)}, "ends at 25"},
		"abandoned while in use":                       {[]Event{free(Abandon, 10)}, "though its holder may stamp up to 30"},
		"the same ID again":                            {[]Event{stamp(1, 1, 15)}, "made before"},
		"before the span":                              {[]Event{stamp(1, 1, 10)}, "before the first version"},
		"after the span":                               {[]Event{stamp(1, 1, 31)}, "ends at 30"},
		"in another one's span":                        {[]Event{claim(2, 2, 30, 50), stamp(1, 1, 31)}, "belongs to version 2"},
		"in the span of the one before":                {[]Event{claim(2, 2, 30, 50), stamp(2, 2, 30)}, "belongs to version 1"},
		"in a span of its own, but another one":        {[]Event{claim(2, 1, 30, 50), stamp(1, 1, 31)}, "belongs to version 2"},
		"believes in more than is reserved":            {[]Event{may(1, 1, 31)}, "which ends at 30"},
		"believes in more than a successor left":       {[]Event{claim(2, 2, 30, 50), may(1, 1, 31)}, "which ends at 30"},
		"believes in a version that never existed":     {[]Event{may(1, 2, 30)}, "never existed"},
		"believes in another holder's version":         {[]Event{may(2, 1, 30)}, "is process 1's"},
		"abandoned without need":                       {[]Event{{Kind: Lost, Who: 1, Node: 7, Version: 1, At: 10}}, "which it holds"},
		"two believers":                                {[]Event{hold(2, 2)}, "and so does process 1"},
		"an ID of a node ID that does not exist":       {[]Event{{Kind: Stamp, Node: 9, Who: 1, ID: 1, MS: 5}}, "no item"},
		"raised below the reservation":                 {[]Event{free(Raise, 20)}, "lowered reserved_until"},
		"released below the last stamp of another":     {[]Event{{Kind: Item, Op: Release, Node: 7, Version: 1, NotBefore: 10, Until: 14}}, "15 was stamped"},
		"a copy and its original both continue":        {append([]Event{copied(2, 1, 30), renew(1, 2, 40)}, both(1, 2)...), "and so may its copy"},
		"both asked for the same, and both continue":   {[]Event{copied(2, 1, 30), ask(1, 40), ask(2, 40), renew(1, 2, 40), may(1, 1, 40), may(2, 1, 40), ask(1, 50), renew(1, 3, 50), may(1, 1, 50), ask(2, 60), renew(1, 4, 60), may(2, 1, 60)}, "and so may its copy"},
		"an older request changes nothing":             {[]Event{copied(2, 1, 30), ask(1, 40), renew(1, 2, 40), may(1, 1, 40), ask(1, 50), renew(1, 3, 50), may(1, 1, 50), ask(2, 40), ask(2, 60), renew(1, 4, 60), may(2, 1, 60)}, "and so may its copy"},
		"a request without an answer reserves nothing": {[]Event{copied(2, 1, 30), ask(1, 40), ask(2, 40), renew(1, 2, 40), may(1, 1, 40), free(Release, 20), {Kind: Unhold, Who: 1}, claim(2, 3, 20, 50), may(3, 2, 50), stamp(3, 2, 39), stamp(2, 1, 39)}, "which process 3 made before"},
		"only one asked":                               {[]Event{copied(2, 1, 30), ask(1, 40), ask(1, 40), renew(1, 2, 40), may(1, 1, 40), may(2, 1, 40)}, "and so may its copy"},
		"a copy of a copy continues, too":              {append([]Event{copied(2, 1, 30), copied(3, 2, 30), renew(1, 2, 40)}, both(3, 1)...), "and so may its copy"},
		"a copy repeats what came later":               {[]Event{copied(2, 1, 30), renew(1, 2, 40), may(1, 1, 40), stamp(1, 1, 35), stamp(2, 1, 35)}, "which process 1 made before"},
		"a copy repeats its own ID":                    {[]Event{copied(2, 1, 30), stamp(2, 1, 29), stamp(2, 1, 29)}, "made before"},
		"a third one's span and a copy":                {[]Event{copied(2, 1, 30), renew(1, 2, 40), may(1, 1, 40), {Kind: Lost, Who: 2, Node: 7, Version: 1}, stamp(1, 1, 20), free(Release, 20), claim(2, 3, 20, 50), stamp(2, 1, 25)}, "belongs to version 2"},
		"a third one and a copy, too late":             {[]Event{copied(2, 1, 30), free(Release, 20), claim(2, 3, 20, 50), stamp(2, 1, 31)}, "belongs to version 2"},
		"a copied version that never existed":          {[]Event{copied(2, 1, 30), {Kind: Copy, Who: 4, Of: 1, Node: 7, Version: 3}}, "never existed"},
		"a broken item is used":                        {[]Event{free(Release, 30), {Kind: Corrupt, Node: 7}, claim(2, 2, 0, 50), may(2, 2, 50)}, "broken by hand"},
		"a claim of a broken item is not undone":       {[]Event{free(Release, 30), {Kind: Corrupt, Node: 7}, claim(2, 2, 0, 50), {Kind: Skip, Node: 7, Who: 2, Until: -1}}, "has not undone its claim"},
		"a broken item's span is stamped":              {[]Event{free(Release, 30), {Kind: Corrupt, Node: 7}, claim(2, 2, 0, 50), stamp(2, 2, 25)}, "broken by hand"},
		"freed and broken, and stamps behind":          {[]Event{free(Free, 30), {Kind: Corrupt, Node: 7}, claim(2, 2, 0, 50), stamp(1, 1, 31)}, "ends at 30"},
		"created below the floor, and claimed":         {[]Event{{Kind: Floor, Until: 50}, {Kind: Item, Op: Seed, Node: 8, Until: 49}, {Kind: Item, Op: Claim, Node: 8, Version: 1, Who: 1, Held: true, NotBefore: 49, Expires: 59, Until: 60}}, "created after the floor 50 was set"},
		"a release reserves":                           {[]Event{free(Release, 31)}, "a release reserves"},
		"begins below a confirmed span that was freed": {[]Event{free(Abandon, 10)}, "abandoned"},
	} {
		var rec Recorder
		for _, e := range held() {
			if err := rec.Add(e); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range c.events {
			_ = rec.Add(e)
		}
		if err := rec.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
