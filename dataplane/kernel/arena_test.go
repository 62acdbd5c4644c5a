// SPDX-License-Identifier: Apache-2.0

// These tests hand out blocks at random and look whether any two overlap, and
// whether all of the arena comes back.

package kernel

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestArenaBlocksNeverOverlap(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	clock := time.Duration(0)
	a := newArena(100, func() time.Duration { return clock }, func() {})
	owner := make([]int, 5000)
	var held []block
	for step := 1; step < 20000; step++ {
		clock += 10 * time.Millisecond
		if step%1000 == 0 {
			a.extend(a.size + uint32(random.IntN(200)))
		}
		if random.IntN(2) == 0 && len(held) > 0 {
			at := random.IntN(len(held))
			for i := range held[at].cells() {
				owner[held[at].cell+i] = 0
			}
			a.giveBack(held[at])
			held[at] = held[len(held)-1]
			held = held[:len(held)-1]
			continue
		}
		b, ok := a.take(uint8(random.IntN(5)))
		if !ok {
			continue
		}
		if b.cell%b.cells() != 0 || b.cell+b.cells() > a.size {
			t.Fatalf("block %+v of %d cells", b, a.size)
		}
		for i := range b.cells() {
			if owner[b.cell+i] != 0 {
				t.Fatalf("step %d: cell %d is still in use since step %d", step, b.cell+i, owner[b.cell+i])
			}
			owner[b.cell+i] = step
		}
		held = append(held, b)
	}
	for _, b := range held {
		a.giveBack(b)
	}
	a.rested()
	if a.inUse() != 0 || a.available() != a.size {
		t.Errorf("%d cells in use, %d of %d available after all came back", a.inUse(), a.available(), a.size)
	}
	if b, ok := a.take(10); !ok {
		t.Errorf("no block of 1024 in %d free cells: halves were not joined (%+v)", a.size, b)
	}
}

func TestArenaReserves(t *testing.T) {
	a := newArena(37, func() time.Duration { return 0 }, func() {})
	for _, c := range []struct {
		block block
		want  bool
	}{
		{block{8, 2}, true}, {block{8, 2}, false}, {block{10, 0}, false}, {block{12, 1}, true}, {block{0, 5}, false},
		{block{36, 0}, true}, {block{36, 1}, false}, {block{37, 0}, false}, {block{13, 1}, false}, {block{100, 0}, false},
	} {
		if got := a.reserve(c.block); got != c.want {
			t.Errorf("reserve %+v: %v", c.block, got)
		}
	}
	if a.inUse() != 7 {
		t.Errorf("%d cells in use, want 7", a.inUse())
	}
	for left := a.available(); left > 0; left-- {
		if b, ok := a.take(0); !ok || b.cell >= 8 && b.cell < 14 || b.cell == 36 {
			t.Fatalf("%+v, %v: of what was reserved, or nothing with %d left", b, ok, left)
		}
	}
}

func TestArenaLetsBlocksRest(t *testing.T) {
	clock, waits := time.Duration(0), 0
	a := newArena(2, func() time.Duration { return clock }, func() { waits++ })
	first, _ := a.take(0)
	second, _ := a.take(0)
	a.giveBack(first)
	if again, ok := a.take(0); !ok || again != first || waits != 1 {
		t.Errorf("%+v, %v after %d waits: a block was handed out that a program may walk through", again, ok, waits)
	}
	a.giveBack(second)
	clock += restTime
	if again, ok := a.take(0); !ok || again != second || waits != 1 {
		t.Errorf("%+v, %v after %d waits: a block that has rested was not handed out", again, ok, waits)
	}
	if _, ok := a.take(0); ok {
		t.Error("a cell was handed out twice")
	}
}
