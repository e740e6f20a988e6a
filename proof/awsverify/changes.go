package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// killOne kills a task and waits until the reaper has freed its node ID. The version of the node ID shows that nobody claimed it in
// between.
func (r *run) killOne(ctx context.Context) error {
	if len(r.tasks) == 0 {
		return errors.New("no task runs")
	}
	dead := r.tasks[0]
	if err := dead.ask("ids"); err != nil {
		return err
	}
	r.note(dead.line)
	dead.kill()
	r.tasks = r.tasks[1:]
	r.judge("reaper", r.eventually(ctx, patience, func(ctx context.Context) error {
		now, err := r.store.Get(ctx, poolName, dead.line.NodeID)
		switch {
		case err != nil:
			return err
		case now.Version != dead.line.Version:
			return fmt.Errorf("node ID %d was claimed: %+v", dead.line.NodeID, now)
		case now.Holder != "":
			return fmt.Errorf("node ID %d is still held", dead.line.NodeID)
		}
		return nil
	}), fmt.Sprintf("node ID %d", dead.line.NodeID))
	return nil
}

// grow raises the pool's size in the stack, and then starts tasks until all node IDs are held.
func (r *run) grow(ctx context.Context) error {
	s, err := r.updateStack(ctx, r.parameters(poolName, grownSize))
	if err == nil && s.StackStatus != cfntypes.StackStatusUpdateComplete {
		err = fmt.Errorf("the update ended as %s: %s", s.StackStatus, r.account.reasons(ctx, r.stack))
	}
	for err == nil && len(r.tasks) < grownSize {
		var t *task
		if t, err = r.startTask(ctx); err == nil {
			err = r.makeIDs(t)
		}
	}
	r.judge("grow", err, fmt.Sprintf("%d node IDs, all held", grownSize))
	return err
}

// release stops every task as ECS does, so that each task releases its node ID.
func (r *run) release(ctx context.Context) error {
	var errs []error
	for _, t := range r.tasks {
		node := t.line.NodeID
		err := t.ask("stop")
		if err == nil {
			r.note(t.line)
			err = t.process.Wait()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("the task of node ID %d: %w", node, err))
			continue
		}
		if now, err := r.store.Get(ctx, poolName, node); err != nil || now.Holder != "" {
			errs = append(errs, errors.Join(err, fmt.Errorf("node ID %d is still held", node)))
		}
	}
	n := len(r.tasks)
	r.tasks = nil
	r.judge("release", errors.Join(errs...), fmt.Sprintf("%d tasks", n))
	var refused error
	if len(r.refused) > 0 {
		refused = errors.New(strings.Join(r.refused, "; "))
	} else if n == 0 {
		refused = errors.New("no task ran to its end")
	}
	r.judge("access", refused, r.calls())
	return nil
}

// note adds the numbers of requests that a task reports when it ends to the totals.
func (r *run) note(l line) {
	for op, n := range l.Calls {
		r.called[op] += n
	}
	r.refused = append(r.refused, l.Denied...)
}

// rename changes the pool's name, which would create another ID space. The bootstrap function must refuse the change, and CloudFormation
// must roll it back.
func (r *run) rename(ctx context.Context) error {
	if r.account.emulator {
		for _, name := range []string{"rename", "rollback"} {
			r.record(name, notHere, checkNamed(name).emulator)
		}
		return nil
	}
	s, err := r.updateStack(ctx, r.parameters("renamed", grownSize))
	if err != nil {
		return err
	}
	reasons := r.account.reasons(ctx, r.stack)
	if !strings.Contains(reasons, refusal) {
		err = fmt.Errorf("the update ended as %s: %s", s.StackStatus, reasons)
	}
	if _, missing := r.store.PoolItem(ctx, "renamed"); missing == nil {
		err = errors.Join(err, errors.New("the renamed pool was seeded"))
	}
	r.judge("rename", err, string(s.StackStatus))

	var back error
	if !slices.Contains([]cfntypes.StackStatus{cfntypes.StackStatusUpdateRollbackComplete}, s.StackStatus) {
		back = fmt.Errorf("the stack is %s, want UPDATE_ROLLBACK_COMPLETE", s.StackStatus)
	} else if t, startErr := r.startTask(ctx); startErr != nil {
		back = startErr
	} else {
		back = r.makeIDs(t)
	}
	r.judge("rollback", back, "UPDATE_ROLLBACK_COMPLETE, and a task holds a node ID of the old pool")
	return nil
}

// refusal is a part of the error with which the bootstrap function refuses a rename.
const refusal = "set Floor to a time after its last ID"

// tableGone waits until the table is deleted.
func (a *account) tableGone(ctx context.Context, table string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err := a.dynamo.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
		switch {
		case code(err) == "ResourceNotFoundException":
			return nil
		case err != nil:
			return err
		}
		if err := a.pause(ctx); err != nil {
			return fmt.Errorf("the table %s is still there: %w", table, err)
		}
	}
}
