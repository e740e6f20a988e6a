// Package embeddeddb is a small DynamoDB in the same process: an http.Handler that speaks the DynamoDB JSON 1.0 protocol for
// exactly the calls and expressions that Nodelease and its tests use, so that the real SDK client, condition strings, error
// decoding and retries run everywhere.
//
// It promises the properties that leases need: every write is atomic and takes effect at one moment (one lock makes calls
// linearizable), conditions and updates see the item before the write, numbers are exact to 38 digits, and errors have
// DynamoDB's codes and texts. With a data file, a write that was acknowledged survives a kill -9 of the process and a full
// disk, and damage to the file is noticed. Writes do not survive a power cut, since they are not synced.
//
// It does not promise the rest of DynamoDB. It has CreateTable, DescribeTable, DescribeTimeToLive, DeleteTable, GetItem,
// Query, Scan, PutItem and UpdateItem, values of the types S, N, BOOL, L and M, and no paths into attributes. It refuses
// everything else by name, and ignores nothing. It does not throttle, all its reads are consistent, and it does not check
// credentials, which is why it serves only this machine.
//
// It is never a fallback: a program uses it only if its user asked for it by name.
package embeddeddb
