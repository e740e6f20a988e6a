package snowflake

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// For every call, a detected suspend is added to the time that has passed, since
// time.Since does not include it. The tick is 10 ms, so that by the clock that does not
// include the suspend, the calls before and after the suspend are in the same tick.
func TestSuspendCountsAsTimePassed(t *testing.T) {
	const gap = time.Minute
	for name, call := range map[string]func(*Generator) func() (ID, error){
		"Next":        func(g *Generator) func() (ID, error) { return g.Next },
		"NextContext": func(g *Generator) func() (ID, error) { return func() (ID, error) { return g.NextContext(t.Context()) } },
		"TryNext":     func(g *Generator) func() (ID, error) { return g.TryNext },
		"Block":       func(g *Generator) func() (ID, error) { return g.Block().Next },
	} {
		tl := NewTimeline(nil)
		if err := tl.Bind(Span{NodeID: 7, Until: Forever(), Deadline: SystemClock().Monotonic() + gap/2}); err != nil {
			t.Fatal(err)
		}
		g, err := New(tl, WithLayout(Sonyflake()))
		if err != nil {
			t.Fatal(err)
		}
		f := call(g)
		if _, err := f(); err != nil {
			t.Fatal(name, err)
		}
		suspended.Add(int64(gap))
		if id, err := f(); err != ErrFenced {
			t.Errorf("%s: %d, %v, want ErrFenced", name, id, err)
		}
		suspended.Add(-int64(gap)) // this does not affect other tests, since no other timeline exists now
	}
}

func TestLooksForSuspends(t *testing.T) {
	gap := suspendedSinceStart()
	if gap < -int64(time.Second) || gap > int64(time.Second) { // this assumes that the machine is not suspended during the test
		t.Errorf("got a suspension of %v, want at most 1 s", time.Duration(gap))
	}
	// In a bubble, the time since origin differs by decades. Even so, the next call outside
	// the bubble must read the clocks.
	synctest.Test(t, func(*testing.T) { lookForSuspend(time.Since(origin)) })
	in := looked.Load()
	lookForSuspend(time.Since(origin))
	if looked.Load() == in {
		t.Error("no read after one in a bubble")
	}
}

// With an injected clock, every wait is a time.Sleep, including the first. If the thread
// slept in any other way, time would not advance in a bubble.
func TestInjectedClockSleepsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl, start := NewTimeline(bubbleClock{}), time.Now()
		tl.sleep(time.Millisecond)
		if tl.gate.virtual.Load() || time.Since(start) != time.Millisecond {
			t.Errorf("slept for %v, want 1 ms", time.Since(start))
		}
	})
}

type bubbleClock struct{}

func (bubbleClock) Wall() time.Time          { return time.Now() }
func (bubbleClock) Monotonic() time.Duration { return time.Since(origin) }

// device creates a file with the layout of a VMClock device. It returns the file's path
// and its page, to which a test may write as a hypervisor does.
func device(t testing.TB, change func(page []byte)) (string, []byte) {
	t.Helper()
	page := make([]byte, os.Getpagesize())
	write := binary.LittleEndian
	write.PutUint32(page, 0x4b4c4356)
	write.PutUint32(page[4:], 0x1000)
	write.PutUint16(page[8:], 1)
	write.PutUint64(page[24:], 1<<8|1<<7)
	write.PutUint64(page[104:], 41)
	if change != nil {
		change(page)
	}
	path := filepath.Join(t.TempDir(), "vmclock0")
	if err := os.WriteFile(path, page, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mapped, err := syscall.Mmap(int(file.Fd()), 0, len(page), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mapped) })
	return path, mapped
}

// restore changes the generation counter, as a hypervisor does when it restores a machine
// from a snapshot.
func restore(page []byte) { atomic.AddUint64((*uint64)(unsafe.Pointer(&page[104])), 1) }

// mapGeneration returns a counter only if the device has one.
func TestMapGeneration(t *testing.T) {
	for name, change := range map[string]func(page []byte){
		"another magic":              func(page []byte) { page[0]++ },
		"another version":            func(page []byte) { page[8]++ },
		"too small":                  func(page []byte) { binary.LittleEndian.PutUint32(page[4:], 111) },
		"a device without a counter": func(page []byte) { page[25] = 0 },
		"only zeros":                 func(page []byte) { clear(page) },
	} {
		path, _ := device(t, change)
		if at := mapGeneration(path); at != nil {
			t.Errorf("%s: got a counter of %d, want none", name, *at)
		}
	}
	if at := mapGeneration(filepath.Join(t.TempDir(), "vmclock0")); at != nil {
		t.Error("no device: got a counter, want none")
	}
	path, page := device(t, nil)
	at := mapGeneration(path)
	if at == nil || atomic.LoadUint64(at) != 41 {
		t.Fatalf("got a counter at %v, want one of 41", at)
	}
	if restore(page); atomic.LoadUint64(at) != 42 {
		t.Errorf("after a restore: got %d, want 42", atomic.LoadUint64(at))
	}
}

func allOf(t testing.TB, g *Generator) map[string]func() (ID, error) {
	return map[string]func() (ID, error){
		"Next":        g.Next,
		"NextContext": func() (ID, error) { return g.NextContext(t.Context()) },
		"TryNext":     g.TryNext,
		"NextN": func() (ID, error) {
			var one [1]ID
			_, err := g.NextN(t.Context(), one[:])
			return one[0], err
		},
		"Block": g.Block().Next,
		"Draw": func() (ID, error) {
			r, err := g.Draw(t.Context(), 1, 1, 0)
			if err != nil {
				return 0, err
			}
			return r.ID(0), nil
		},
	}
}

// A restored machine is fenced at the next call of any kind. The fence ends only with a
// Seal that is followed by the Bind of a later claim.
func TestRestoredMachineIsFenced(t *testing.T) {
	path, page := device(t, nil)
	for _, strict := range []bool{false, true} {
		for name := range allOf(t, &Generator{t: NewTimeline(nil)}) {
			tl := newTimeline(SystemClock(), mapGeneration(path))
			var opts []Option
			if strict {
				opts = append(opts, WithStrictWall())
			}
			g, err := New(tl, opts...)
			if err != nil {
				t.Fatal(err)
			}
			s := Span{NodeID: 7, Until: Forever(), Deadline: math.MaxInt64}
			if err := tl.Bind(s); err != nil {
				t.Fatal(err)
			}
			f := allOf(t, g)[name]
			if _, err := f(); err != nil || tl.Copied() || tl.Check() != nil {
				t.Fatalf("%s: got %v, copied: %v, check: %v; want an ID", name, err, tl.Copied(), tl.Check())
			}
			restore(page)
			issued := tl.Stats().Issued
			for range 3 {
				if id, err := f(); id != 0 || !errors.Is(err, ErrFenced) || err.Error() == ErrFenced.Error() {
					t.Errorf("%s: restored: got %d, %v; want an ErrFenced that names the restore", name, id, err)
				}
				if err := tl.Check(); !errors.Is(err, ErrFenced) || !tl.Copied() {
					t.Errorf("%s: restored: Check: got %v, copied: %v; want ErrFenced, true", name, err, tl.Copied())
				}
				tl.Extend(Forever(), math.MaxInt64) // a late answer
				if err := tl.Bind(s); !errors.Is(err, ErrFenced) {
					t.Errorf("%s: Bind of a span that was claimed before: got %v, want ErrFenced", name, err)
				}
			}
			if got := tl.Stats().Issued; got < issued || got > issued+8 {
				t.Errorf("%s: got %d IDs issued, want about %d", name, got, issued)
			}
			if tl.Seal(); !tl.Copied() {
				t.Errorf("%s: sealed: got Copied false, want true", name)
			}
			if tl.Seal(); tl.Copied() {
				t.Errorf("%s: sealed twice: got Copied true, want false", name)
			}
			if id, err := f(); id != 0 || err != ErrFenced {
				t.Errorf("%s: sealed: got %d, %v; want %v", name, id, err, ErrFenced)
			}
			if err := tl.Bind(s); err != nil {
				t.Errorf("%s: Bind of a new span: got %v", name, err)
			}
			if _, err := f(); err != nil && err != ErrBusy { // ErrBusy is from TryNext, in the tick that was used up
				t.Errorf("%s: bound again: got %v, want an ID", name, err)
			}
			tl.Close()
			restore(page)
			if id, err := f(); id != 0 || err != ErrClosed || !tl.Copied() {
				t.Errorf("%s: closed, then restored: got %d, %v, copied: %v; want %v, true", name, id, err, tl.Copied(), ErrClosed)
			}
		}
	}
}

// generations is the clock of a machine that can be restored from a snapshot. Its time
// advances when a call waits.
type generations struct {
	stepped
	generation uint64
	asleep     func()
}

func (c *generations) Generation() uint64 { return c.generation }

func (c *generations) Sleep(d time.Duration) {
	c.stepped.Sleep(d)
	if c.asleep != nil {
		c.asleep()
	}
}

// If a call waits with a ticket when the snapshot is taken, it does not get its ID,
// because in the other copy the same call waits with the same ticket. This is so whether
// the call wakes up first or a Seal comes first.
func TestTicketsOfACopyAreVoid(t *testing.T) {
	for _, seal := range []bool{false, true} {
		clock := &generations{stepped: stepped{wall: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}}
		tl := NewTimeline(clock)
		if err := tl.Bind(Span{NodeID: 7, Until: Forever(), Deadline: math.MaxInt64}); err != nil {
			t.Fatal(err)
		}
		g, err := New(tl)
		if err != nil {
			t.Fatal(err)
		}
		for { // make IDs until the next call has to wait
			if _, err := g.TryNext(); err != nil {
				break
			}
		}
		clock.asleep = func() {
			clock.generation = 9
			if seal {
				tl.Seal()
			}
		}
		if id, err := g.Next(); id != 0 || !errors.Is(err, ErrFenced) {
			t.Errorf("sealed %v: got %d, %v; want %v", seal, id, err, ErrFenced)
		}
	}
}

// After most restores, the wall clock is set, which begins a term with another anchor.
// That term is fenced as well, since the machine is still a copy.
func TestRestoredMachineWhoseClockIsSet(t *testing.T) {
	clock := &generations{stepped: stepped{wall: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}}
	tl := NewTimeline(clock)
	if err := tl.Bind(Span{NodeID: 7, Until: Forever(), Deadline: math.MaxInt64}); err != nil {
		t.Fatal(err)
	}
	g, err := New(tl)
	if err != nil {
		t.Fatal(err)
	}
	clock.generation = 9
	clock.wall = clock.wall.Add(time.Hour)
	tl.Now() // a renewal
	if id, err := g.Next(); id != 0 || !errors.Is(err, ErrFenced) || !tl.Copied() {
		t.Errorf("got %d, %v, copied: %v; want %v, true", id, err, tl.Copied(), ErrFenced)
	}
}

// BenchmarkNextWithVMClock measures the cost of the VMClock counter. Compare it with
// BenchmarkNext.
func BenchmarkNextWithVMClock(b *testing.B) {
	path, _ := device(b, nil)
	for name, machine := range map[string]*uint64{"without": nil, "with": mapGeneration(path)} {
		b.Run(name, func(b *testing.B) {
			tl := newTimeline(SystemClock(), machine)
			if err := tl.Bind(Span{Until: Forever(), Deadline: math.MaxInt64}); err != nil {
				b.Fatal(err)
			}
			l := Default()
			l.NodeBits, l.SequenceBits = 0, 22
			g, err := New(tl, WithLayout(l))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := g.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
