// Package sim simulates whole worlds, in which all actors of the product run at once and
// everything goes wrong. The actors are the product's own code, with the AWS SDK's client
// and the embedded DynamoDB, over connections in memory and in virtual time. Package
// history and the judges here judge every event as it happens.
//
// # How to run it
//
//	go test ./proof/internal/sim -run 'TestWorld$' -seeds 16 -hours 8
//	go test ./proof/internal/sim -run 'TestWorld$' -timeout 24h -until 10000 -hours 30 -record done.tsv
//	go test ./proof/internal/sim -run 'TestWorld$' -seed 9 -seeds 1 -hours 2 -parts operators,raises -v
//
//	-seed, -seeds   the first seed, and how many
//	-hours          hours of tasks in each world, three times as many if its leases are long
//	-until, -record continue with more seeds up to that many agent hours; the file in which to record the seeds that are done
//	-grown          only worlds of 24 hours with wild clocks in which leases grow
//	-busy           the share of the worlds that are busy: they renew leases of 5 s every 0.5 s, deploy every minute,
//	                and resize narrow pools while these widen
//	-parts          the parts of each world, instead of the mix that the seed draws
//	-without        parts that no world of a random mix has
//	-ignore         a pattern of broken promises that do not end a world, to find others
//
// A seed determines the world: its parts, which processes are slow, cut off, paused or
// killed, the steps of clocks, and the operators' actions. It does not determine the order
// in which the runtime schedules goroutines, nor the agents' own jitter. So a seed that
// fails is likely to fail again, but not certain to. Its history is saved, and judging the
// history again always has the same result. Runs that repeat bit for bit are those of the
// model in internal/tenure.
//
// # The actors and the faults
//
// The table in parts.go lists the parts, each with the chance that a world has it, so that
// most worlds are a random mix. Besides the parts, a third of the worlds have a narrow
// pool, whose width changes throughout while the pool is resized. Half of the worlds have
// wild clocks, which are hours off. In the others, clocks keep within what the guards of
// all releases tolerate, and S2 is judged unless the world has the part "glitch".
//
// A fifth of the worlds, none of them narrow, have five node IDs for each task. In these,
// leases grow to minutes, and reserve up to twenty minutes ahead.
//
// The climate in network.go: requests are lost, or delayed beyond the lease and delivered
// late and out of order, even if their sender has gone. Answers are lost after the write
// was done. The store throttles, answers 500 before or after it did the write, hangs,
// refuses connections, or is away for longer than the lease.
//
// A pause stops a process where it touches the world: before it sends a request (when the
// clocks have already been read), before it receives an answer, when a generator reads the
// clock, which then returns the time before the pause, and between the two clocks that a
// claim reads. Unlike in a process that is really stopped, timers of the agent go off
// meanwhile, and the code that they start stops at the next of these points. A pause cannot
// stop code that holds a lock, since virtual time does not advance while a goroutine waits
// for a lock; in the model it can.
//
// Hint cards (cards.go) may be shown as they were minutes ago, or as missing, and may be
// written late, after newer ones. An agent in another Region sees a table that is not safe.
//
// A copy (copies.go) of a running process is a process that its connection to the database
// made believe what the original believed at one moment.
//
// # How to add
//
// An actor or a fault gets a file of its own and a line in parts. If it acts by itself,
// give it a run function, which ends with its context; if other code depends on it, that
// code asks Plan.has whether the world has the part. Each activity of a process that holds
// a lease is a limb, in life.go. A fault of a machine is a trouble, in machine.go; a fault
// of the network is a weather in the network's climate. Draw from a random source of your
// own (rand.NewPCG(seed, a number that no other part uses)), never from another part's, or
// all seeds change. An actor that needs the database gets a process or a function with a
// machine, so that the machine's troubles affect it too.
//
// A judge belongs in package history if the table and the reports of the processes are all
// that it needs, so that a saved history can be judged again. Otherwise put it here, in
// judge.go or beside its actor, and call World.fail. A judge of liveness asks calmFor
// first, so that nobody is blamed for what a fault explains. See each judge fail: break the
// product, check that the world notices, and add that change to the mutants in
// proof/cmd/mutants/list_world.go.
package sim
