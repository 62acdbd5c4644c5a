// SPDX-License-Identifier: Apache-2.0

// This file builds the forwarding table anew beside the one in force: smaller when little of it is in use, and with a root
// that became wide or no longer is (bpf/abi.h, "Forwarding table"). It changes no answer, and nothing at all when there is no
// memory for it.

package kernel

const (
	// wideFrom is how many entries a root of IPv4 has when it becomes wide, which takes 56 MiB: 224 octets
	// for each. With less than a quarter of them it is narrow again.
	wideFrom      = 1 << 18
	narrowedShare = 4
	// flatFrom is how many entries a root of IPv6 has when its first bits become one node.
	flatFrom = 1 << 16
	// rebuildTries is how often a table is built with twice the cells when those it got were too few.
	rebuildTries = 5
	// A block is made ready when a root lacks no more than a preparedShare of the entries with which it is wide.
	preparedShare = 64
)

// begins is what programs are told of a root.
func (r *trieRoot) begins() walkBegin {
	b := walkBegin{slot: r.slot}
	switch {
	case r.wide != nil:
		b.block = r.wide.block
	case r.groups != nil:
		b.block = r.groups.block
	}
	return b
}

func (t *tables) beginnings() map[rootKey]walkBegin {
	all := make(map[rootKey]walkBegin, len(t.roots))
	for key, r := range t.roots {
		all[key] = r.begins()
	}
	return all
}

// wideOctets is what the slots of all wide roots take, and the groups.
func (t *tables) wideOctets() (octets uint64) {
	for _, r := range t.roots {
		if r.groups != nil {
			octets += r.groups.octets()
		}
		if r.wide != nil {
			octets += uint64(len(r.wide.slots)) * slotOctets
		}
	}
	return octets
}

func (t *tables) wantsWide(key rootKey, r *root) bool {
	if r.wide != nil {
		return r.entries >= t.wideFrom/narrowedShare
	}
	return key.family == 4 && r.entries >= t.wideFrom && r.entries >= 2*r.triedAt && t.wideRoots() < t.wideLimit()
}

// wideLimit is how many roots may be wide: those that can have so many entries at a time. Roots that
// had them once, one after the other, would take any amount of memory.
func (t *tables) wideLimit() int { return max(1, len(t.records)/t.wideFrom) }

func (t *tables) wideRoots() (n int) {
	for _, r := range t.roots {
		if r.wide != nil {
			n++
		}
	}
	return n
}

// broaden makes a root wide when it has become one of many entries. Where that fails, it
// stays as it is until there are twice as many.
func (t *tables) broaden(key rootKey) {
	r := t.roots[key]
	if r.wide != nil || r.entries < 2*r.triedAt {
		return
	}
	if !t.wantsWide(key, r) {
		t.readyBlock(key, r)
		return
	}
	t.reshape(r)
}

// readyBlock has a block ready for a root that is soon to be wide: to make its memory takes longer than packets should wait.
func (t *tables) readyBlock(key rootKey, r *root) {
	soon := t.wideFrom - t.wideFrom/preparedShare
	if key.family == 4 && r.entries >= soon && r.entries < t.wideFrom && t.wideRoots() < t.wideLimit() {
		t.maps.prepareBlock()
	}
}

// shrink continues in a smaller table when little of it is in use, or when a root no
// longer is to be wide. Where that fails, all stays as it is, for as long as if it had grown.
func (t *tables) shrink(below rootKey) {
	if t.offline {
		return
	}
	r := t.roots[below]
	if r != nil && r.wide != nil && !t.wantsWide(below, r) && (r.triedAt == 0 || r.entries <= r.triedAt/2) {
		t.reshape(r)
		return
	}
	if c := t.fib.cells; c.size > uint32(t.smallest) && c.inUse() <= c.size/shrinkShare && t.now() >= t.grownAt+keptGrown && !t.rebuild() {
		t.grownAt = t.now()
	}
}

// shrinkInTime lets a table become small that was kept because it grew, where no entry goes any more. That stores roots, whose places
// whoever tells programs of interfaces looks for as well: while somebody changes anything it is left for the next time.
func (e *Engine) shrinkInTime() {
	if !e.changing.TryLock() {
		return
	}
	defer e.changing.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.tables.shrink(rootKey{}) // no root that there is
	}
}

// reshape rebuilds the table because of a root.
func (t *tables) reshape(r *root) {
	if !t.rebuild() {
		r.triedAt = r.entries
	}
}

func (t *tables) rebuild() bool {
	cells := max(2*t.cellsWanted(), t.smallest)
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
func (t *tables) cellsWanted() int {
	cells := int(t.fib.cells.inUse())
	for key, r := range t.roots {
		switch wide := t.wantsWide(key, r); {
		case wide && r.wide == nil:
			cells -= t.fib.cellsBelow(r.slot)
			for _, prefixes := range r.byBits[wideBits+1:] {
				cells += int(prefixes)
			}
		case !wide && r.wide != nil:
			cells += r.entries
		}
	}
	return cells
}

// rebuildIn builds all in so many cells and puts it in force; short says that they were too few.
func (t *tables) rebuildIn(cells int) (done, short bool) {
	slots, err := t.maps.newTable(cells)
	if err != nil {
		return false, false
	}
	next := newTrie(slots, t.bitsOf, t.fib.cells.now, t.fib.cells.wait)
	next.hurry = t.hurry
	copies := make(map[rootKey]*trieRoot, len(t.roots))
	begins := make(map[rootKey]walkBegin, len(t.roots))
	for key := range t.roots {
		copies[key] = &trieRoot{groups: t.roots[key].groups}
		err = t.rebuildRoot(next, key, copies[key])
		if begins[key] = copies[key].begins(); err != nil || next.short {
			break
		}
	}
	if err == nil && !next.short && !t.offline {
		err = t.maps.switchTable(begins)
	}
	if err != nil || next.short {
		for _, copied := range copies {
			if copied.wide != nil && copied.wide.block != 0 {
				t.maps.dropBlock(copied.wide.block)
			}
		}
		t.maps.dropTable(slots)
		return false, next.short
	}
	next.settle()
	t.succeed(next, copies)
	return true, false
}

// succeed goes on in a table that is in force, or will be.
func (t *tables) succeed(next *trie, copies map[rootKey]*trieRoot) {
	for key, r := range t.roots {
		if t.offline && r.wide != nil {
			t.maps.dropBlock(r.wide.block)
		}
		r.slot, r.wide, r.triedAt = copies[key].slot, copies[key].wide, 0
	}
	next.publish, next.publishRun, next.cells.private = t.fib.publish, t.fib.publishRun, t.offline
	if t.offline {
		t.maps.dropTable(t.fib.slots)
	}
	t.fib = next
}

// rebuildRoot makes what is below a root in another trie.
func (t *tables) rebuildRoot(next *trie, key rootKey, into *trieRoot) (err error) {
	r := t.roots[key]
	if t.wantsWide(key, r) {
		into.wide = &wideRoot{}
		if into.wide.block, into.wide.slots, err = t.maps.newBlock(4); err != nil {
			return err
		}
	}
	switch {
	case into.wide == nil && r.wide != nil:
		return t.enterAnew(next, key, into, func(entryKey) bool { return true })
	case into.wide == nil:
		into.slot = next.copyOf(t.fib, r.slot)
		return nil
	case r.wide == nil:
		next.spread(into.wide.slots, t.fib, r.slot, wideBits)
		return t.enterBeyond(next, key, into)
	}
	into.slot = next.copyOf(t.fib, r.slot)
	for i, slot := range r.wide.slots {
		if slot != slotEmpty {
			into.wide.slots[i] = next.copyOf(t.fib, slot)
		}
	}
	return nil
}

// enterBeyond inserts the entries below a wide root that are about addresses without a slot, as well or alone.
func (t *tables) enterBeyond(next *trie, below rootKey, into *trieRoot) error {
	var beyond trieRoot
	err := t.enterAnew(next, below, &beyond, func(key entryKey) bool {
		at, _, _ := into.begin(key.trieKey(), int(key.bits))
		return at.root != nil
	})
	into.slot = beyond.slot
	return err
}

// enterAnew inserts those entries below a root into another trie that are wanted.
func (t *tables) enterAnew(next *trie, below rootKey, into *trieRoot, wanted func(entryKey) bool) error {
	for index := range t.entries.all() {
		key := keyOfRecord(&t.records[index])
		if key.root() != below || !wanted(key) {
			continue
		}
		if next.cells.available() < insertCells {
			next.short = true
			return nil
		}
		next.insert(into, key.trieKey(), int(key.bits), index)
	}
	return nil
}
