// Package sidecar serves a leased node ID and its IDs to programs in any language on
// the same machine, over HTTP on the loopback interface or a Unix socket. The
// contract is docs/sidecar.md.
//
//	GET  /v1/node       the node ID, if it may be relied on now
//	GET  /v1/lease      the lease that it comes from, with the time left
//	POST /v1/ids?n=     1 to 10,000 IDs: JSON, text or binary
//	POST /v1/blocks     a block of IDs, for a client that hands them out itself
//	GET  /livez         whether to restart the container: the agent's live check
//	GET  /readyz        whether to send it work: the agent's ready check
//	GET  /metrics       for Prometheus
//
// There is no access control: any process that can connect can take IDs and read the node
// ID. So the sidecar listens only on this machine unless it is told otherwise. It also
// refuses requests that a web page makes a browser on this machine send: it recognizes them
// by their Host (DNS rebinding) or their origin (cross-site requests).
package sidecar
