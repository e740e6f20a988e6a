package snowflaketest_test

import (
	"fmt"
	"time"

	"github.com/nodelease/nodelease/pkg/snowflake"
	"github.com/nodelease/nodelease/pkg/snowflake/snowflaketest"
)

// The IDs are the same in each run, so a test can compare them with expected
// values.
func Example() {
	clock := snowflaketest.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	ids, err := snowflake.New(clock.Node(7))
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		id, err := ids.Next()
		fmt.Println(id, id.Time().Format(time.RFC3339Nano), id.Node(), id.Sequence(), err)
	}
	clock.Advance(1500 * time.Microsecond)
	id, err := ids.Next()
	fmt.Println(id, id.Time().Format(time.RFC3339Nano), id.Node(), id.Sequence(), err)
	// Output:
	// 132680284897308672 2026-01-02T03:04:05Z 7 0 <nil>
	// 132680284897308673 2026-01-02T03:04:05Z 7 1 <nil>
	// 132680284901502976 2026-01-02T03:04:05.001Z 7 0 <nil>
}
