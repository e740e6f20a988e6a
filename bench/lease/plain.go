package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/pkg/lease"
	"github.com/nodelease/nodelease/pkg/lease/leasepool"
)

// plainResult compares our store's writes with the simplest conditional write: an UpdateItem
// with a condition, sent with DynamoDB's client, whose answer is ignored.
type plainResult struct{ renew, claim, bare time.Duration } // medians

func (p plainResult) ratio() float64 { return float64(p.renew) / float64(p.bare) }

func (p plainResult) claimRatio() float64 { return float64(p.claim) / float64(p.bare) }

// comparePlain makes the three kinds of writes in turns, one write at a time, on items
// with the same attributes.
func comparePlain(ctx context.Context, endpoint string) (r plainResult, err error) {
	client := newClient(endpoint, newMeter())
	table, err := createTable(ctx, client, "pool_group", "node_id")
	if err != nil {
		return r, err
	}
	store := lease.NewDynamoDB(client, table)
	if _, err := leasepool.Open(store, "bench").Seed(ctx, leasepool.Spec{Size: 2}); err != nil {
		return r, err
	}
	claimOf := func(node int, session string, at time.Time) protocol.Claim {
		return protocol.Claim{
			Key: protocol.Key{Pool: "bench", NodeID: node}, Session: session, Task: "bench", At: at, ClaimGuard: time.Second, TTL: time.Second,
			ExpiresAt: at.Add(time.Second), ReservedUntil: at.Add(2 * time.Second),
		}
	}
	const key, session, warm, rounds = 0, "0190a6f2-7a58-7c2c-a1d1-3f6a1b9f3f10", 4000, 2000
	now := time.Now().Add(time.Hour)
	if res, err := store.Write(ctx, claimOf(key, session, now)); err != nil || !res.Applied {
		return r, fmt.Errorf("the claim: %+v, %w", res, err)
	}
	for n := range 2 {
		item := map[string]types.AttributeValue{
			"pool_group": str("plain"), "node_id": number(int64(n)), "holder": str(session), "task": str("bench"), "version": number(1), "renewal": number(0),
			"lease_ms": number(1000), "expires_at": number(now.UnixMilli()), "not_before": number(now.UnixMilli()), "reserved_until": number(now.UnixMilli()), "taken_from": str(session),
		}
		if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
			return r, err
		}
	}
	var renews, claims, bares []time.Duration
	measure := func(to *[]time.Duration, do func() error) {
		began := time.Now()
		if e := do(); e != nil {
			err = e
		}
		*to = append(*to, time.Since(began))
	}
	reserved := now.Add(2 * time.Second)
	for i := int64(1); i <= warm+rounds && err == nil; i++ {
		if i == warm+1 { // by now DynamoDB Local's JVM has compiled the code that it runs often
			renews, claims, bares = nil, nil, nil
		}
		at := now.Add(time.Duration(i) * time.Second)
		measure(&renews, func() error {
			res, err := store.Write(ctx, protocol.Renew{Key: protocol.Key{Pool: "bench", NodeID: key}, Session: session, Version: 1, Renewal: i, ExpiresAt: at, ReservedUntil: at, Confirmed: reserved})
			reserved = at
			if err == nil && !res.Applied {
				return fmt.Errorf("renewal %d was refused", i)
			}
			return err
		})
		measure(&bares, func() error { return bare(ctx, client, table, session, i, at) })
		measure(&claims, func() error {
			// The times of the claims are a minute apart, so that each finds the lease of
			// the previous claim expired.
			res, err := store.Write(ctx, claimOf(1, fmt.Sprintf("%s-%d", session[:28], i), now.Add(time.Duration(i)*time.Minute)))
			if err == nil && !res.Applied {
				return fmt.Errorf("claim %d was refused", i)
			}
			return err
		})
	}
	if err != nil {
		return r, err
	}
	return plainResult{quantile(renews, .5), quantile(claims, .5), quantile(bares, .5)}, nil
}

func bare(ctx context.Context, c *dynamodb.Client, table, session string, i int64, at time.Time) error {
	_, err := c.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &table, Key: map[string]types.AttributeValue{"pool_group": str("plain"), "node_id": number(0)},
		UpdateExpression:    aws.String("SET expires_at = :at, renewal = :renewal"),
		ConditionExpression: aws.String("holder = :session AND renewal < :renewal"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":session": str(session), ":renewal": number(i), ":at": number(at.UnixMilli()),
		},
	})
	return err
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}
