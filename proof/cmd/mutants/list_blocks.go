package main

const (
	runFile     = "pkg/snowflake/run.go"
	blockClient = "internal/app/sidecar/blockclient/client.go"
	blockRoute  = "internal/app/sidecar/blocks.go"
	blockTests  = "./internal/app/sidecar"

	sidecarSocket = "internal/app/sidecar/socket.go"
)

// The mutants of blocks: IDs that another process hands out.
var blockMutants = []mutant{
	{"release below an open block", fence, `tm.last = max(before, min(tm.tickOf(drawn), tm.begun(t.mono())))`, `tm.last = max(before, min(tm.tickOf(drawn), tm.begun(t.mono()))-2)`, ids},
	{"a block has its deadline from the reply", blockClient, `= mono, wall, c.blocks+1`, `= max(mono, c.Clock.Monotonic()), wall.Add(c.Clock.Wall().Sub(wall)), c.blocks+1`, blockTests},
	{"a block is one answer for two callers", blockClient, `if b.Nonce != nonce {`, `if b.Nonce == "" {`, blockTests},
	{"a step of the wall clock keeps a block", blockClient, ` || wall < 0`, ``, blockTests},
	{"a block is longer than what was drawn", runFile, `first, n, left}, nil`, `first, n + 1, left}, nil`, ids + " " + blockTests},
	{"a queued run draws one ticket", runFile, `CompareAndSwap(state, state+n)`, `CompareAndSwap(state, state+1)`, ids},
	{"an ID in place of a void ticket counts as issued", runFile, `lost = n // settle`, `lost = n - 1 // settle`, ids},
	{"a run outlives the lease", runFile, `until(tm.deadline.Load(), mono)`, `until(math.MaxInt64, mono)`, ids},
	{"a run outlives the span", runFile, `until(tm.wallEnd.Load(), wall)`, `until(math.MaxInt64, wall)`, ids},
	{"a block lives as long as the lease", blockRoute, `min(run.Left, blockLife)`, `run.Left`, blockTests},
	{"a new sidecar reaches back", blockRoute, `min(blockBack, max(time.Since(b.began)-b.ids.Layout().Tick, 0))`, `blockBack`, blockTests},
	{"two sidecars replace the socket of a dead one", sidecarSocket, `unlock, ok := lockFolder(filepath.Dir(path))`, `unlock, ok := func() {}, lockFolder != nil`, blockTests},
	{"a foreign lock on the socket's folder hangs a start", "internal/app/sidecar/folder_unix.go", `syscall.LOCK_EX|syscall.LOCK_NB`, `syscall.LOCK_EX`, blockTests},
	{"a socket that goes is an error", sidecarSocket, `errors.Is(err, fs.ErrNotExist) { // its process`, `err == nil { // its process`, blockTests},
	{"one client takes all", blockRoute, `return max(len(b.now), len(b.before))`, `return 1`, blockTests},
}
