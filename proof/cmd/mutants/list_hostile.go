package main

const (
	trimFile    = "internal/protocol/trim.go"
	boundsFile  = "internal/protocol/bounds.go"
	protocolOwn = "./internal/protocol"
)

// The mutants of the costs that a hostile writer, or a proxy between the table and a
// reader, can cause for the reader.
var hostileMutants = []mutant{
	{"hostile: an item may be as large as it likes", trimFile, `bytes, tokens := maxItem, maxItemTokens`, `bytes, tokens := maxStream, maxStream`, protocolOwn},
	{"hostile: an item that was trimmed is not marked", trimFile, `if t.cut {
		if t.out`, `if false {
		if t.out`, protocolOwn},
	{"hostile: an item that is too large loses its key", trimFile, `if name := string(t.name); (name == partitionKey || name == sortKey)`, `if name := string(t.name); (name == partitionKey && name == sortKey)`, protocolOwn},
	{"hostile: an answer has no end", trimFile, `if read += len(chunk); read > maxStream {`, `if read += len(chunk); false {`, protocolOwn},
	{"hostile: an error has no end", trimFile, `if t.envelope > maxEnvelope {`, `if false {`, protocolOwn},
	{"hostile: few bytes may have any depth", trimFile, `if depth < 1 || depth > maxDepth {`, `if depth < 1 {`, protocolOwn},
	{"hostile: brackets in a text hide the depth", trimFile, `for i++; i < len(answer) && answer[i] != '"'; i++ {`, `for false {`, protocolOwn},
	{"hostile: the checksum is of what is left", "internal/protocol/answer.go", `trim(io.TeeReader(resp.Body, sum))`, `trim(resp.Body)`, protocolOwn},
	{"hostile: a trimmed lease is believed", boundsFile, `if item[trimmed] != nil {`, `if false {`, protocolOwn},
	{"hostile: a task may have any length", boundsFile, `case len(it.Task) > maxTask:`, `case false:`, protocolOwn},
	{"hostile: metadata may have any length", boundsFile, `case text > maxMetadata:`, `case false:`, protocolOwn},
	{"hostile: open groups are not bounded", boundsFile, `case it.OpenGroups > MaxPoolSize/GroupSize:`, `case false:`, protocolOwn},
	{"hostile: pages have no end", boundsFile, `if p.read += len(page.Items); p.read > p.Most {`, `if p.read += len(page.Items); false {`, protocolOwn},
	{"hostile: foreign items of a partition are read to their end", "internal/protocol/dynamodb.go", `return g, nil // the rest is not of this group either`, `continue`, protocolOwn},
	{"hostile: the whole session is shown", "internal/text/session.go", `return "…" + end`, `return s`, "./internal/text"},
	{"hostile: a foreign item hides a node ID of a part", "internal/protocol/dynamodb.go", `len(from) == 0 || !part.Whole() && last >= end-1 {`, `len(from) == 0 || !part.Whole() && last >= 0 {`, protocolOwn},
	{"hostile: a foreign item hides that a node ID is missing", "cmd/nodelease/list.go", `if !errors.Is(err, protocol.ErrForeignKey) {`, `if true || errors.Is(err, protocol.ErrForeignKey) {`, cliOwn},
	{"hostile: a foreign item hides a deletion", "pkg/lease/leasepool/forged.go", `|| !errors.Is(c, protocol.ErrForeignKey) //`, `|| !errors.Is(c, protocol.ErrForeignKey) || true //`, poolOwn},
	{"hostile: a key that is a fraction keeps a node ID from being created", "pkg/lease/leasepool/seed.go", `if !errors.Is(corrupt, protocol.ErrForeignKey) {`, `if true {`, protocolOwn},
	{"hostile: a key that is a fraction hides the rest of its group", "internal/protocol/dynamodb.go", `if n >= end {`, `if true {`, protocolOwn},
	{"hostile: the page shows a cluster's session", "cmd/nodelease/internal/ui/state.go", `value = text.Session(value)`, `_ = value`, pageOwn},
	{"hostile: a cluster's check shows the session", "pkg/cluster/health.go", `gate.Session(v.self.SessionID)`, `gate.Line(v.self.SessionID)`, clusterOwn},
	{"hostile: a part of the digest lists any number of members", "pkg/cluster/dynamocoordinator/part.go", `len(members) > maxListed {`, `false {`, tableOwn},
	{"hostile: an answer that was overtaken is forged", "pkg/lease/leasepool/forged.go", `if why := a.old.Pool.Broken(item); why != "" {`, `if why := a.old.Pool.Broken(a.item); why != "" {`, poolOwn},
	{"hostile: forged items raise no alarm", "internal/app/handler/poolmetric.go", `count("Corrupt", len(s.Corrupt)+len(s.Forged))`, `count("Corrupt", len(s.Corrupt))`, handlerOwn},
	{"hostile: an item between two node IDs hides the rest of its group", "internal/protocol/dynamodb.go", `f, _ := strconv.ParseFloat(numberOf(item[sortKey]), 64)`, `f, _ := strconv.Atoi(numberOf(item[sortKey]))`, protocolOwn},
	{"hostile: a partition of foreign items is read without end", "internal/protocol/errors.go", `ErrClockSkew, ErrArgument, errForeign} {`, `ErrClockSkew, ErrArgument} {`, poolOwn},
	{"hostile: an item without room is an error of the table", "internal/protocol/awserr.go", `, "Item size"} {`, `} {`, poolOwn},
	{"hostile: an item without room is claimed again and again", "internal/tenure/search.go", `return s.broken[n] || !s.Strong`, `return !s.Strong`, leaseOwn},
}
