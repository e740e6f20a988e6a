package embeddeddb

import "net/http"

type writeInput struct {
	request
	ConditionExpression                 *string
	ReturnValues                        *string
	ReturnValuesOnConditionCheckFailure *string
	condition                           *parser
}

type putInput struct {
	writeInput
	Item Item
}

func (in *writeInput) know() {
	in.condition = in.expression("ConditionExpression", in.ConditionExpression)
}

type updateInput struct {
	writeInput
	Key              Item
	UpdateExpression *string
	change           *parser
}

func (in *updateInput) know() {
	if in.returns("UPDATED_OLD") || in.returns("UPDATED_NEW") {
		refuseUnsupported("ReturnValues " + *in.ReturnValues)
	}
	in.change = in.expression("UpdateExpression", in.UpdateExpression)
	in.writeInput.know()
}

type writeOutput struct {
	Attributes Item `json:",omitempty"`
}

// check refuses everything that is wrong regardless of the table; subject is the item or its key.
func (in *writeInput) check(name string, subject Item, kinds string, expressions ...*string) {
	wantTable(in.TableName, 1)
	wantOneOf(in.ReturnValues, "returnValues", "ALL_NEW, UPDATED_OLD, ALL_OLD, NONE, UPDATED_NEW")
	wantOneOf(in.ReturnValuesOnConditionCheckFailure, "returnValuesOnConditionCheckFailure", "ALL_OLD, NONE")
	want(subject != nil, name, "null", "not be null")
	in.checkUsable(kinds, expressions...)
	subject.check()
}

func (in *writeInput) returns(what string) bool {
	return in.ReturnValues != nil && *in.ReturnValues == what
}

func (s *Server) putItem(in *putInput) any {
	in.check("item", in.Item, "ConditionExpression is", in.ConditionExpression)
	if in.ReturnValues != nil && !in.returns("ALL_OLD") && !in.returns("NONE") {
		refuse("ReturnValues can only be ALL_OLD or NONE")
	}
	if in.Item.size() > maxItem {
		refuse("Item size has exceeded the maximum allowed size")
	}
	var holds condition
	in.withValues(func() { holds = parse(in.condition, (*parser).condition) })
	t := s.table(in.TableName, "")
	return s.write(&in.writeInput, t, t.key(in.Item), holds, func(Item) Item { return in.Item })
}

func (s *Server) updateItem(in *updateInput) any {
	in.check("key", in.Key, "UpdateExpression and ConditionExpression are", in.UpdateExpression, in.ConditionExpression)
	u, holds := update(nil), condition(nil)
	in.withValues(func() { u, holds = parse(in.change, (*parser).update), parse(in.condition, (*parser).condition) })
	t := s.table(in.TableName, "")
	key := t.checkKey(in.Key)
	for name := range u {
		if t.keyType(name) != "" {
			refuse("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	return s.write(&in.writeInput, t, key, holds, func(old Item) Item {
		if old == nil {
			old = key // an update creates the item, even if it changes nothing
		}
		now := u.apply(old)
		if now.size() > maxItem {
			refuse("Item size to update has exceeded the maximum allowed size")
		}
		if len(u) > 0 && len(now) == len(key) && t.get(key) == nil {
			return nil // but an update that only removes does not create it
		}
		return now
	})
}

// write changes one item if the condition holds. The lock is held throughout.
func (s *Server) write(in *writeInput, t *table, key Item, holds condition, change func(old Item) Item) any {
	old := t.get(key)
	if !holds.in(old) {
		failed := failure(http.StatusBadRequest, dynamo+"ConditionalCheckFailedException", "The conditional request failed")
		if how := in.ReturnValuesOnConditionCheckFailure; how != nil && *how == "ALL_OLD" {
			failed.Item = old
		}
		panic(failed)
	}
	now := change(old)
	if now != nil {
		s.commit(entry{Table: *t.TableName, Item: now})
	}
	switch {
	case in.returns("ALL_OLD"):
		return writeOutput{old}
	case in.returns("ALL_NEW"):
		return writeOutput{now}
	}
	return writeOutput{}
}
