// Package text is the gate between foreign text and human eyes. Whatever comes
// out of the table, from an endpoint, the environment or a peer passes [Line],
// [Quote] or [Sprintf] before it reaches a terminal, a pipe, a prompt, a log or a
// page, and [MarshalJSON] before it reaches a program.
//
// A shown value is one line of printable characters in reading order, of bounded
// length. It cannot move the cursor, start a new line, reverse what follows, pile
// marks on its neighbours, push a table's columns apart or hide in a blank.
// It can still claim anything in words: keep it quoted or in a column of its own.
//
// The text shown is for eyes, and several values may look alike. Programs read
// the JSON, which keeps every valid value exactly.
package text
