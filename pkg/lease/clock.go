package lease

import (
	"github.com/nodelease/nodelease/pkg/snowflake"
)

// Clock reads the two clocks of a machine; see [snowflake.Clock].
type Clock = snowflake.Clock
