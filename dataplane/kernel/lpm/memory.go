// SPDX-License-Identifier: Apache-2.0

// This file says what the forwarding table needs of others.

package lpm

import "iter"

// Memory makes the memory of a forwarding table, and tells programs of it.
type Memory interface {
	// NewTable returns the memory of a table of so many cells that no root refers to.
	NewTable(cells int) ([]uint32, error)
	// PrepareTable begins to make a table of so many cells at least, unless one is made, of which it returns the cells:
	// NewTable has it then. 0: it is not made yet. It does not wait.
	PrepareTable(cells int) (made int)
	// preparedCells are those of the table that is prepared, or being so; 0: there is none.
	PreparedCells() int
	// DropTable gives up a table of NewTable that is not in force.
	DropTable(slots []uint32)
	// PrepareFirstLevel begins to make a block that newBlock will be asked for, of family 4. It does not wait.
	PrepareFirstLevel()
	// NewFirstLevel returns a block for a root of a family, which is not 0, and its memory: no slot leads
	// anywhere.
	NewFirstLevel(family uint8) (block uint32, slots []uint32, err error)
	// DropFirstLevel gives up a block that no root in force names, when programs are done with it.
	DropFirstLevel(block uint32)
	// NewSecondLevel returns the elements of a group, which write wrote before any program saw
	// them, and its number, which is not 0.
	NewSecondLevel(write func(elements []Entry)) (number uint32, elements []Entry, err error)
	// DropSecondLevels gives up groups that no slot leads to any more, when programs are done with
	// them. It does not wait for that.
	DropSecondLevels(numbers []uint32)
	// SwitchTable makes the last NewTable the one of all roots and removes all other
	// tables, roots and blocks. After an error the table before is in force.
	SwitchTable(roots map[RootKey]Begin) error
	// ExtendTable makes the last NewTable, which leads to the same blocks and groups, the one of all
	// roots. It does not wait for programs: the table before goes when they are done with it.
	// After an error the table before is in force.
	ExtendTable(roots map[RootKey]Begin) error
	// PutRoot stores a root. It cannot fail where there is one.
	PutRoot(key RootKey, begin Begin) error
	// DeleteRoot removes a root. Programs may still walk in its block, which dropBlock
	// gives up then.
	DeleteRoot(key RootKey) error
}

// Entries are the entries that a forwarding table finds.
type Entries interface {
	// Get returns the index of an entry.
	Get(key Key) (index uint32, ok bool)
	// All are the keys and indexes of all entries, in no order.
	All() iter.Seq2[Key, uint32]
}

// Begin is what programs are told of a root: the slot, and the block of a wide one.
type Begin struct{ Slot, FirstLevel uint32 }
