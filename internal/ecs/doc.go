// Package ecs queries Amazon ECS for metadata of the task of this process, and for
// the clock error of its machine. It trusts no answer: accepted values are short
// and printable, and implausible ones are left out.
package ecs
