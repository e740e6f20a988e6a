package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
)

// defaultMaxAge is a third of a lease's default length.
const defaultMaxAge = lease.DefaultTTL / 3

// Config configures a directory: the location of entries, and how recent answers must be.
type Config struct {
	// Pool is the pool of the leases. Defaults to $NODELEASE_POOL.
	Pool string
	// Store keeps the entries; required. NewTable returns one.
	Store Store
	// MaxAge is how old a cached answer may be, and so how long it may take until a new
	// or a deregistered instance is noticed. A dead instance is dropped when its lease
	// ends, regardless of MaxAge. Values above two thirds of a lease's length save no
	// further reads. 100 ms to 1 h; defaults to 5 s.
	MaxAge time.Duration
	// Alone makes a reader read the leases of the entries itself, and store no findings
	// for others. It is for operators' tools, which must not trust findings that any
	// process with write access may have stored. It costs a read of each group of leases.
	Alone bool
	// Logger receives warnings. Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Pool == "" {
		c.Pool = os.Getenv("NODELEASE_POOL")
	}
	if err := protocol.CheckPoolName(c.Pool); err != nil {
		errs = append(errs, err)
	}
	if protocol.IsNil(c.Store) {
		errs = append(errs, errors.New("no Store: use NewTable(client, table)"))
	}
	if c.MaxAge == 0 {
		c.MaxAge = defaultMaxAge
	}
	if c.MaxAge < 100*time.Millisecond || c.MaxAge > time.Hour {
		errs = append(errs, fmt.Errorf("MaxAge %v: use 100ms to 1h", c.MaxAge))
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if len(errs) > 0 {
		return c, fmt.Errorf("discovery: Config: %w", errors.Join(errs...))
	}
	return c, nil
}

// Directory registers and finds services. All of its methods are safe for concurrent
// use. Only one directory may register with an agent: a second one would deregister
// the offers of the first. New returns a Directory. Calls on a nil or zero Directory
// fail.
type Directory struct {
	cfg Config

	mu         sync.Mutex
	groups     map[int]*cached[group] // by the number of the group, for all lookups
	mute       time.Time              // no findings are published before this time
	registrars map[*lease.Agent]*registrar

	lists *asked // listsPlace and the last answer about it, for Names
}

// errAbsent is returned by a nil or zero Directory, Lookup or Names.
var errAbsent = errors.New("discovery: a nil or zero Directory, Lookup or Names: discovery.New returns a directory, whose methods return the others")

// absent reports whether d is nil or zero, and not from New.
func (d *Directory) absent() bool { return d == nil || d.lists == nil }

// usable returns an error if d, agent or ctx cannot be used to register or deregister.
func (d *Directory) usable(ctx context.Context, agent *lease.Agent) error {
	switch {
	case d.absent():
		return errAbsent
	case agent.Timeline() == nil:
		return errors.New("discovery: the agent is nil or zero: lease.Start returns one")
	// Otherwise, the entries would never be valid, and would block the entries of the holder
	// of the same node ID in this pool.
	case agent.Pool() != d.cfg.Pool:
		return fmt.Errorf("discovery: the agent leases from pool %q, and the directory is of pool %q: use one pool for both", agent.Pool(), d.cfg.Pool)
	}
	return protocol.CheckContext(ctx)
}

// New returns a directory; it sends no request.
func New(cfg Config) (*Directory, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Directory{
		cfg:    cfg,
		groups: map[int]*cached[group]{}, registrars: map[*lease.Agent]*registrar{},
	}
	d.lists = d.ask(listsPlace)
	return d, nil
}
