// SPDX-License-Identifier: Apache-2.0

// This file finds room for an insertion: cells that have rested, or a larger table. An insertion does not wait for a
// shape that is only faster.

package lpm

import (
	"fmt"

	"loci/dataplane"
)

// MakeRoom makes sure that linking an entry finds the cells that it needs. It does not wait for cells that
// a change of shape lacks: until a larger table is made, the present shape answers.
func (t *Table) MakeRoom() error {
	t.awaken()
	c := t.trie.space.cells
	size := t.largerTable()
	if c.Unused < insertCells && c.Asleep > 0 && (c.Asleep > c.Size/hurryShare || size == int(c.Size)) {
		c.Wait()
		c.Rested()
	}
	enough := c.Unused >= insertCells
	switch {
	case size == int(c.Size) && !enough:
		return fmt.Errorf("%w: the forwarding table has %d octets", dataplane.ErrFull, t.cellLimit*CellOctets)
	case size == int(c.Size):
		t.trie.space.forgo()
		return nil
	case enough && t.trie.space.wanted == 0:
		if !t.offline && c.Available() < min(c.Size/2, preparedCells) {
			_ = t.memory.PrepareTable(size)
		}
		return nil
	case enough && !t.offline:
		if size = t.memory.PrepareTable(size); size == 0 {
			return nil
		}
	case !t.offline:
		// What is prepared has room for the entry, and is there sooner than one of the size that a node would have it now.
		if prepared := t.memory.PreparedCells(); prepared > int(c.Size) {
			size = min(prepared, t.cellLimit)
		}
	}
	err := t.extend(size)
	if err != nil && enough {
		t.trie.space.forgo()
		return nil
	}
	return err
}

// extend continues in a larger table.
func (t *Table) extend(size int) error {
	slots, err := t.memory.NewTable(size)
	if err != nil {
		return err
	}
	copy(slots, t.trie.slots)
	if !t.offline {
		if err := t.memory.ExtendTable(t.beginnings()); err != nil {
			t.memory.DropTable(slots)
			return err
		}
	}
	before := t.trie.slots
	t.trie.move(slots)
	if t.offline {
		t.memory.DropTable(before)
	}
	t.grownAt = t.now()
	return nil
}

// awaken looks after the cells that rest. No insertion waits for those that it does not need: that is done in the background.
func (t *Table) awaken() {
	c := t.trie.space.cells
	restless := func() bool { return c.Asleep > c.Size/hurryShare || c.Asleep > c.Unused && c.Unused < scarceCells }
	if !restless() {
		return
	}
	if c.Wake(c.Now()); !restless() {
		return
	}
	t.hurry()
}

// largerTable is how many cells the next table has; as many as this one at the limit.
func (t *Table) largerTable() int {
	c, lacking := t.trie.space.cells, t.trie.space.wanted
	size := int(c.Size) + int(c.Size)/4
	if lacking > 0 { // a block begins at a multiple of its size
		size = max(size, (int(c.Size+lacking-1)&^int(lacking-1))+int(lacking))
	}
	return min(size, t.cellLimit)
}
