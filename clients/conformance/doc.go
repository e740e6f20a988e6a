// Package conformance tests all clients in other languages with the same cases, which are in
// cases.json, against the real sidecar. Each client has an adapter: a program that reads one
// command per line, as JSON, and writes one answer for each.
//
//	{"op":"new","sidecar":"unix:/s"}     {}: makes a new generator, which waits up to a minute for its sidecar
//	{"op":"timeout","ms":300}            {}: sets how long the generator waits from now on
//	{"op":"next"}                        {"ids":["1"]}
//	{"op":"batch","n":1000}              {"ids":[…]}, in ascending order
//	{"op":"threads","threads":64,"n":9}  {"ids":[…]}: 9 from each thread
//	{"op":"fork","n":9}                  {"ids":[…]}: 9 from the parent and 9 from the child; {} if the language cannot fork
//	{"op":"beside","n":20000}            {"ids":[…],"count":1}: a batch, and an ID that is requested once the batch has begun; the count is 1 if
//	                                     the ID was there before the batch ended
//	{"op":"step","clock":"wall","ms":9}  {}: moves the boot, mono or wall clock forward or back; between steps the clocks stand still
//	{"op":"begin"}                       {"count":0}: starts 64 virtual threads that make an ID each, and waits for another thread to end;
//	                                     the count is how many of the 64 had an ID when that thread ended (Java only)
//	{"op":"end"}                         {"ids":[…]}: the IDs of the threads that "begin" started
//	{"op":"requests"}                    {"count":1}: the number of blocks so far
//	{"op":"decode","layout":{…},"id":""} {"time_ms":1,"node":2,"sequence":3}
//
// The answer to a command that fails is {"error":"unavailable"}, or the same with fenced,
// exhausted, clock or other.
//
//	scripts/test.sh clients
package conformance
