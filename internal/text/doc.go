// Package text is the gate between foreign text and human eyes. Text that comes
// from the table, an endpoint, the environment or a peer passes [Line], [Quote] or
// [Sprintf] before it reaches a terminal, a pipe, a prompt, a log or a page, and
// [MarshalJSON] before it reaches a program.
//
// A shown value is one line of printable characters in reading order, of bounded
// length. It cannot move the cursor, start a new line, reverse the text after it, pile
// marks on its neighbours, push a table's columns apart or be invisible.
// Its words can still claim anything, so keep it quoted or in a column of its own.
//
// Shown text is for people, and different values may look alike. Programs read
// the JSON, which keeps every valid value exactly.
package text
