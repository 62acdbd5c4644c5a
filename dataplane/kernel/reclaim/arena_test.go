// SPDX-License-Identifier: Apache-2.0

// These tests hand out blocks at random and look whether any two overlap, and
// whether all of the arena comes back.

package reclaim

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestArenaBlocksNeverOverlap(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	clock := time.Duration(0)
	a := NewArena(100, func() time.Duration { return clock }, func() {})
	owner := make([]int, 5000)
	var held []Block
	for step := 1; step < 20000; step++ {
		clock += 10 * time.Millisecond
		if step%1000 == 0 {
			a.Extend(a.Size + uint32(random.IntN(200)))
		}
		if random.IntN(2) == 0 && len(held) > 0 {
			at := random.IntN(len(held))
			for i := range held[at].Cells() {
				owner[held[at].Cell+i] = 0
			}
			a.GiveBack(held[at])
			held[at] = held[len(held)-1]
			held = held[:len(held)-1]
			continue
		}
		b, ok := a.Take(uint8(random.IntN(5)))
		if !ok {
			continue
		}
		if b.Cell%b.Cells() != 0 || b.Cell+b.Cells() > a.Size {
			t.Fatalf("block %+v of %d cells", b, a.Size)
		}
		for i := range b.Cells() {
			if owner[b.Cell+i] != 0 {
				t.Fatalf("step %d: cell %d is still in use since step %d", step, b.Cell+i, owner[b.Cell+i])
			}
			owner[b.Cell+i] = step
		}
		held = append(held, b)
	}
	for _, b := range held {
		a.GiveBack(b)
	}
	a.Rested()
	if a.InUse() != 0 || a.Available() != a.Size {
		t.Errorf("%d cells in use, %d of %d available after all came back", a.InUse(), a.Available(), a.Size)
	}
	if b, ok := a.Take(10); !ok {
		t.Errorf("no block of 1024 in %d free cells: halves were not joined (%+v)", a.Size, b)
	}
}

func TestArenaReserves(t *testing.T) {
	a := NewArena(37, func() time.Duration { return 0 }, func() {})
	for _, c := range []struct {
		block Block
		want  bool
	}{
		{Block{8, 2}, true}, {Block{8, 2}, false}, {Block{10, 0}, false}, {Block{12, 1}, true}, {Block{0, 5}, false},
		{Block{36, 0}, true}, {Block{36, 1}, false}, {Block{37, 0}, false}, {Block{13, 1}, false}, {Block{100, 0}, false},
	} {
		if got := a.Reserve(c.block); got != c.want {
			t.Errorf("reserve %+v: %v", c.block, got)
		}
	}
	if a.InUse() != 7 {
		t.Errorf("%d cells in use, want 7", a.InUse())
	}
	for left := a.Available(); left > 0; left-- {
		if b, ok := a.Take(0); !ok || b.Cell >= 8 && b.Cell < 14 || b.Cell == 36 {
			t.Fatalf("%+v, %v: of what was reserved, or nothing with %d left", b, ok, left)
		}
	}
}

func TestArenaLetsBlocksRest(t *testing.T) {
	clock, waits := time.Duration(0), 0
	a := NewArena(2, func() time.Duration { return clock }, func() { waits++ })
	first, _ := a.Take(0)
	second, _ := a.Take(0)
	a.GiveBack(first)
	if again, ok := a.Take(0); !ok || again != first || waits != 1 {
		t.Errorf("%+v, %v after %d waits: a block was handed out that a program may walk through", again, ok, waits)
	}
	a.GiveBack(second)
	clock += RestTime
	if again, ok := a.Take(0); !ok || again != second || waits != 1 {
		t.Errorf("%+v, %v after %d waits: a block that has rested was not handed out", again, ok, waits)
	}
	if _, ok := a.Take(0); ok {
		t.Error("a cell was handed out twice")
	}
}
