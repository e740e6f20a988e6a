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

// ExpiryPolicy is what an agent does when the deadline passes without a confirmed
// renewal, because the store is unreachable or the process was frozen.
type ExpiryPolicy int

const (
	// Resume suspends the lease and keeps trying to renew it. If nobody has taken the node
	// ID meanwhile, the holder resumes, so an outage of DynamoDB does not restart a fleet.
	Resume ExpiryPolicy = iota
	// Stop treats the lease as lost at the deadline. It is for holders that use the node ID
	// not only to make IDs, and cannot check the lease at each use.
	Stop
)

// LostPolicy is what an agent does when it loses its node ID to someone else.
type LostPolicy int

const (
	// StopOnLoss closes Done; Err returns the reason.
	StopOnLoss LostPolicy = iota
	// Reacquire claims another node ID with the same agent. NodeID then returns the new node
	// ID, and generators switch to it automatically.
	Reacquire
)

// Config configures an agent: its pool, the timings of its lease, and the name of this
// process. The zero value works inside a task that the CDK construct has set up.
type Config struct {
	// Table is the name of the DynamoDB table, or its ARN if the table belongs to another
	// account. Defaults to $NODELEASE_TABLE. It is not needed if Store is set.
	Table string
	// Pool is the name of a pool, that is, a set of node IDs: 1 to 64 characters of
	// [A-Za-z0-9._-]. Each pool is a separate ID space. Defaults to $NODELEASE_POOL.
	Pool string

	// TTL is the length of the lease, 1 s to 24 h. It determines how long a dead process's
	// node ID stays taken, and how long an outage may last before the lease is suspended.
	// Defaults to 15 s. If TTL is below 5 s, Guard and ClaimGuard must be set.
	TTL time.Duration
	// RenewEvery is the time between renewals, at most half of TTL; it varies at random by
	// up to 10 % either way. The first renewal after a start or an outage comes after 0.5 to
	// 1.5 times RenewEvery, so that the processes of a fleet do not renew in step. It comes
	// at the latest when two thirds of the time until the deadline have passed. Each renewal
	// costs one write unit. Defaults to TTL / 3.
	RenewEvery time.Duration
	// Guard is how long before the expiry of its lease a holder stops relying on the lease,
	// at most TTL less 1.2 times RenewEvery. The lease stays exclusive as long as the clocks
	// of two machines differ by no more than half of Guard + ClaimGuard; IDs stay unique
	// whatever the clocks show. Defaults to TTL / 5, at most 2 s.
	Guard time.Duration
	// ClaimGuard is how long after another holder's lease has expired this agent waits
	// before it claims that node ID.
	// Defaults to TTL / 10, at most 1 s.
	ClaimGuard time.Duration
	// Reserve is how far ahead each renewal reserves milliseconds, at least TTL +
	// ClaimGuard. With a larger Reserve, the process can make IDs during a longer outage,
	// although its node ID does not stay exclusive for longer. In exchange, the node ID of a
	// crashed process stays taken longer by the same amount. Defaults to TTL + ClaimGuard.
	Reserve time.Duration
	// MaxTTL and MaxReserve limit the growth of a lease. As its holder gets older, the lease
	// grows to a tenth of the holder's age, up to MaxTTL (24 h at most). Milliseconds are
	// reserved ahead for half of the holder's age, up to MaxReserve. Once fully grown, the
	// lease is renewed about every MaxTTL / 2, and the agent's generators can make IDs
	// during an outage of up to MaxReserve. In exchange, a crashed process's node ID stays
	// taken for half the time that the process lived, up to MaxReserve, and a copy of a
	// running machine is noticed minutes later; docs/operations.md lists the other costs.
	// Leases grow only while the pool has been measured and has room, and only for an agent
	// with a generator (see Grow). MaxTTL = TTL turns growth off. MaxReserve is at least
	// Reserve; in a narrow pool, it is limited to one minute, or to Reserve if that is
	// longer. MaxTTL and MaxReserve default to $NODELEASE_MAX_TTL and $NODELEASE_MAX_RESERVE
	// (durations such as 10m); without these variables, to 15 min (or TTL, if longer) and 4
	// h (or Reserve, if longer).
	MaxTTL, MaxReserve time.Duration
	// Grow allows the lease to grow even if the agent has no generator. Processes that watch
	// the lease to find out whether its holder is alive then notice a crash later.
	Grow bool

	// Task names this process for people. Defaults to the ECS task ARN, or to host and pid
	// outside ECS.
	Task string
	// Metadata, such as an address, a zone or a build, is stored with the lease. Task and
	// Metadata together may have at most 512 bytes, so that a renewal costs one write unit.
	// Agent.SetMetadata changes the metadata later.
	Metadata map[string]string

	// Wait is how long Start waits for a free node ID, and how long it retries errors that
	// may be temporary: expired tokens, missing permissions, a table or a pool that is being
	// created, a clock that differs from the store's. Defaults to 0: Start does not wait.
	Wait time.Duration
	// SeedIfMissing makes the agent seed the pool if it does not exist; all agents of a
	// fleet that starts at once may do so. Its Size has no effect on an existing pool. If
	// SeedIfMissing is nil, the default, the pool must be seeded by the bootstrap function
	// or the command line.
	SeedIfMissing *leasepool.Spec
	// OnExpiry defaults to Resume, and OnLost defaults to StopOnLoss.
	OnExpiry ExpiryPolicy
	OnLost   LostPolicy

	// Logger receives every event, from a separate goroutine. Defaults to
	// slog.Default().
	Logger *slog.Logger
	// OnEvent also receives every event, in order, from another goroutine. Neither Logger
	// nor OnEvent delays a renewal: if one of them hangs, its oldest events are dropped
	// (EventDropped), and Close waits for it for at most a second; if one of them panics, the
	// other receives a warning.
	OnEvent func(Event)
	// Store keeps the leases. Defaults to Open(ctx, Table, ""), DynamoDB with the
	// SDK's default configuration.
	Store Store
	// Clock is for tests and simulations. Defaults to the machine's clock.
	Clock Clock
}

// Clock reads the two clocks of a machine; see [snowflake.Clock].
type Clock = snowflake.Clock

// Defaults and limits of [Config].
const (
	// DefaultTTL is the length of a lease if Config.TTL is 0.
	DefaultTTL = protocol.DefaultTTL
	// maxText limits the bytes of user text, so that an item stays under 1 KB and each write
	// costs one write unit.
	maxText = 512
)

// withDefaults fills in missing values and reports all errors at once. For the names of
// tables, see
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html
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
	given := map[string]string{} // the environment variable that set an option, by option
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
		if name := given[option]; name != "" { // the user set the variable, not the option
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

// text returns the number of bytes of user text in the item: Task and Metadata.
func (c Config) text() int {
	n := len(c.Task)
	for k, v := range c.Metadata {
		n += len(k) + len(v)
	}
	return n
}

// timings returns the durations of the lease.
func (c Config) timings() tenure.Timings {
	return tenure.Timings{
		TTL: c.TTL, RenewEvery: c.RenewEvery, Guard: c.Guard, ClaimGuard: c.ClaimGuard, Reserve: c.Reserve, MaxTTL: c.MaxTTL, MaxReserve: c.MaxReserve,
	}
}
