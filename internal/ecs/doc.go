// Package ecs asks Amazon ECS what it knows of the task that this process is in,
// and of its machine's clock. It trusts no answer: what is taken over is short and
// printable, and what is not plausible is left out.
package ecs
