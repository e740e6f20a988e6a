// Package copies copies values that must not be copied. vet must report each
// line that has the comment "copied".
package copies

import (
	"github.com/nodelease/nodelease/pkg/snowflake"
	"github.com/nodelease/nodelease/pkg/snowflake/snowflaketest"
)

func copies(b *snowflake.Block, g *snowflake.Generator, t *snowflake.Timeline, c *snowflaketest.Clock) {
	block := *b     // copied
	generator := *g // copied
	timeline := *t  // copied
	clock := *c     // copied
	_, _, _, _ = &block, &generator, &timeline, &clock
}

func blocks(all []snowflake.Block) {
	for _, b := range all { // copied
		_ = &b
	}
}
