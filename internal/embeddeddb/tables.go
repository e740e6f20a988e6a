package embeddeddb

type tableInput struct{ TableName string }

// table finds a table.
func (s *Server) table(name string) *table {
	t := s.tables[name]
	if t == nil {
		panic(failure("ResourceNotFoundException", "Requested resource not found: Table: %s not found", name))
	}
	return t
}

func (t *table) describe(status string) map[string]any {
	return map[string]any{
		"TableName":            t.TableName,
		"TableStatus":          status,
		"TableArn":             "arn:aws:dynamodb:embedded:000000000000:table/" + t.TableName,
		"AttributeDefinitions": t.AttributeDefinitions,
		"KeySchema":            t.KeySchema,
		"BillingModeSummary":   map[string]string{"BillingMode": t.BillingMode},
	}
}

func (s *Server) createTable(in *tableDefinition) any {
	in.check()
	if s.tables[in.TableName] != nil {
		panic(failure("ResourceInUseException", "Table already exists: %s", in.TableName))
	}
	s.commit(entry{Table: in.TableName, Create: in})
	return map[string]any{"TableDescription": s.tables[in.TableName].describe("ACTIVE")}
}

func (s *Server) deleteTable(in *tableInput) any {
	t := s.table(in.TableName)
	s.commit(entry{Table: in.TableName, Drop: true})
	return map[string]any{"TableDescription": t.describe("DELETING")}
}

func (s *Server) describeTable(in *tableInput) any {
	return map[string]any{"Table": s.table(in.TableName).describe("ACTIVE")}
}

// describeTimeToLive: nothing expires here.
func (s *Server) describeTimeToLive(in *tableInput) any {
	s.table(in.TableName)
	return map[string]any{"TimeToLiveDescription": map[string]string{"TimeToLiveStatus": "DISABLED"}}
}
