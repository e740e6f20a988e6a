package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"cirello.io/dynamolock/v2"
)

const (
	inOrderName = "dynamolock v2.1.0, in key order"
	randomName  = "dynamolock v2.1.0, in random order"
)

func dynamolockInOrder(endpoint string) contender { return dynamo(endpoint, inOrderName, order) }

func dynamolockAtRandom(endpoint string) contender { return dynamo(endpoint, randomName, rand.Perm) }

func order(n int) []int {
	o := make([]int, n)
	for i := range o {
		o[i] = i
	}
	return o
}

// dynamo leases node IDs with a library for locks. Each node ID is a lock. A claimant tries
// one lock after the other, and does not wait for a lock that is taken.
func dynamo(endpoint, name string, order func(int) []int) contender {
	return contender{name, func(ctx context.Context, m *meter, n int, t terms) (nodeIDs, error) {
		table, err := createTable(ctx, newClient(endpoint, newMeter()), "key", "")
		return &locks{client: newClient(endpoint, m), table: table, n: n, terms: t, order: order}, err
	}}
}

type locks struct {
	client dynamolock.DynamoDBClient
	table  string
	n      int
	terms  terms
	order  func(int) []int
}

func (l *locks) claim(ctx context.Context) (held, error) {
	c, err := dynamolock.New(l.client, l.table, dynamolock.WithLeaseDuration(l.terms.lease), dynamolock.DisableHeartbeat())
	if err != nil {
		return nil, err
	}
	options := []dynamolock.AcquireLockOption{
		// A claimant that has lost a race tries again after this time; the default is 1 s.
		dynamolock.WithRefreshPeriod(10 * time.Millisecond),
	}
	if l.n > 1 {
		options = append(options, dynamolock.FailIfLocked())
	} else { // there is no other node ID to try
		options = append(options, dynamolock.WithAdditionalTimeToWaitForLock(time.Minute))
	}
	for _, n := range l.order(l.n) {
		lock, err := c.AcquireLockWithContext(ctx, strconv.Itoa(n), options...)
		var taken *dynamolock.LockNotGrantedError
		if errors.As(err, &taken) {
			continue
		}
		return &locked{c, lock, n, l.terms}, err
	}
	return nil, fmt.Errorf("all %d are locked", l.n)
}

func (l *locks) close() {}

type locked struct {
	client *dynamolock.Client
	lock   *dynamolock.Lock
	n      int
	terms  terms
}

func (l *locked) nodeID() int { return l.n }

func (l *locked) renewals(ctx context.Context, n int) ([]time.Duration, error) {
	return timed(l.terms, n, func() error { return l.client.SendHeartbeatWithContext(in(ctx, renewing), l.lock) })
}

func (l *locked) crash() {}

func (l *locked) release(ctx context.Context) error {
	_, err := l.client.ReleaseLockWithContext(in(ctx, releasing), l.lock)
	return err
}
