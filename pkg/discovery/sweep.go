package discovery

import (
	"context"
	"errors"

	"github.com/nodelease/nodelease/internal/protocol"
)

// Sweep clears those entries of a pool whose lease is gone permanently (released,
// freed, or taken by another holder) and returns how many it cleared. The reaper calls
// Sweep after reaping. Sweep can run at any time, even several times at once. Nothing
// depends on it, because entries without a lease are not valid. It reads no clock, and
// replaces only records that are older than the next holder's first entry.
//
// A corrupt entry that seems to be newer stays, and so does its list. Sweep clears all other
// entries, and then returns an error that names the first few of those that stay.
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
	var left []error
	groups := map[int]holders{}
	for _, list := range lists {
		if list.Holder == "" || list.NodeID < 0 || list.NodeID >= protocol.MaxPoolSize {
			continue
		}
		n := list.NodeID / protocol.GroupSize
		if groups[n] == nil {
			if groups[n], err = readHolders(ctx, s.Leases(), pool, n); err != nil {
				return cleared, errors.Join(append(left, err)...)
			}
		}
		if !groups[n].over(list) {
			continue
		}
		buried, err := bury(ctx, s, pool, list, list.Version)
		cleared += buried
		var newer *newerError
		switch {
		case err != nil && !errors.As(err, &newer):
			return cleared, errors.Join(append(left, err)...)
		case err != nil && len(left) < mostErrors:
			left = append(left, err)
		}
	}
	return cleared, errors.Join(left...)
}

// mostErrors bounds the error of a sweep, however many entries are corrupt.
const mostErrors = 10

// over reports whether the record's holder is gone permanently. That is certain once the
// record's version is no longer held, because a version is never held again. If the lease
// has an older version than the record, the lease was read too early and proves nothing.
func (h holders) over(r record) bool {
	l, ok := h[r.NodeID]
	return ok && (l.version > r.Version || l.version == r.Version && l.session != r.Holder)
}

// bury clears the entries in a list, and then the list. The caller knows that the holders
// of all versions up to version are gone permanently. The list stays if one of its entries
// is corrupt and seems to be newer; the error is then a newerError.
func bury(ctx context.Context, s Store, pool string, list record, version int64) (cleared int, err error) {
	var left *newerError
	for _, text := range list.Places {
		p, ok := parsePlace(text)
		if !ok {
			continue // corrupt: never write where it points
		}
		ok, err := clearRecord(ctx, s, p.in(pool), buried(list.NodeID, version))
		switch {
		case errors.As(err, &left):
		case err != nil:
			return cleared, err
		case ok:
			cleared++
		}
	}
	if left != nil {
		return cleared, left
	}
	_, err = clearRecord(ctx, s, listsOf(pool, list.NodeID), buried(list.NodeID, version))
	return cleared, err
}

// clearRecord writes one record, and reports whether it has written it. If the stored
// record is newer, clearRecord returns no error, unless that record is corrupt.
func clearRecord(ctx context.Context, s Store, partition string, r record) (bool, error) {
	now, applied, err := s.Write(ctx, partition, r)
	if err == nil && now.Corrupt != nil {
		err = &newerError{partition, r, now}
	}
	return applied, err
}
