// Package sim simulates whole worlds, in which all actors of the product run at once and
// every kind of fault occurs. The actors are the product's own code, with the AWS SDK's
// client and the embedded DynamoDB, over connections in memory and in virtual time. Package
// history and the judges in this package judge every event as it happens.
//
// # How to run it
//
//	go test ./proof/internal/sim -run 'TestWorld$' -seeds 16 -hours 8
//	go test ./proof/internal/sim -run 'TestWorld$' -timeout 24h -until 10000 -hours 30 -record done.tsv
//	go test ./proof/internal/sim -run 'TestWorld$' -seed 9 -seeds 1 -hours 2 -parts operators,raises -v
//
//	-seed, -seeds   the first seed, and the number of seeds
//	-hours          hours of tasks in each world, three times as many if its leases are long
//	-until, -record run more seeds until this many agent hours are reached; the file that records the seeds that are done
//	-grown          only worlds of 24 hours with wild clocks in which leases grow
//	-busy           the share of the worlds that are busy: they renew leases of 5 s every 0.5 s, deploy every minute,
//	                and resize narrow pools while these widen
//	-parts          the parts of each world, instead of the mix that the seed draws
//	-without        parts that are left out of random mixes
//	-ignore         a pattern of broken promises that do not end a world, so that other bugs can be found
//
// A seed determines the world: its parts, which processes are slow, cut off, paused or
// killed, the steps of clocks, and the operators' actions. It does not determine the order
// in which the runtime schedules goroutines, nor the agents' own jitter. So a seed that
// fails is likely, but not certain, to fail again. Its history is saved, and judging this
// history again always has the same result. Only the runs of the model in internal/tenure
// repeat bit for bit.
//
// # The actors and the faults
//
// The table in parts.go lists the parts, each with the chance that a world has it, so that
// most worlds are a random mix. Independently of the parts, a third of the worlds have a
// narrow pool, which is widened again and again while it is resized. Half of the worlds have
// wild clocks, which are hours off. In the other worlds, the errors of clocks stay within
// the limit that the guards of all releases tolerate, and S2 is judged unless the world has
// the part "glitch".
//
// A fifth of the worlds, none of them narrow, have five node IDs for each task. In these
// worlds, leases grow to minutes, and reserve up to twenty minutes ahead.
//
// The climate in network.go contains these faults: requests are lost, or delayed for longer
// than the lease and delivered late and out of order, even if their sender has gone. Answers
// are lost after the write was applied. The store throttles, answers 500 before or after it
// has applied the write, hangs, refuses connections, or is away for longer than the lease.
//
// A pause stops a process at one of these points: before it sends a request (when it has
// already read the clocks), before it receives an answer, when a generator reads the clock,
// which then returns the time before the pause, and between the two clocks that a claim
// reads. Unlike in a process that is really stopped, timers of the agent go off meanwhile,
// and the code that they start stops at the next of these points. A pause cannot stop code
// that holds a lock, since virtual time does not advance while a goroutine waits for a lock.
// In the model, a pause can also stop such code.
//
// A read of a hint card (cards.go) may return the card as it was minutes ago, or no card,
// and a card may be written late, after newer ones. An agent in another Region uses a table
// that is not safe.
//
// A copy (copies.go) of a running process is a process whose connection to the database has
// made it believe everything that the original believed at one moment.
//
// # How to add
//
// An actor or a fault gets a file of its own and a line in parts. If it acts by itself,
// give it a run function, which returns when its context ends. If other code depends on the
// part, that code calls Plan.has to check whether the world has the part. Each activity of a
// process that holds a lease is a limb, in life.go. A fault of a machine is a trouble, in
// machine.go; a fault of the network is a weather in the network's climate. Draw from a
// random source of your own (rand.NewPCG(seed, a number that no other part uses)), never
// from that of another part, since otherwise every seed would draw a different world. An
// actor that needs the database gets a process or a function with a machine, so that the
// machine's troubles affect it too.
//
// If a judge needs only the table and the reports of the processes, put it in package
// history, so that a saved history can be judged again. Otherwise put it here, in judge.go
// or beside its actor, and call World.fail. A judge of liveness calls calmFor first, so that
// no process is blamed for the effect of a fault. Make sure that each judge can fail: break
// the product, check that the world notices, and add your change to the mutants in
// proof/cmd/mutants/list_world.go.
package sim
