// Package sim is the composed world: all actors of the product at once, the product's
// own code with the AWS SDK's client against the embedded DynamoDB, over connections in
// memory and in virtual time, in a world where everything goes wrong. All events are
// judged as they happen: by package history, and by the judges here.
//
// # How to run it
//
//	go test ./proof/internal/sim -run 'TestWorld$' -seeds 16 -hours 8
//	go test ./proof/internal/sim -run 'TestWorld$' -timeout 24h -until 10000 -hours 30 -record done.tsv
//	go test ./proof/internal/sim -run 'TestWorld$' -seed 9 -seeds 1 -hours 2 -parts operators,raises -v
//
//	-seed, -seeds   the first seed, and how many
//	-hours          hours of tasks in each world, three times as many where leases are long
//	-until, -record go on with more seeds up to so many agent hours, and remember which are done
//	-grown          only worlds of 24 hours with wild clocks in which leases grow
//	-busy           this share of the worlds is busy: leases of 5 s are renewed each 0.5 s, and a deploy comes each minute;
//	                narrow pools are resized while they widen
//	-parts          these parts in each world, instead of the mix that the seed draws
//	-without        these parts in no world of a random mix
//	-ignore         a pattern of broken promises that do not end a world, to look for others
//
// A seed determines the world: its parts, the processes that are slow, cut off, paused or
// killed, the steps of clocks, the operators' actions. It does not fix the order in which
// the runtime schedules goroutines, nor the agents' own jitter: a seed that fails is
// likely to fail again, and its history, which is saved, is judged the same forever.
// The model in internal/tenure is the one that repeats bit for bit.
//
// # The actors and the faults
//
// The table in parts.go lists them, each with the chance that a world has it, so that
// most worlds are a random mix. Beyond the parts, a third of the worlds has a narrow
// pool, whose width changes from the beginning to the end while the pool is resized, and
// half of them have wild clocks, hours off; in the others clocks keep within what the
// guards of all releases tolerate, and S2 is judged (not where a glitch is a part).
//
// A fifth of the worlds, none of them narrow, has five node IDs for each task: there leases
// grow, to minutes, and reserve up to twenty ahead.
//
// Requests are lost, delayed beyond the lease and delivered late and out of order,
// whether their sender has gone or not; answers are lost after the write was done; the
// store throttles, answers 500 before or after it did the write, hangs, refuses
// connections, or is away for longer than the lease: the climate in network.go.
//
// A pause stops a process where it touches the world: before a request is sent
// (the clocks have been read by then), before an answer is heard, at a generator's
// reading of the clock, which then returns the time before the pause, and
// between the two clocks that a claim reads. Timers of the agent go off meanwhile,
// unlike in a process that is really stopped, and the code that they start stops at the
// next of these points. It cannot stop where a lock is held, since virtual time
// does not advance while a goroutine waits for a lock; the model can.
//
// Hint cards may be shown as they were minutes ago, or as missing, and be written late,
// after newer ones; an agent in another Region sees a table that is not safe: cards.go.
//
// A copy of a running process is a process whose way to the database made it believe
// what the original believed at one moment: copies.go.
//
// # How to add
//
// An actor or a fault: a file of its own, and a line in parts. If it acts by itself,
// give it a run function, which ends with its context; if others ask for it, Plan.has
// says whether the world has it. Each activity of a process that holds a lease is a
// limb, in life.go. A fault of a machine is a trouble, in machine.go; a
// fault of the network is a weather in its climate. Draw from dice of your own
// (rand.NewPCG(seed, a number that nobody has)), never from those of another part, or
// all seeds change. Whoever needs the database has a process or a function with a
// machine, so that the machine's troubles are its own too.
//
// A judge: in package history if the table and the reports of the processes are enough for it,
// so that a saved history can be judged again; else here, in judge.go or beside its
// actor, with World.fail. A judge of liveness asks calmFor first: nobody is blamed for
// what a fault explains. Watch it fail: break the product, see that the world notices,
// and make that a mutant in proof/cmd/mutants/list_world.go.
package sim
