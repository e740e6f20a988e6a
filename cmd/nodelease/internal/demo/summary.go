package demo

import (
	"errors"
	"fmt"
	"time"
)

// Summary is the outcome of a demo; its JSON is a contract.
type Summary struct {
	Tasks      int     `json:"tasks"`      // size of the fleet: processes at a time
	IDs        int     `json:"ids"`        // IDs that reached a pipe
	Duplicates int     `json:"duplicates"` // IDs that any task had made before
	Kills      int     `json:"kills"`      // tasks killed with kill -9
	Freezes    int     `json:"freezes"`    // tasks stopped for longer than their lease
	Claims     int     `json:"claims"`     // nodeIDs claimed
	Renewals   int     `json:"renewals"`   // confirmed renewals
	Lost       int     `json:"lost"`       // leases lost to another holder, or freed
	Suspended  int     `json:"suspended"`  // deadlines that passed unconfirmed
	WentOn     int     `json:"went_on"`    // tasks that made IDs through the outage
	Stopped    int     `json:"stopped"`    // tasks that made no more IDs when the outage ended
	Seconds    float64 `json:"seconds"`    // from the fleet's start until its last process was gone
}

var (
	// ErrDuplicates is returned when an ID was made twice.
	ErrDuplicates = errors.New("IDs were made twice")
	// ErrDisorder is returned when a task's IDs did not strictly increase.
	ErrDisorder = errors.New("IDs did not increase")
	// ErrNoIDs is returned when the fleet ran and made no ID.
	ErrNoIDs = errors.New("no ID was made; run with --plain to see why")
	// ErrInterrupted is returned when the demo was ended before its time.
	ErrInterrupted = errors.New("interrupted")
)

// verdict describes the result of the comparison, if there is one.
func (b *Board) verdict() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	if n := b.sum.Duplicates; n > 0 {
		errs = append(errs, fmt.Errorf("%w: %d of %d", ErrDuplicates, n, b.sum.IDs))
	}
	if n := b.disorder; n > 0 {
		errs = append(errs, fmt.Errorf("%w: %d of %d are not greater than the one that the same task made before", ErrDisorder, n, b.sum.IDs))
	}
	return errors.Join(errs...)
}

// end records how long the demo took.
func (b *Board) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum.Seconds = float64(time.Since(b.began).Milliseconds()) / 1000
}

func (b *Board) summary() Summary {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sum
}
