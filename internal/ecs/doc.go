// Package ecs queries Amazon ECS for metadata of the task of this process, and for
// the error of its machine's clock. It trusts no answer: accepted values are short
// and printable, and implausible ones are left out.
package ecs
