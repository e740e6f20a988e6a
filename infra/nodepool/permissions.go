package nodepool

import "github.com/nodelease/nodelease/internal/protocol"

// permission is a statement of a task's role about the table.
type permission struct {
	actions    []string
	conditions map[string]any // operator, condition key, values
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

// permissions are exactly those that a process needs to lease from the pool. It writes
// leases and the items next to them, but never the reaper's memory, by which forged
// leases are noticed, nor the hint cards, by which others start, and the pool's own item
// only where the pool needs that, and then only the attributes that an agent changes.
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
			// Of no values all match: this asks for the key to be there.
			"Null": map[string]any{attributes: "false"},
		}})
	}
	// A statement of its own: DescribeTable has no leading keys, and under that condition some callers would be denied it.
	return append(all, permission{actions: []string{"dynamodb:DescribeTable"}})
}

// ownAttributes are those of the pool's own item that its agents change, with those
// that their conditions name: IAM does not tell the two apart.
func (p *Pool) ownAttributes() []string {
	var own []string
	if p.props.Narrow { // they change the width, and announce node IDs
		own = append(own, "eras", "widen_bits", "widen_from", "widen_numbers", "widen_state", "widen_try")
	}
	if p.props.Narrow || p.props.Size > openFromTheSeed { // they open groups as the pool fills
		own = append(own, "open_groups")
	}
	if p.props.Layout == "" { // the first one that makes IDs binds the layout
		own = append(own, "layout", "layout_before", "pool_size")
	}
	if len(own) == 0 {
		return nil
	}
	return append([]string{"pool_group", "node_id", "item_format", "revision"}, own...)
}

// openFromTheSeed is the largest size of a pool all of whose groups the seed opens.
const openFromTheSeed = 4 * protocol.GroupSize
