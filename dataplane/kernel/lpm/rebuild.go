// SPDX-License-Identifier: Apache-2.0

// This file builds the forwarding table anew beside the one in force: smaller when little of it is in use, and with a
// root that became wide or no longer is (bpf/abi.h, "Forwarding table"). It changes no answer, and nothing at all
// when there is no memory for it.

package lpm

const (
	// narrowedShare of the entries that made a root wide, or gave it groups, keep it so.
	narrowedShare = 4
	// rebuildTries is how often a table is built with twice the cells when those it got were too few.
	rebuildTries = 5
	// A block is made ready when a root lacks no more than a preparedShare of the entries with which it is wide.
	preparedShare = 64
)

func (t *Table) wantsFirstLevel(key RootKey, r *root) bool {
	if r.first != nil {
		return r.entries >= t.Thresholds.FirstLevel4/narrowedShare
	}
	return key.Family == 4 && r.entries >= t.Thresholds.FirstLevel4 && r.entries >= 2*r.triedAt && t.firstLevels() < t.firstLevelLimit()
}

// growFirstLevel makes a root wide when it has become one of many entries. Where that fails, it
// stays as it is until there are twice as many.
func (t *Table) growFirstLevel(key RootKey) {
	r := t.roots[key]
	if r.first != nil || r.entries < 2*r.triedAt {
		return
	}
	if !t.wantsFirstLevel(key, r) {
		t.prepareFirstLevel(key, r)
		return
	}
	t.reshape(r)
}

// prepareFirstLevel has a block ready for a root that is soon to be wide: to make its memory takes longer than
// packets should wait.
func (t *Table) prepareFirstLevel(key RootKey, r *root) {
	soon := t.Thresholds.FirstLevel4 - t.Thresholds.FirstLevel4/preparedShare
	if key.Family == 4 && r.entries >= soon && r.entries < t.Thresholds.FirstLevel4 && t.firstLevels() < t.firstLevelLimit() {
		t.memory.PrepareFirstLevel()
	}
}

// shrinkRoot continues in a smaller table when little of it is in use, or when a root no
// longer is to be wide. Where that fails, all stays as it is, for as long as if it had grown.
func (t *Table) shrinkRoot(below RootKey) {
	if t.offline {
		return
	}
	r := t.roots[below]
	if r != nil && r.first != nil && !t.wantsFirstLevel(below, r) && (r.triedAt == 0 || r.entries <= r.triedAt/2) {
		t.reshape(r)
		return
	}
	if c := t.trie.space.cells; c.Size > uint32(t.Thresholds.Smallest) && c.InUse() <= c.Size/shrinkShare && t.now() >= t.grownAt+t.Thresholds.KeptGrown && !t.rebuild() {
		t.grownAt = t.now()
	}
}

// reshape rebuilds the table because of a root.
func (t *Table) reshape(r *root) {
	if !t.rebuild() {
		r.triedAt = r.entries
	}
}

func (t *Table) rebuild() bool {
	cells := max(2*t.cellsWanted(), t.Thresholds.Smallest)
	for range rebuildTries {
		cells = min(cells, t.cellLimit)
		done, short := t.rebuildIn(cells)
		if done || !short || cells == t.cellLimit {
			return done
		}
		cells *= 2
	}
	return false
}

// cellsWanted guesses how many cells the table built anew has in use.
func (t *Table) cellsWanted() int {
	cells := int(t.trie.space.cells.InUse())
	for key, r := range t.roots {
		switch wide := t.wantsFirstLevel(key, r); {
		case wide && r.first == nil:
			cells -= t.trie.cellsBelow(r.slot)
			for _, prefixes := range r.byBits[firstLevelBits4+1:] {
				cells += int(prefixes)
			}
		case !wide && r.first != nil:
			cells += r.entries
		}
	}
	return cells
}

// rebuildIn builds all in so many cells and puts it in force; short says that they were too few.
func (t *Table) rebuildIn(cells int) (done, short bool) {
	slots, err := t.memory.NewTable(cells)
	if err != nil {
		return false, false
	}
	next := newTrie(slots, t.bitsOf, t.trie.space.cells.Now, t.trie.space.cells.Wait)
	next.space.hurry = t.hurry
	copies := make(map[RootKey]*trieRoot, len(t.roots))
	begins := make(map[RootKey]Begin, len(t.roots))
	for key := range t.roots {
		copies[key] = &trieRoot{levels: t.roots[key].levels}
		err = t.rebuildRoot(next, key, copies[key])
		if begins[key] = copies[key].begins(); err != nil || next.space.short {
			break
		}
	}
	if err == nil && !next.space.short && !t.offline {
		err = t.memory.SwitchTable(begins)
	}
	if err != nil || next.space.short {
		for _, copied := range copies {
			if copied.first != nil && copied.first.number != 0 {
				t.memory.DropFirstLevel(copied.first.number)
			}
		}
		t.memory.DropTable(slots)
		return false, next.space.short
	}
	next.space.settle()
	t.succeed(next, copies)
	return true, false
}

// succeed goes on in a table that is in force, or will be.
func (t *Table) succeed(next *trie, copies map[RootKey]*trieRoot) {
	for key, r := range t.roots {
		if t.offline && r.first != nil {
			t.memory.DropFirstLevel(r.first.number)
		}
		r.slot, r.first, r.triedAt = copies[key].slot, copies[key].first, 0
	}
	next.publish, next.publishRun, next.space.cells.Private = t.trie.publish, t.trie.publishRun, t.offline
	if t.offline {
		t.memory.DropTable(t.trie.slots)
	}
	t.trie, t.editor.trie = next, next
}

// rebuildRoot makes what is below a root in another trie.
func (t *Table) rebuildRoot(next *trie, key RootKey, into *trieRoot) (err error) {
	r := t.roots[key]
	if t.wantsFirstLevel(key, r) {
		into.first = &firstLevel{}
		if into.first.number, into.first.slots, err = t.memory.NewFirstLevel(4); err != nil {
			return err
		}
	}
	switch {
	case into.first == nil && r.first != nil:
		return t.enterAnew(next, key, into, func(Key) bool { return true })
	case into.first == nil:
		into.slot = next.copyOf(t.trie, r.slot)
		return nil
	case r.first == nil:
		(spreader{next}).spread(into.first.slots, t.trie, r.slot, firstLevelBits4)
		return t.enterBeyond(next, key, into)
	}
	into.slot = next.copyOf(t.trie, r.slot)
	for i, slot := range r.first.slots {
		if slot != slotEmpty {
			into.first.slots[i] = next.copyOf(t.trie, slot)
		}
	}
	return nil
}

// enterBeyond inserts the entries below a root with a first level that cover addresses without a slot there, also or
// only.
func (t *Table) enterBeyond(next *trie, below RootKey, into *trieRoot) error {
	var beyond trieRoot
	err := t.enterAnew(next, below, &beyond, func(key Key) bool {
		at, _, _ := into.begin(key.trieKey(), int(key.Bits))
		return at.root != nil
	})
	into.slot = beyond.slot
	return err
}

// enterAnew inserts those entries below a root into another trie that are wanted.
func (t *Table) enterAnew(next *trie, below RootKey, into *trieRoot, wanted func(Key) bool) error {
	edits := editor{trie: next}
	for key, index := range t.entries.All() {
		if key.Root() != below || !wanted(key) {
			continue
		}
		if next.space.cells.Available() < insertCells {
			next.space.short = true
			return nil
		}
		edits.insert(into, key.trieKey(), int(key.Bits), index)
	}
	return nil
}
