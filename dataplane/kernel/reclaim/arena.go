// SPDX-License-Identifier: Apache-2.0

// This file hands out blocks of cells of a forwarding table, of 1, 2, 4 … cells, by
// the buddy method: a block begins at a multiple of its size, and two free halves
// become one again. A block given back rests before it is handed out again, because
// a program on another processor may still walk through it (bpf/abi.h, "Forwarding
// table"). It never touches the cells.

package reclaim

import (
	"math/bits"
	"time"
)

// MaxOrder bounds a block: 2^22 cells are a node of 2^24 slots.
const MaxOrder = 22

// A Block is 2^order cells that begin at one.
type Block struct {
	Cell  uint32
	Order uint8
}

// Cells is how many cells the block has.
func (b Block) Cells() uint32 { return 1 << b.Order }

// An Arena hands out the cells from 0 to size-1.
type Arena struct {
	Size    uint32
	free    [MaxOrder + 1][]uint32 // beginnings by order; those that isFree denies are stale
	isFree  []uint8                // by cell: 1 + the order of the free block that begins there
	Unused  uint32                 // cells in free blocks
	Asleep  uint32                 // cells in resting blocks
	resting Queue[Block]
	Now     func() time.Duration
	Wait    func() // returns when no program walks through a retired block any more
	Private bool   // no program knows the table: nothing needs rest
}

// NewArena makes an arena of so many cells. now is any clock that only grows; wait is called when only
// resting blocks are left.
func NewArena(size uint32, now func() time.Duration, wait func()) *Arena {
	a := &Arena{Now: now, Wait: wait}
	a.Extend(size)
	return a
}

// Extend adds cells at the end.
func (a *Arena) Extend(size uint32) {
	a.isFree = append(a.isFree, make([]uint8, size-a.Size)...)
	at := a.Size
	a.Size = size
	for at < size {
		order := min(bits.TrailingZeros32(at|1<<MaxOrder), bits.Len32(size-at)-1)
		a.Release(Block{at, uint8(order)})
		at += 1 << order
	}
}

// Take returns a block; false when there is none, not even among those that rest.
func (a *Arena) Take(order uint8) (Block, bool) {
	if b, ok := a.TakeAtOnce(order); ok || a.resting.Len() == 0 {
		return b, ok
	}
	a.Wait()
	a.Rested()
	return a.Pick(order)
}

// TakeAtOnce is take that does not wait for programs: false also when those that are large enough still rest.
func (a *Arena) TakeAtOnce(order uint8) (Block, bool) {
	if b, ok := a.Pick(order); ok || a.resting.Len() == 0 {
		return b, ok
	}
	a.Wake(a.Now())
	return a.Pick(order)
}

// Leaves reports whether a share of the cells is unused beside a block, or would be if none rested.
func (a *Arena) Leaves(order uint8, share uint32) bool {
	return a.Unused >= 1<<order+a.Size/share || a.Asleep == 0
}

// Pick takes the smallest free block that is large enough, and frees the rest of it.
func (a *Arena) Pick(order uint8) (Block, bool) {
	for from := order; from <= MaxOrder; from++ {
		cell, ok := a.pop(from)
		if !ok {
			continue
		}
		a.Unused -= 1 << from
		for from > order {
			from--
			a.Release(Block{cell + 1<<from, from})
		}
		return Block{cell, order}, true
	}
	return Block{}, false
}

func (a *Arena) pop(order uint8) (cell uint32, ok bool) {
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

// Reserve takes a certain block; false when some of it is not free.
func (a *Arena) Reserve(b Block) bool {
	if b.Cell%b.Cells() != 0 {
		return false
	}
	for order := b.Order; order <= MaxOrder; order++ {
		cell := b.Cell &^ (1<<order - 1)
		if cell >= a.Size || a.isFree[cell] != order+1 {
			continue
		}
		a.isFree[cell] = 0
		a.Unused -= 1 << order
		for order > b.Order { // free the half that is not wanted
			order--
			half := (b.Cell &^ (1<<order - 1)) ^ 1<<order
			a.isFree[half] = order + 1
			a.free[order] = append(a.free[order], half)
			a.Unused += 1 << order
		}
		return true
	}
	return false
}

// GiveBack retires a block.
func (a *Arena) GiveBack(b Block) {
	if a.Private {
		a.Release(b)
		return
	}
	a.Asleep += b.Cells()
	a.resting.Push(b, a.Now()+RestTime)
}

// Release makes a block free that no program can know.
func (a *Arena) Release(b Block) {
	a.Unused += b.Cells()
	for b.Order < MaxOrder {
		buddy := b.Cell ^ b.Cells()
		if buddy+b.Cells() > a.Size || a.isFree[buddy] != b.Order+1 {
			break
		}
		a.isFree[buddy] = 0
		b = Block{min(b.Cell, buddy), b.Order + 1}
	}
	a.isFree[b.Cell] = b.Order + 1
	a.free[b.Order] = append(a.free[b.Order], b.Cell)
}

// Rested makes all retired blocks free: the caller knows that no program walks there.
func (a *Arena) Rested() {
	a.Wake(Never)
}

// Wake makes the blocks free that have rested.
func (a *Arena) Wake(now time.Duration) {
	for b, ok := a.resting.Pop(now); ok; b, ok = a.resting.Pop(now) {
		a.Asleep -= b.Cells()
		a.Release(b)
	}
}

// InUse is how many cells are handed out.
func (a *Arena) InUse() uint32 { return a.Size - a.Unused - a.Asleep }

// Available is how many cells can be handed out, in whatever blocks.
func (a *Arena) Available() uint32 { return a.Unused + a.Asleep }
