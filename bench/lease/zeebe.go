package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
)

// zeebe is the algorithm of Camunda's RepositoryNodeIdProvider, on DynamoDB instead of S3. A
// claimant reads the objects of the node IDs from 0 on, with one request each, and claims
// the first node ID that is free or expired with a compare-and-set. If it finds none, it
// pauses and begins again.
func zeebe(endpoint string) contender {
	return contender{"Zeebe's algorithm", func(ctx context.Context, m *meter, n int, t terms) (nodeIDs, error) {
		aside := newClient(endpoint, newMeter())
		table, err := createTable(ctx, aside, "node", "")
		if err != nil {
			return nil, err
		}
		s := &scan{aside, table, n, t}
		for i := range n {
			if err := s.set(ctx, i, slot{}, slot{tag: 1}); err != nil {
				return nil, err
			}
		}
		return &scan{newClient(endpoint, m), table, n, t}, nil
	}}
}

type scan struct {
	client *dynamodb.Client
	table  string
	n      int
	terms  terms
}

// slot is the object of one node ID; tag takes the place of S3's ETag.
type slot struct {
	tag     int
	task    string
	expires int64 // ms; 0 if the node ID is free
}

func (s *scan) claim(ctx context.Context) (held, error) {
	task := uuid.NewString()
	for i := 0; ; i++ {
		if i > 0 && i%s.n == 0 {
			pause := min(time.Second<<min(i/s.n-1, 5), 30*time.Second)
			if s.terms.lease < time.Minute { // in the crash runs, which have a single claimant, the pause itself would be measured
				pause = 50 * time.Millisecond
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		old, err := s.get(ctx, i%s.n)
		if err != nil {
			return nil, err
		}
		now := time.Now().UnixMilli()
		if old.expires > now {
			continue
		}
		taken := slot{old.tag + 1, task, now + s.terms.lease.Milliseconds()}
		err = s.set(ctx, i%s.n, old, taken)
		var refused *types.ConditionalCheckFailedException
		if errors.As(err, &refused) {
			continue
		}
		return &slotHeld{s, i % s.n, taken}, err
	}
}

func (s *scan) get(ctx context.Context, n int) (slot, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: s.key(n), ConsistentRead: aws.Bool(true)})
	if err != nil {
		return slot{}, err
	}
	var v slot
	v.tag, err = strconv.Atoi(out.Item["tag"].(*types.AttributeValueMemberN).Value)
	if err == nil {
		v.expires, err = strconv.ParseInt(out.Item["expires_at"].(*types.AttributeValueMemberN).Value, 10, 64)
	}
	return v, err
}

// set replaces an object if the object has not changed since it was read.
func (s *scan) set(ctx context.Context, n int, old, new slot) error {
	item := s.key(n)
	item["tag"] = &types.AttributeValueMemberN{Value: strconv.Itoa(new.tag)}
	item["task"] = &types.AttributeValueMemberS{Value: new.task}
	item["expires_at"] = &types.AttributeValueMemberN{Value: strconv.FormatInt(new.expires, 10)}
	put := &dynamodb.PutItemInput{TableName: &s.table, Item: item, ConditionExpression: aws.String("attribute_not_exists(tag)")}
	if old.tag > 0 {
		put.ConditionExpression = aws.String("tag = :seen")
		put.ExpressionAttributeValues = map[string]types.AttributeValue{":seen": &types.AttributeValueMemberN{Value: strconv.Itoa(old.tag)}}
	}
	_, err := s.client.PutItem(ctx, put)
	return err
}

func (s *scan) key(n int) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"node": &types.AttributeValueMemberS{Value: strconv.Itoa(n)}}
}

func (s *scan) close() {}

type slotHeld struct {
	*scan
	n   int
	now slot
}

func (s *slotHeld) nodeID() int { return s.n }

func (s *slotHeld) renewals(ctx context.Context, n int) ([]time.Duration, error) {
	return timed(s.terms, n, func() error {
		next := slot{s.now.tag + 1, s.now.task, time.Now().UnixMilli() + s.terms.lease.Milliseconds()}
		err := s.set(in(ctx, renewing), s.n, s.now, next)
		s.now = next
		return err
	})
}

func (s *slotHeld) crash() {}

func (s *slotHeld) release(ctx context.Context) error {
	return s.set(in(ctx, releasing), s.n, s.now, slot{tag: s.now.tag + 1})
}
