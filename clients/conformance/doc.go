// Package conformance drives the clients in other languages through the same cases,
// which are in cases.json, against the real sidecar. Each client has an adapter: a
// program that reads a command per line, as JSON, and writes its answer.
//
//	{"op":"new","sidecar":"unix:/s"}     {}: another generator, which waits up to a minute for its sidecar
//	{"op":"timeout","ms":300}            {}: it waits so long from now on
//	{"op":"next"}                        {"ids":["1"]}
//	{"op":"batch","n":1000}              {"ids":[…]}, which grow
//	{"op":"threads","threads":64,"n":9}  {"ids":[…]}: 9 by each
//	{"op":"fork","n":9}                  {"ids":[…]}: 9 by the parent and 9 by the child; {} where nothing forks
//	{"op":"step","clock":"wall","ms":9}  {}: the boot, mono or wall clock moves forward or back; otherwise they are stopped
//	{"op":"begin"}, then {"op":"end"}    {"count":0}, {"ids":[…]}: 64 virtual threads begin to make an ID, another one ends; how many had one by then; their IDs. For Java
//	{"op":"requests"}                    {"count":1}: the blocks so far
//	{"op":"decode","layout":{…},"id":""} {"time_ms":1,"node":2,"sequence":3}
//
// An error is {"error":"unavailable"}, or fenced, exhausted, clock, other.
//
//	scripts/test.sh clients
package conformance
