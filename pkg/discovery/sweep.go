package discovery

import (
	"context"
	"errors"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// Sweep clears those entries of a pool whose lease is gone permanently (released,
// freed, or taken by another holder) and returns how many it cleared. The reaper calls
// Sweep after reaping. Sweep can run at any time, even several times at once. Nothing
// depends on it, because entries without a lease are not valid. It reads no clock, and
// replaces only records that are older than the next holder's first entry.
func Sweep(ctx context.Context, s Store, pool string) (cleared int, err error) {
	if protocol.IsNil(s) {
		return 0, errors.New("discovery: Sweep without a Store: use NewTable(client, table)")
	}
	if err := protocol.CheckContext(ctx); err != nil {
		return 0, err
	}
	lists, err := queryAll(ctx, s, pool, listsPlace)
	if err != nil {
		return 0, err
	}
	groups := map[int]holders{}
	for _, list := range lists {
		if list.Holder == "" || list.NodeID < 0 || list.NodeID >= protocol.MaxPoolSize {
			continue
		}
		n := list.NodeID / protocol.GroupSize
		if groups[n] == nil {
			if groups[n], err = readHolders(ctx, leasepool.Open(s.Leases(), pool), n); err != nil {
				return cleared, err
			}
		}
		if !groups[n].over(list) {
			continue
		}
		buried, err := bury(ctx, s, pool, list, list.Version)
		if cleared += buried; err != nil {
			return cleared, err
		}
	}
	return cleared, nil
}

// over reports whether the record's holder is gone permanently. That is certain once the
// record's version is no longer held, because a version is never held again. If the lease
// has an older version than the record, the lease was read too early and proves nothing.
func (h holders) over(r record) bool {
	l, ok := h[r.NodeID]
	return ok && (l.version > r.Version || l.version == r.Version && l.session != r.Holder)
}

// bury clears the entries in a list, and then the list. The caller knows that the holders
// of all versions up to version are gone permanently.
func bury(ctx context.Context, s Store, pool string, list record, version int64) (cleared int, err error) {
	for _, text := range list.Places {
		p, ok := parsePlace(text)
		if !ok {
			continue // corrupt: never write where it points
		}
		ok, err := clearRecord(ctx, s, p.in(pool), buried(list.NodeID, version))
		if err != nil {
			return cleared, err
		}
		if ok {
			cleared++
		}
	}
	_, err = clearRecord(ctx, s, listsOf(pool, list.NodeID), buried(list.NodeID, version))
	return cleared, err
}

// clearRecord writes one record, and reports whether it has written it. If the stored
// record is newer, clearRecord returns no error.
func clearRecord(ctx context.Context, s Store, partition string, r record) (bool, error) {
	err := put(ctx, s, partition, r)
	var newer *newerError
	if errors.As(err, &newer) {
		return false, nil
	}
	return err == nil, err
}
