// SPDX-License-Identifier: Apache-2.0

// This file hands out blocks of cells of a forwarding table, of 1, 2, 4 … cells, by
// the buddy method: a block begins at a multiple of its size, and two free halves
// become one again. A block given back rests before it is handed out again, because
// a program on another processor may still walk through it (bpf/abi.h, "Forwarding
// table"). It never touches the cells.

package kernel

import (
	"math/bits"
	"time"
)

// maxBlockOrder bounds a block: 2^22 cells are a node of 2^24 slots.
const maxBlockOrder = 22

// A block is 2^order cells that begin at one.
type block struct {
	cell  uint32
	order uint8
}

func (b block) cells() uint32 { return 1 << b.order }

// An arena hands out the cells from 0 to size-1.
type arena struct {
	size    uint32
	free    [maxBlockOrder + 1][]uint32 // beginnings by order; those that isFree denies are stale
	isFree  []uint8                     // by cell: 1 + the order of the free block that begins there
	unused  uint32                      // cells in free blocks
	asleep  uint32                      // cells in resting blocks
	resting restQueue[block]
	now     func() time.Duration
	wait    func() // returns when no program walks through a retired block any more
	private bool   // no program knows the table: nothing needs rest
}

func newArena(size uint32, now func() time.Duration, wait func()) *arena {
	a := &arena{now: now, wait: wait}
	a.extend(size)
	return a
}

// extend adds cells at the end.
func (a *arena) extend(size uint32) {
	a.isFree = append(a.isFree, make([]uint8, size-a.size)...)
	at := a.size
	a.size = size
	for at < size {
		order := min(bits.TrailingZeros32(at|1<<maxBlockOrder), bits.Len32(size-at)-1)
		a.release(block{at, uint8(order)})
		at += 1 << order
	}
}

// take returns a block; false when there is none, not even among those that rest.
func (a *arena) take(order uint8) (block, bool) {
	if b, ok := a.takeAtOnce(order); ok || a.resting.len() == 0 {
		return b, ok
	}
	a.wait()
	a.rested()
	return a.pick(order)
}

// takeAtOnce is take that does not wait for programs: false also when those that are large enough still rest.
func (a *arena) takeAtOnce(order uint8) (block, bool) {
	if b, ok := a.pick(order); ok || a.resting.len() == 0 {
		return b, ok
	}
	a.wake(a.now())
	return a.pick(order)
}

// leaves reports whether a share of the cells is unused beside a block, or would be if none rested.
func (a *arena) leaves(order uint8, share uint32) bool {
	return a.unused >= 1<<order+a.size/share || a.asleep == 0
}

// pick takes the smallest free block that is large enough, and frees the rest of it.
func (a *arena) pick(order uint8) (block, bool) {
	for from := order; from <= maxBlockOrder; from++ {
		cell, ok := a.pop(from)
		if !ok {
			continue
		}
		a.unused -= 1 << from
		for from > order {
			from--
			a.release(block{cell + 1<<from, from})
		}
		return block{cell, order}, true
	}
	return block{}, false
}

func (a *arena) pop(order uint8) (cell uint32, ok bool) {
	list := a.free[order]
	for len(list) > 0 && !ok {
		cell = list[len(list)-1]
		list = list[:len(list)-1]
		ok = a.isFree[cell] == order+1
	}
	a.free[order] = list
	if ok {
		a.isFree[cell] = 0
	}
	return cell, ok
}

// reserve takes a certain block; false when some of it is not free.
func (a *arena) reserve(b block) bool {
	if b.cell%b.cells() != 0 {
		return false
	}
	for order := b.order; order <= maxBlockOrder; order++ {
		cell := b.cell &^ (1<<order - 1)
		if cell >= a.size || a.isFree[cell] != order+1 {
			continue
		}
		a.isFree[cell] = 0
		a.unused -= 1 << order
		for order > b.order { // free the half that is not wanted
			order--
			half := (b.cell &^ (1<<order - 1)) ^ 1<<order
			a.isFree[half] = order + 1
			a.free[order] = append(a.free[order], half)
			a.unused += 1 << order
		}
		return true
	}
	return false
}

// giveBack retires a block.
func (a *arena) giveBack(b block) {
	if a.private {
		a.release(b)
		return
	}
	a.asleep += b.cells()
	a.resting.push(b, a.now()+restTime)
}

// release makes a block free that no program can know.
func (a *arena) release(b block) {
	a.unused += b.cells()
	for b.order < maxBlockOrder {
		buddy := b.cell ^ b.cells()
		if buddy+b.cells() > a.size || a.isFree[buddy] != b.order+1 {
			break
		}
		a.isFree[buddy] = 0
		b = block{min(b.cell, buddy), b.order + 1}
	}
	a.isFree[b.cell] = b.order + 1
	a.free[b.order] = append(a.free[b.order], b.cell)
}

// rested makes all retired blocks free: the caller knows that no program walks there.
func (a *arena) rested() {
	a.wake(never)
}

func (a *arena) wake(now time.Duration) {
	for b, ok := a.resting.pop(now); ok; b, ok = a.resting.pop(now) {
		a.asleep -= b.cells()
		a.release(b)
	}
}

// inUse is how many cells are handed out.
func (a *arena) inUse() uint32 { return a.size - a.unused - a.asleep }

// available is how many cells can be handed out, in whatever blocks.
func (a *arena) available() uint32 { return a.unused + a.asleep }
