package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/nodelease/nodelease/internal/protocol"
	"github.com/nodelease/nodelease/internal/testkit/history"
)

// breakages are changes such as people make when they write to the table by hand. Most of
// them write fractions of a millisecond, which DynamoDB compares like any other number.
var breakages = []string{
	`SET reserved_until = :v|{"N":"1.5"}`, `SET reserved_until = :v|{"N":"2.5"}`, `SET reserved_until = :v|{"N":"0.5"}`,
	`SET reserved_until = :v|{"N":"3.5"}`, `SET reserved_until = :v|{"N":"4.5"}`, `SET reserved_until = :v|{"N":"5.5"}`, `SET reserved_until = :v|{"N":"6.5"}`, `SET version = :v|{"N":"1.5"}`, `SET version = :v|{"N":"9007199254740992"}`,
	`SET version = :v|{"N":"12345678901234567890123456789012345678"}`, `SET reserved_until = :v|{"S":"soon"}`, `SET widen_try = :v|{"N":"-1"}`,
	`SET reserved_until = :v|{"N":"-5"}`, `REMOVE reserved_until|`,
}

// vandals breaks the items of a few node IDs that nobody holds, until ctx ends. Broken
// items are never repaired.
func (w *World) vandals(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.Plan.Seed, 8))
	for range max(2, w.Plan.NodeIDs/3) {
		if sleep(ctx, time.Duration(r.Int64N(int64(4*time.Minute)))) != nil {
			return
		}
		breakage := breakages[r.IntN(len(breakages))]
		for _, n := range r.Perm(w.Plan.NodeIDs) { // breaks the item of the first node ID that nobody holds
			if w.vandalize(w.Plan.Exclude+n, breakage) {
				break
			}
		}
	}
}

// vandalize breaks a node ID's item if nobody holds the node ID, and reports whether it did.
func (w *World) vandalize(node int, breakage string) bool {
	set, value, _ := strings.Cut(breakage, "|")
	values := ""
	if value != "" {
		values = fmt.Sprintf(`,"ExpressionAttributeValues":{":v":%s}`, value)
	}
	body := fmt.Sprintf(`{"TableName":%q,"Key":{"pool_group":{"S":"%s#%d"},"node_id":{"N":"%d"}},"UpdateExpression":%q,"ConditionExpression":"attribute_exists(version) AND attribute_not_exists(holder) AND attribute_exists(reserved_until)"%s}`,
		tableName, poolName, node/protocol.GroupSize, node, set, values)
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810.UpdateItem")
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	answer := httptest.NewRecorder()
	n := w.network
	n.serial.Lock()
	defer n.serial.Unlock()
	n.db.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK {
		return false
	}
	w.count(func(c *Counts) { c.Corrupted++ })
	w.mu.Lock()
	w.broken[node] = true
	w.mu.Unlock()
	w.note(history.Event{Kind: history.Corrupt, Node: node, Text: breakage})
	return true
}

// isBroken reports whether a vandal broke a node ID's item.
func (w *World) isBroken(node int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken[node]
}
