// Package embeddeddb is a small DynamoDB in the same process: an http.Handler that speaks the DynamoDB JSON 1.0 protocol for
// exactly the calls and expressions that Nodelease and its tests use, so that the real SDK client, condition strings, error
// decoding and retries run everywhere.
//
// It promises the properties that leases need: every write is atomic and takes effect at one moment (one lock: linearizable), conditions
// and updates see the item as it was before the write, numbers are exact to 38 digits, and errors carry DynamoDB's codes and
// texts. With a data file, a write that was acknowledged survives a kill -9 of the process and a full disk; damage is noticed.
// It does not survive a power cut, since writes are not synced.
//
// It does not promise the rest of DynamoDB. It has CreateTable, DescribeTable, DescribeTimeToLive, DeleteTable, GetItem,
// Query, Scan, PutItem and UpdateItem, values of the types S, N, BOOL, L and M, and attributes as a whole; all else is refused
// by name, never ignored. Nothing throttles, nothing is eventually consistent, and credentials are not looked at, which is why
// it serves this machine only.
//
// It is never a fallback: a program uses it only where its user asked for it by name.
package embeddeddb
