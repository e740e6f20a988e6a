package conform

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Both databases refuse every reserved word, in lower or upper case, and accept words that
// only look similar.
func TestReservedWords(t *testing.T) {
	list, err := os.ReadFile("../reserved.txt")
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(list))
	if len(words) != 573 || !slices.IsSorted(words) {
		t.Fatalf("%d words, want 573 in order", len(words))
	}
	onEach(t, func(t *testing.T, db *database) {
		key := db.fresh()
		for _, word := range words {
			word = strings.ToLower(word)
			_, err := db.update(t, key, updateCase{update: "SET " + word + " = :1", values: item{":1": 1}})
			want := invalid + "Invalid UpdateExpression: Attribute name is a reserved keyword; reserved keyword: " + word
			switch word {
			case "and", "between", "in", "not", "or", "add", "delete", "set": // words of the grammar
				want = invalid + `Invalid UpdateExpression: Syntax error; token: "` + word + `", near: "SET ` + word + ` ="`
			}
			db.wantError(t, err, want)
		}
		for _, word := range strings.Fields("holder task version renewal expires_at lease_ms not_before reserved_until layout retired metadata pool_size open_groups widen_state hosts id") {
			if _, err := db.update(t, key, updateCase{update: "SET " + word + " = :1", values: item{":1": 1}}); err != nil {
				t.Errorf("%s: %v", word, err)
			}
		}
	})
}
