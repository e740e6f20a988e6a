//go:build linux

package main

// A sentence is a promise on which users of another project rely, and its source.
type sentence struct{ id, text, source string }

const (
	camunda    = "https://github.com/camunda/camunda/issues/"
	guiid      = "https://github.com/pengubco/guiid/blob/main/"
	etcdCoord  = "public repository file \"Etcd-Coordinated Snowflake ID Generator Implementation Details\""
	clusterAPI = "public repository file \"Cluster Coordination API\""
	zkLibrary  = "public repository file \"Zookeeper microservices library\""
	whiteboard = "https://www.whiteboardscale.com/topics/unique-id-generator/concepts/uid-worker-assignment"
)

var sentences = []sentence{
	{"Z1", "Create S3 objects for node IDs 0 through clusterSize-1 on empty bucket", camunda + "40289"},
	{"Z2", "Use CAS operations to handle concurrent initialization from multiple tasks", camunda + "40289"},
	{"Z3", "Each object represents an unacquired lease initially", camunda + "40289"},
	{"Z4", "Cluster size must be configurable; leases are initialized only at bootstrap, after which existing leases are reused", camunda + "45896"},
	{"Z5", "Use CAS to safely acquire the first available lease", camunda + "40289"},
	{"Z6", "Increment nodeIdVersion = previousVersion + 1", camunda + "40289"},
	{"Z7", "Update lease object to indicate no holder on shutdown", camunda + "40289"},
	{"Z8", "Allow lease to be immediately available for acquisition", camunda + "40289"},
	{"Z9", "The lease is released when shutting down gracefully", camunda + "40438"},
	{"Z10", "a broker releases its lease on graceful shutdown and reacquires the same lease after restart", camunda + "42870"},
	{"Z11", "Detect available leases (no holder or timed out)", camunda + "40289"},
	{"Z12", "It tries to acquire the same element more than once, as it may happen that a lease expires just after the first iteration", camunda + "40400"},
	{"Z13", "When a lease is not released gracefully but has been expired for longer than a threshold, consider it as gracefully released", camunda + "46369"},
	{"Z14", "Configurable renewal intervals and timeouts", camunda + "40289"},
	{"Z15", "Renewal of the lease is scheduled at expiryDuration / 3", camunda + "40433"},
	{"Z16", "a node only marks itself as ready after confirming that all other nodes in the cluster have up-to-date version mappings", camunda + "43892"},
	{"Z17", "This is executed in a different scheduler to not block the lease renewal during readiness check", camunda + "43892"},
	{"Z18", "The known members and versions is updated in the lease everytime it is renewed", camunda + "43701"},
	{"Z19", "If the previous lease was released gracefully, then it becomes immediately ready", camunda + "43892"},
	{"Z20", "Add method to get all the leases to verify the nodeId mappings", camunda + "40289"},
	{"Z21", "The node will be marked as ready after a configured timeout", camunda + "43892"},
	{"Z22", "Trigger immediate shutdown if renewal fails", camunda + "40289"},
	{"Z23", "health/liveness check that fails on lease renewal failure", camunda + "40685"},
	{"Z24", "This mechanism must ensure there are no two brokers running with the same id", camunda + "40166"},
	{"Z25", "NodeId versioning and quarantining in case the previous version was not killed while the new version started", camunda + "40166"},
	{"Z26", "When the renew fails, we don't try to release the lease as it might have already been acquired by someone else", camunda + "40438"},
	{"Z27", "instead of deleting the leases we mark it as unusable; they will be marked as usable again when scaling up", camunda + "46337"},
	{"Z28", "a corrupted state: the attempt to acquire lease is continued with the next available lease", camunda + "48007"},

	{"S1", "No two nodes should use the same node identifier at the same time", guiid + "design.md"},
	{"S2", "globally unique, increasing 64 bits integer IDs", guiid + "README.md"},
	{"S3", "No free node identifier implies the cluster is at its capacity: the node exits", guiid + "design.md"},
	{"S4", "up to 1024 servers, each can generate up to 4,096,000 ids per second", guiid + "README.md"},
	{"S5", "When a node fails, its node identifier must be reused by a new healthy node", guiid + "design.md"},
	{"S6", "any timestamp t1 used by the new node must be larger than t0 of the failed node", guiid + "design.md"},
	{"S7", "After the 10-second TTL expires, etcd deletes the lease, freeing up that Node ID for another instance to claim", etcdCoord},
	{"S8", "If the node's clock is behind the timestamp recorded in the freshness KV too much, the node exits", guiid + "design.md"},
	{"S9", "the node periodically updates the freshness KV with its latest timestamp", guiid + "design.md"},
	{"S10", "The update has a condition that the node owns the lease; if the lease check fails, the node exits", guiid + "design.md"},
	{"S11", "short clock drift: block by the drift time and return success", guiid + "worker/worker.go"},
	{"S12", "longer clock drift: return error (try later) immediately", guiid + "worker/worker.go"},
	{"S13", "drift above 5 s: return error and remove the worker from the cluster", guiid + "worker/worker.go"},
	{"S14", "If etcd is down, existing instances with valid leases can continue generating IDs until their lease expires", etcdCoord},
	{"S15", "If etcd is down, new instances cannot start", etcdCoord},

	{"C1", "nodeId persists across restarts; sessionId represents a single runtime incarnation", clusterAPI},
	{"C2", "membership: a set of sessions that have emitted a heartbeat within a configurable timeout window", clusterAPI},
	{"C3", "There is no explicit join or leave operation", clusterAPI},
	{"C4", "The coordination backend is abstracted via the ClusterCoordinator interface", clusterAPI},
	{"C5", "an immutable snapshot; equality is structural and deterministic, based on (clusterName, sessionId)", clusterAPI},
	{"C6", "level-triggered, coalesced, latest-only: intermediate states may be skipped", clusterAPI},
	{"C7", "each notification has cluster name, local node and session identifier, new state, previously delivered state", clusterAPI},
	{"C8", "Isolates coordination logic from user callbacks", clusterAPI},
	{"C9", "A fatal listener error causes the owning node to stop participating", clusterAPI},
	{"C10", "UP while the node is participating normally, DOWN after a fatal listener failure", clusterAPI},
	{"C11", "Transient heartbeat failures are tolerated", clusterAPI},
	{"C12", "A session remains valid until failures exceed heartbeatTimeout; after that the session is rotated", clusterAPI},
	{"C13", "The state is observer-relative: as seen at the time of the observer's heartbeat", clusterAPI},
	{"C14", "Selects the node with the lowest lexical sessionId", clusterAPI},
	{"C15", "Leader election is a pure function of cluster state", clusterAPI},

	{"M1", "The maximum bit width for cluster node id is 16 bits, effective range is 8 - 0xFFFF", zkLibrary},
	{"M2", "first 8 ids are reserved for services which are not managed as microservices", zkLibrary},
	{"M3", "for each group, if group is not full: find first gap in ids and claim it", zkLibrary},
	{"M4", "watches the groups znode and increases the required bit width in the unique id generator accordingly", zkLibrary},
	{"M5", "1000 nodes use 4 groups and need 11 bits, leaving the remaining 5 bits for sub-millisecond id generation", zkLibrary},
	{"M6", "IDs generated from different microservices never conflict", zkLibrary},
	{"M7", "Each microservice can have multiple instances, which have their own unique node id", zkLibrary},
	{"M8", "Each service type can expose a number of endpoints", zkLibrary},
	{"M9", "endpoints: actual key for spi implementations, _ for normal services", zkLibrary},
	{"M10", "servicetypes/<service name>/<node id> (ephemeral)", zkLibrary},
	{"M11", "register the different microservice instances: a new one is discovered", zkLibrary},

	{"P1", "lease TTL ~10s, renewal every 3s, generation deadline at TTL minus 2s", whiteboard},
	{"P2", "a worker that cannot renew its lease must stop generating BEFORE the lease expiry", whiteboard},
	{"P3", "a worker that loses ZooKeeper keeps generating only until its deadline, then parks", whiteboard},
	{"P4", "worker 7 GC-pauses, its lease expires, a new node claims 7, then old-7 wakes: it must not generate as 7", whiteboard},
	{"P5", "if the worker dies, the lease expires and the ID returns to the pool", whiteboard},
	{"P6", "1,024 IDs is a hard cap", whiteboard},
	{"P7", "autoscaling groups need ID-pool monitoring", whiteboard},
	{"P8", "Kubernetes StatefulSet ordinals: pod-N takes worker ID N", whiteboard},
}
