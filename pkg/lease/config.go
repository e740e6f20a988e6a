package lease

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/tenure"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// ExpiryPolicy is the reaction to a deadline that passes without a confirmed renewal:
// the store is unreachable, or the process was frozen.
type ExpiryPolicy int

const (
	// Resume suspends the lease and keeps renewing. If nobody took the node ID in
	// between, the holder resumes: an outage of DynamoDB restarts no fleet.
	Resume ExpiryPolicy = iota
	// Stop ends the lease at the deadline, as if it were lost. It is for holders that
	// use the node ID for more than IDs and cannot check at each use.
	Stop
)

// LostPolicy is the reaction to the loss of the node ID to someone else.
type LostPolicy int

const (
	// StopOnLoss closes Done; Err returns the reason.
	StopOnLoss LostPolicy = iota
	// Reacquire claims another node ID with the same agent. NodeID changes, and
	// generators continue with the new one by themselves.
	Reacquire
)

// Config configures an agent: the pool, the timings of its leases, and the name of
// this process. Its zero value works inside a task that the CDK construct set up.
type Config struct {
	// Table is the name of the DynamoDB table, or its ARN where it is of another
	// account. Defaults to $NODELEASE_TABLE. Not needed with
	// a Store.
	Table string
	// Pool is the name of a set of node IDs; one pool is one ID space. 1 to 64 of
	// [A-Za-z0-9._-]. Defaults to $NODELEASE_POOL.
	Pool string

	// TTL is the length of the lease, 1 s to 24 h: how long a dead process's node
	// ID stays taken, and how long an outage may last until the holder suspends.
	// Defaults to 15 s. Below 5 s, Guard and ClaimGuard must be given.
	TTL time.Duration
	// RenewEvery is the time between renewals, up to half of TTL; each waits 10 %
	// more or less at random. The first one after a start or an outage comes after half
	// of it to one and a half of it, so that a fleet is out of step at once, and no later
	// than two thirds of the time for which the lease is still trusted. Each costs one write unit.
	// Defaults to TTL / 3.
	RenewEvery time.Duration
	// Guard is how long before the possible expiry the holder stops relying on the
	// lease, at most TTL less 1.2 times RenewEvery. Guard and ClaimGuard together
	// are at least twice the clock error between machines that exclusivity
	// tolerates; IDs stay unique without them. Defaults to TTL / 5, at most 2 s.
	Guard time.Duration
	// ClaimGuard is how long after its expiry someone else's lease is left alone.
	// Defaults to TTL / 10, at most 1 s.
	ClaimGuard time.Duration
	// Reserve is how far ahead milliseconds are reserved with each renewal, at
	// least TTL + ClaimGuard. With more, ID making (not exclusivity) outlasts a longer
	// outage, and a crashed process's node ID stays taken longer by the same time.
	// Defaults to TTL + ClaimGuard.
	Reserve time.Duration
	// MaxTTL and MaxReserve limit growth: with the age of its holder, a lease becomes as
	// long as a tenth of that age, up to MaxTTL (24 h at most), and milliseconds are
	// reserved ahead for half of it, up to MaxReserve. In the end there is a renewal about
	// every MaxTTL / 2, and ID making outlasts an outage of up to MaxReserve. In exchange,
	// a crashed process's node ID stays taken for half the time that the process lived, and
	// a copy of a running machine is noticed minutes later; docs/operations.md lists the
	// other costs. Leases grow while the pool has been measured and has room; those of an agent without
	// a generator do not, see Grow. MaxTTL = TTL turns growth off. MaxReserve is at least
	// TTL + ClaimGuard, and one minute in a narrow pool. Defaults to $NODELEASE_MAX_TTL and
	// $NODELEASE_MAX_RESERVE, such as 10m; else to 15 min, or TTL if that is longer, and to
	// 4 h.
	MaxTTL, MaxReserve time.Duration
	// Grow lets the lease grow without a generator. Processes that watch the lease to
	// learn whether its holder lives then learn of a crash later.
	Grow bool

	// Task names this process for people. Defaults to the ECS task ARN, else host
	// and pid.
	Task string
	// Metadata is stored with the lease: address, zone, build. Task and metadata
	// together are at most 512 bytes, so that a renewal costs one write unit.
	// Agent.SetMetadata changes it later.
	Metadata map[string]string

	// Wait is how long Start waits for a free node ID, and for errors that may pass:
	// expired tokens, permissions, a table or a pool that is being created, a wrong
	// clock. Defaults to 0, not at all.
	Wait time.Duration
	// SeedIfMissing lets the agent seed a missing pool, whether alone or with a
	// fleet that starts at once. Its Size has no effect on an existing pool.
	// Defaults to nil: the bootstrap function or the command line seeds.
	SeedIfMissing *leasepool.Spec
	// OnExpiry defaults to Resume, OnLost to StopOnLoss.
	OnExpiry ExpiryPolicy
	OnLost   LostPolicy

	// Logger receives every event, from a separate goroutine. Defaults to
	// slog.Default().
	Logger *slog.Logger
	// OnEvent receives every event too, in order, from another goroutine. Neither
	// delays a renewal or Close: if one hangs, the oldest events are dropped
	// (EventDropped); if one panics, the other receives a warning.
	OnEvent func(Event)
	// Store keeps the leases. Defaults to Open(ctx, Table, ""), DynamoDB with the
	// SDK's default configuration.
	Store Store
	// Clock is for tests and simulations. Defaults to the machine's.
	Clock Clock
}

// Clock reads the two clocks of a machine; see [snowflake.Clock].
type Clock = snowflake.Clock

// Defaults and limits of [Config].
const (
	// DefaultTTL is the length of a lease whose Config names none.
	DefaultTTL = protocol.DefaultTTL
	// An item with at most this much user text stays under 1 KB, one write unit.
	maxText = 512
)

// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html
// withDefaults fills in missing values and reports all errors at once.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if c.Table == "" {
		c.Table = os.Getenv("NODELEASE_TABLE")
	}
	if c.Pool == "" {
		c.Pool = os.Getenv("NODELEASE_POOL")
	}
	switch {
	case c.Store != nil && protocol.IsNil(c.Store):
		bad("Store is a nil %T: use the store that Open or NewDynamoDB returns, or leave it out", c.Store)
	case c.Store == nil:
		switch {
		case c.Table == "":
			bad("Table is empty: set it, or NODELEASE_TABLE (pool.Attach and pool.AttachFunction do)")
		default:
			if err := protocol.CheckTable(c.Table); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if c.Pool == "" {
		bad("Pool is empty: set it, or NODELEASE_POOL (pool.Attach and pool.AttachFunction do)")
	} else if err := protocol.CheckPoolName(c.Pool); err != nil {
		errs = append(errs, err)
	}
	given := map[string]string{} // option: the variable that it comes from
	for option, d := range map[string]*time.Duration{"MaxTTL": &c.MaxTTL, "MaxReserve": &c.MaxReserve} {
		name := map[string]string{"MaxTTL": "NODELEASE_MAX_TTL", "MaxReserve": "NODELEASE_MAX_RESERVE"}[option]
		if v := os.Getenv(name); *d == 0 && v != "" {
			var err error
			if *d, err = time.ParseDuration(v); err != nil {
				bad("%s is %q: give a duration such as 10m", name, v)
				*d = 0
			}
			given[option] = name
		}
	}
	t := c.timings()
	for _, err := range t.Complete() {
		option, rest, _ := strings.Cut(err.Error(), " ")
		if name := given[option]; name != "" { // no option of that name was set
			err = fmt.Errorf("the environment variable %s=%s; or unset it for this process", name, rest)
		}
		errs = append(errs, err)
	}
	c.TTL, c.RenewEvery, c.Guard, c.ClaimGuard, c.Reserve, c.MaxTTL, c.MaxReserve = t.TTL, t.RenewEvery, t.Guard, t.ClaimGuard, t.Reserve, t.MaxTTL, t.MaxReserve

	if c.Wait < 0 {
		bad("Wait %v is negative: use 0 for no waiting", c.Wait)
	}
	if c.OnExpiry != Resume && c.OnExpiry != Stop {
		bad("OnExpiry %d: use Resume or Stop", c.OnExpiry)
	}
	if c.OnLost != StopOnLoss && c.OnLost != Reacquire {
		bad("OnLost %d: use StopOnLoss or Reacquire", c.OnLost)
	}
	if v, ok := c.Metadata[""]; ok {
		bad("Metadata has an empty name for the value %q", v)
	}
	if text := c.text(); text > maxText {
		bad("Task and Metadata have %d bytes together, at most %d keep a renewal at one write unit: shorten them", text, maxText)
	}
	if c.Clock != nil && protocol.IsNil(c.Clock) {
		bad("Clock is a nil %T: leave it out to use the machine's", c.Clock)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if len(errs) > 0 {
		return c, fmt.Errorf("lease: Config: %w", errors.Join(errs...))
	}
	return c, nil
}

// text returns the number of bytes of the user's text in the item.
func (c Config) text() int {
	n := len(c.Task)
	for k, v := range c.Metadata {
		n += len(k) + len(v)
	}
	return n
}

// timings are the durations of the lease.
func (c Config) timings() tenure.Timings {
	return tenure.Timings{
		TTL: c.TTL, RenewEvery: c.RenewEvery, Guard: c.Guard, ClaimGuard: c.ClaimGuard, Reserve: c.Reserve, MaxTTL: c.MaxTTL, MaxReserve: c.MaxReserve,
	}
}
