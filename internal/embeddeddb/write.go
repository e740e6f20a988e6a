package embeddeddb

// writeInput is what the writes have in common.
type writeInput struct {
	request
	ConditionExpression                 *string
	ReturnValues                        string
	ReturnValuesOnConditionCheckFailure string
}

type putInput struct {
	writeInput
	Item Item
}

type updateInput struct {
	writeInput
	Key              Item
	UpdateExpression *string
}

type writeOutput struct {
	Attributes Item `json:",omitempty"`
}

func (s *Server) putItem(in *putInput) any {
	if in.ReturnValues == "ALL_NEW" {
		refuse("Return values set to invalid value")
	}
	in.check()
	in.Item.check()
	t := s.table(in.TableName)
	return s.write(&in.writeInput, t, t.key(in.Item), func(Item) Item { return in.Item })
}

func (s *Server) updateItem(in *updateInput) any {
	in.check()
	u := parse("UpdateExpression", in.UpdateExpression, &in.request, (*parser).update)
	t := s.table(in.TableName)
	for name := range u {
		if t.keyType(name) != "" {
			refuse("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", name)
		}
	}
	return s.write(&in.writeInput, t, t.checkKey(in.Key), func(old Item) Item {
		if old == nil {
			old = in.Key // an update of nothing creates the item
		}
		return u.apply(old)
	})
}

// write changes one item if the condition holds. The lock is held from the look at the old item to
// the new one: nobody comes between.
func (s *Server) write(in *writeInput, t *table, key Item, change func(old Item) Item) any {
	switch in.ReturnValues {
	case "", "NONE", "ALL_OLD", "ALL_NEW":
	case "UPDATED_OLD", "UPDATED_NEW":
		refuseUnsupported("ReturnValues " + in.ReturnValues)
	default:
		refuse("Return values set to invalid value")
	}
	holds := parseCondition(in.ConditionExpression, &in.request)
	in.checkUsed()
	old := t.get(key)
	if !holds(old) {
		failed := failure("ConditionalCheckFailedException", "The conditional request failed")
		if in.ReturnValuesOnConditionCheckFailure == "ALL_OLD" {
			failed.Item = old
		}
		panic(failed)
	}
	now := change(old)
	s.commit(entry{Table: in.TableName, Item: now})
	switch in.ReturnValues {
	case "ALL_OLD":
		return writeOutput{old}
	case "ALL_NEW":
		return writeOutput{now}
	}
	return writeOutput{}
}
