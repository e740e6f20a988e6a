package nodepool

import (
	"maps"
	"slices"

	"github.com/aws/jsii-runtime-go"

	"github.com/nodelease/nodelease/internal/protocol"
)

// permission is a statement on the table in the policy of a task's role.
type permission struct {
	actions    []string
	conditions map[string]any // from an operator to condition keys and their values
}

func (p permission) forStatement() *map[string]any {
	if p.conditions == nil {
		return nil
	}
	return &p.conditions
}

func (p permission) forGrant() *map[string]*map[string]any {
	if p.conditions == nil {
		return nil
	}
	all := map[string]*map[string]any{}
	for operator, keys := range p.conditions {
		of := keys.(map[string]any)
		all[operator] = &of
	}
	return &all
}

const (
	leading    = "dynamodb:LeadingKeys"
	attributes = "dynamodb:Attributes"
)

// permissions returns exactly the permissions that a process needs to lease from the pool.
// The process may write leases and the items next to them, but neither the reaper's memory,
// which reveals forged leases, nor the hint cards, which other processes read at start. It
// may write the pool's own item only if the pool requires that, and then only the attributes
// that an agent changes.
func (p *Pool) permissions() []permission {
	name := p.props.Name
	all := []permission{
		{[]string{"dynamodb:GetItem", "dynamodb:Query"}, map[string]any{"ForAllValues:StringLike": *leadingKeys(name)}},
		{[]string{"dynamodb:UpdateItem"}, map[string]any{
			"ForAllValues:StringLike":    map[string]any{leading: []string{name + "#*"}},
			"ForAllValues:StringNotLike": map[string]any{leading: []string{name + "#reaper", name + "#card#*"}},
		}},
	}
	if own := p.ownAttributes(); len(own) > 0 {
		all = append(all, permission{[]string{"dynamodb:UpdateItem"}, map[string]any{
			"ForAllValues:StringEquals": map[string]any{leading: []string{name}, attributes: own},
			// ForAllValues is also true if the request has no such key, so this requires the key.
			"Null": map[string]any{attributes: "false"},
		}})
	}
	// DescribeTable has a statement of its own: it has no leading keys, and a condition on them would deny it to some callers.
	return append(all, permission{actions: []string{"dynamodb:DescribeTable"}})
}

// keyActions are the calls on the table's keys that DynamoDB makes on behalf of a caller.
var keyActions = []string{"kms:Decrypt", "kms:Encrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*"}

// keyARNs returns the ARNs of the keys that encrypt the table, one for each Region, or none if DynamoDB owns the key. They are part of a grant
// for the same reason as the replicas' ARNs: see tableARNs.
func (n *NodePool) keyARNs() []*string {
	if n.props.Key == nil {
		return nil
	}
	arns := []*string{n.props.Key.KeyArn()}
	for _, region := range slices.Sorted(maps.Keys(n.props.ReplicaKeys)) {
		arns = append(arns, jsii.String(n.props.ReplicaKeys[region]))
	}
	return arns
}

// ownAttributes returns the attributes of the pool's own item that agents change or name in
// conditions, since IAM does not distinguish the two.
func (p *Pool) ownAttributes() []string {
	var own []string
	if p.props.Narrow { // agents change the width, and announce node IDs
		own = append(own, "eras", "exist_below", "widen_bits", "widen_from", "widen_state", "widen_try")
	}
	if p.props.Narrow || p.props.Size > openFromTheSeed { // agents open groups as the pool fills
		own = append(own, "open_groups")
	}
	if p.props.Layout == "" { // the first agent that makes IDs sets the layout
		own = append(own, "layout", "layout_before", "pool_size")
	}
	if len(own) == 0 {
		return nil
	}
	return append([]string{"pool_group", "node_id", "item_format", "revision"}, own...)
}

// openFromTheSeed is the largest size at which the seed opens all groups of a pool.
const openFromTheSeed = 4 * protocol.GroupSize
