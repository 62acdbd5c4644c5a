// SPDX-License-Identifier: Apache-2.0

package reach

// Locators that are explicit locator paths (RFC 8060 s.4.6): one row for each path of the map-cache, with the hop
// that packets are sent to and the state that the data plane is told. Both follow from the states of its hops, which
// have rows like plain locators. Probed are the hop that is sent to, those before it that were left, and directly
// every later hop with the P bit; of the others nothing is known here. Which hop it is decides package hops.

import (
	"fmt"
	"slices"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/hops"
	"loci/control/internal/status"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// pathBatch bounds the paths that one event-loop iteration judges anew.
	pathBatch = 512
	// pathPages is where the numbers of paths begin in a list of all locators.
	pathPages = 1 << 31
)

// PathRow is what the ITR knows about one path.
type PathRow struct {
	Path      lisp.Path
	bits      lisp.PathBits // of the mapping that came last
	Prefix    lisp.Prefix   // of one of the mappings
	sites     [2]lisp.Prefix
	mappings  int
	alone     int // mappings in which no other locator may be used
	usedAt    timing.Instant
	choice    hops.Choice
	isJudged  bool
	moved     uint64 // Table.Paths.Moves when packets went to another hop last
	watched   uint8  // hops whose rows it keeps, a bit for each
	State     effect.LocatorState
	reason    effect.LocatorReason
	changedAt timing.Instant
	Told      effect.LocatorState
	certain   bool
	adopted   effect.LocatorState // what the data plane kept, until the hops are judged
	loweredBy []lisp.Prefix       // as for a plain locator
	loweredAt timing.Instant
}

// Paths is the table of paths.
type Paths struct {
	table   *Table // the states of hops
	Rows    table.Slab[PathRow]
	ByPath  map[lisp.Path]uint32
	ByHop   map[lisp.RLOC][]uint32
	Moves   uint64      // changes of hops that packets are sent to
	Moved   func()      // is told of each
	dirty   []lisp.RLOC // hops that changed
	all     bool        // every path is to be judged anew
	cursor  uint32      // where that is
	Work    batch.Work
	chooser hops.Router
}

// usedFor notes that a mapping with the path forwarded, and returns the hop that packets are sent to.
func (row *PathRow) usedFor(p lisp.Prefix, at timing.Instant) lisp.RLOC {
	row.usedAt, row.Prefix, row.sites[siteIndex(p)] = max(row.usedAt, at), p, p
	return row.Path.Hop(int(row.choice.Next))
}

// initialise makes the table usable.
func (t *Table) initialise() {
	t.Paths.table = t
	t.Paths.ByPath, t.Paths.ByHop = make(map[lisp.Path]uint32), make(map[lisp.RLOC][]uint32)
	t.Paths.chooser.State = t.hopState
}

// isWatched reports whether a locator of a mapping has a row, and RLOC-probes. One that is looked up is an EID. One
// with a NAT on the way is known by NAT traversal: its keepalives and Map-Registers.
func isWatched(l *lisp.Locator) bool {
	return l.Usable() && l.SourcePort == 0 && (l.Behind != "" || !l.Bits.Has(0, lisp.HopLookup))
}

// router is what we know that choose.
func (a *Paths) router() *hops.Router {
	t := a.table
	t.Paths.chooser.Own, t.Paths.chooser.Depth = t.h.RLOCs, t.h.Depth
	return &t.Paths.chooser
}

// Choose is the hop that packets of a locator are sent to. Of a path that was judged it is what came of that: hops
// are judged by events, and an age of a hop's last packet, which ends between two of them, is none.
func (a *Paths) Choose(l *lisp.Locator) hops.Choice {
	t := a.table
	if l.Behind == "" && !l.Bits.Has(0, lisp.HopLookup) && !t.IsOwn(l.RLOC) {
		return hops.Choice{}
	}
	if id, known := t.Paths.ByPath[l.Path()]; known {
		if row := t.Paths.Rows.At(id); row.isJudged && row.bits == l.Bits {
			return row.choice
		}
	}
	return t.Paths.router().Choose(l.Path(), &l.Bits)
}

// SkippedHops are the hops of a locator that its packets are not sent to, though they come before the one that they
// are sent to.
func (a *Paths) SkippedHops(l *lisp.Locator) (skipped []status.SkippedHop) {
	if l.Behind == "" {
		return nil
	}
	path := l.Path()
	reasons, from := a.router().Skipped(path, &l.Bits, a.Choose(l))
	for i, reason := range reasons {
		hop := status.SkippedHop{RLOC: path.Hop(from + i), Reason: effect.LocatorReason(reason)}
		if _, row, known := a.table.Get(hop.RLOC); known && reason == "" {
			hop.Reason = row.reason
		}
		skipped = append(skipped, hop)
	}
	return skipped
}

// hopState is the state of a hop; nothing speaks against one without a row.
func (t *Table) hopState(r lisp.RLOC) hops.State {
	_, l, known := t.Get(r)
	if !known {
		return hops.Good
	}
	return t.asHop(l)
}

func (t *Table) asHop(l *Locator) hops.State {
	switch {
	case l.State == effect.LocatorDown:
		return hops.Down
	case l.State != effect.LocatorUnconfirmed:
		return hops.Good
	case t.forPlane(l) == effect.LocatorHeard:
		return hops.Heard
	case l.proven:
		return hops.Silent
	}
	return hops.Unconfirmed
}

// hopNote is what paths take over of a hop.
type hopNote struct {
	as     hops.State
	state  effect.LocatorState // they show it as theirs
	reason effect.LocatorReason
}

// noteHop has the paths judged anew that have a hop, where it is another one for them now.
func (t *Table) noteHop(l *Locator) {
	is := hopNote{t.asHop(l), l.State, l.reason}
	if is == l.asHop {
		return
	}
	if l.asHop = is; len(t.Paths.ByHop[l.RLOC]) > 0 && !slices.Contains(t.Paths.dirty, l.RLOC) {
		t.Paths.dirty = append(t.Paths.dirty, l.RLOC)
		t.Paths.Work.At(t.h.Now)
	}
}

// Judge judges a batch of the paths whose hops changed.
func (a *Paths) Judge() {
	t := a.table
	p := &t.Paths
	p.Work.Run(t.h.Now, pathBatch, func() (cost int, more bool) {
		switch {
		case len(p.dirty) > 0:
			hop := p.dirty[0]
			p.dirty = p.dirty[1:]
			if ids := p.ByHop[hop]; len(ids) > pathBatch {
				p.all, p.cursor = true, 0
			} else {
				for _, id := range ids {
					t.Paths.judge(id)
				}
				cost = len(ids)
			}
		case p.all && p.cursor < uint32(p.Rows.Len()):
			if p.cursor++; !p.Rows.At(p.cursor - 1).Path.IsZero() {
				t.Paths.judge(p.cursor - 1)
			}
		default:
			p.dirty, p.all = nil, false
			return 1, false
		}
		return cost + 1, true
	})
}

// JudgeAll has every path judged anew.
func (a *Paths) JudgeAll() {
	t := a.table
	if len(t.Paths.ByPath) > 0 {
		t.Paths.all, t.Paths.cursor = true, 0
		t.Paths.Work.At(t.h.Now)
	}
}

// track notes another mapping with a path.
func (a *Paths) track(m *lisp.Mapping, l *lisp.Locator, alone int) {
	t := a.table
	id, known := t.Paths.ByPath[l.Path()]
	if !known {
		if t.isFull() {
			t.h.Count(counter.RefusedLocatorTable)
			return
		}
		id = t.Paths.Rows.Add(PathRow{Path: l.Path(), State: effect.LocatorUnknown, Told: effect.LocatorUp, changedAt: t.h.Now})
		t.Paths.ByPath[l.Path()] = id
		for _, hop := range l.Path().Hops() {
			t.Paths.ByHop[hop] = append(t.Paths.ByHop[hop], id)
		}
	}
	row := t.Paths.Rows.At(id)
	row.mappings++
	row.alone += alone
	row.bits, row.Prefix, row.usedAt = l.Bits, m.Prefix, t.h.Now
	row.sites[siteIndex(m.Prefix)] = m.Prefix
	t.Paths.judge(id)
}

// untrack takes a mapping's path out.
func (a *Paths) untrack(m *lisp.Mapping, l *lisp.Locator, alone int, keepBits bool) {
	t := a.table
	id, known := t.Paths.ByPath[l.Path()]
	if !known {
		return
	}
	row := t.Paths.Rows.At(id)
	if at := slices.Index(row.loweredBy, m.Prefix); at >= 0 && !keepBits {
		row.loweredBy = slices.Delete(row.loweredBy, at, at+1)
	}
	if isWatched(l) {
		row.alone = max(row.alone-alone, 0)
		row.mappings--
	}
	if row.mappings > 0 {
		t.Paths.judge(id)
		return
	}
	t.Paths.watch(id, 0)
	row = t.Paths.Rows.At(id)
	if row.Told != effect.LocatorUp {
		t.forget(row.Path)
	}
	for _, hop := range row.Path.Hops() {
		t.Paths.dropHop(hop, id)
	}
	delete(t.Paths.ByPath, row.Path)
	t.Paths.Rows.Release(id)
}

func (a *Paths) dropHop(hop lisp.RLOC, id uint32) {
	t := a.table
	ids := t.Paths.ByHop[hop]
	at := slices.Index(ids, id)
	ids[at] = ids[len(ids)-1]
	if ids = ids[:len(ids)-1]; len(ids) == 0 {
		delete(t.Paths.ByHop, hop)
		return
	}
	t.Paths.ByHop[hop] = ids
}

// judge chooses the hop of a path anew, watches the hops that count, and tells the data plane what comes of it.
func (a *Paths) judge(id uint32) {
	t := a.table
	row := t.Paths.Rows.At(id)
	c := t.Paths.router().Choose(row.Path, &row.bits)
	t.Paths.watch(id, t.Paths.watchedBy(row.Path, &row.bits, c))
	row = t.Paths.Rows.At(id)
	if was := row.choice; row.isJudged && (was.Next != c.Next || was.Reason.IsRule() != c.Reason.IsRule()) {
		t.Paths.Moves++
		row.moved = t.Paths.Moves
		if t.Paths.Moved != nil {
			t.Paths.Moved()
		}
		t.Paths.noteMove(row, was, c)
	}
	row.choice, row.isJudged = c, true
	t.Paths.set(row)
}

// noteMove tells that packets of a path go to another hop.
func (a *Paths) noteMove(row *PathRow, was, is hops.Choice) {
	h := a.table.h
	if was.Next == is.Next || !is.Usable() {
		return
	}
	h.Count(counter.PathMoved)
	if h.MayNotice() { // a hop may be that of thousands of paths
		detail := fmt.Sprintf("packets go to %s, no longer to %s", row.Path.Hop(int(is.Next)), row.Path.Hop(int(was.Next)))
		h.Say(effect.Notice{Kind: effect.NoticePathMoved, Prefix: row.Prefix, RLOC: row.Path.String(), Detail: detail})
	}
}

// hopText says in an event which path a locator is a hop of, "" for one that mappings have as it is.
func (t *Table) hopText(l *Locator) string {
	ids := t.Paths.ByHop[l.RLOC]
	if len(ids) == 0 || l.mappings > 0 {
		return ""
	}
	name := fmt.Sprintf("a hop of %s", t.Paths.Rows.At(ids[0]).Path)
	switch others := len(ids) - 1; others {
	case 0:
		return name
	case 1:
		return name + " and another path"
	default:
		return fmt.Sprintf("%s and %d other paths", name, others)
	}
}

// watchedBy are the hops of a path that get RLOC-probes, a bit for each.
func (a *Paths) watchedBy(p lisp.Path, bits *lisp.PathBits, c hops.Choice) (mask uint8) {
	t := a.table
	if c.Reason.IsRule() {
		return 0
	}
	for i := int(c.First); i < p.Len(); i++ {
		candidate := i <= int(c.Next) || c.Reason == hops.AllHopsDown
		if _, family := t.h.RLOCOf(p.Hop(i).Is4()); family && bits[i]&lisp.HopLookup == 0 && (candidate || hops.IsProbed(bits[i])) {
			mask |= 1 << i
		}
	}
	return mask
}

// watch keeps the rows of those hops of a path, and no others.
func (a *Paths) watch(id uint32, wanted uint8) {
	t := a.table
	row := t.Paths.Rows.At(id)
	path, prefix, was := row.Path, row.Prefix, row.watched
	is := was & wanted
	for i := range path.Len() {
		if bit := uint8(1) << i; wanted&bit != 0 && was&bit == 0 && t.acquireHop(path.Hop(i), prefix) {
			is |= bit
		}
	}
	for i := range path.Len() {
		if bit := uint8(1) << i; was&bit != 0 && wanted&bit == 0 {
			t.releaseHop(path.Hop(i))
		}
	}
	t.Paths.Rows.At(id).watched = is
}

func (t *Table) acquireHop(r lisp.RLOC, prefix lisp.Prefix) bool {
	id, row, known := t.Get(r)
	if !known {
		if t.isFull() {
			t.h.Count(counter.RefusedLocatorTable)
			return false
		}
		id = t.add(r, prefix)
		row = t.Rows.At(id)
	}
	row.paths++
	if !known {
		t.begin(id)
	}
	return true
}

func (t *Table) releaseHop(r lisp.RLOC) {
	id, row, known := t.Get(r)
	if !known {
		return
	}
	row.paths--
	t.removeUnused(id)
}

// set puts a path into the state that its next hop gives it.
func (a *Paths) set(row *PathRow) {
	t := a.table
	state, reason := t.Paths.stateOf(row)
	if was := row.State; was != state || row.reason != reason {
		if row.reason = reason; was != state {
			row.State, row.changedAt = state, t.h.Now
			t.noteChange(was, state, effect.Notice{Prefix: row.Prefix, RLOC: row.Path.String(), Reason: string(reason)})
		}
	}
	t.Paths.tell(row)
}

func (a *Paths) stateOf(row *PathRow) (effect.LocatorState, effect.LocatorReason) {
	t := a.table
	_, next, known := t.Get(row.Path.Hop(int(row.choice.Next)))
	switch {
	case !row.choice.Usable():
		return effect.LocatorDown, effect.LocatorReason(row.choice.Reason)
	case len(row.loweredBy) > 0:
		return effect.LocatorDown, effect.LocatorStatusBit
	case row.adopted != "" && t.Paths.isUndecided(row):
		return row.adopted, effect.LocatorAdopted
	case !known:
		return effect.LocatorUnknown, effect.LocatorNotProbed
	}
	row.adopted = ""
	return next.State, next.reason
}

// isUndecided reports whether a hop of a path is still to answer its first RLOC-probes.
func (a *Paths) isUndecided(row *PathRow) bool {
	t := a.table
	for i := range row.Path.Len() {
		if _, l, known := t.Get(row.Path.Hop(i)); row.watched&(1<<i) != 0 && known && l.reason == effect.LocatorAwaitsReply {
			return true
		}
	}
	return false
}

// forPlane is a path's state as the data plane is told it. One that no packet may take by rule is told with its
// mapping.
func (a *Paths) forPlane(row *PathRow) effect.LocatorState {
	switch {
	case row.choice.Reason.IsRule():
		return effect.LocatorUp
	case row.State == effect.LocatorDown:
		return effect.LocatorDown
	case row.State != effect.LocatorUnconfirmed:
		return effect.LocatorUp
	case row.choice.State == hops.Heard:
		return effect.LocatorHeard
	}
	return effect.LocatorUnconfirmed
}

// tell keeps the data plane's view of a path in step, as tell does for an RLOC.
func (a *Paths) tell(row *PathRow) {
	t := a.table
	state := t.Paths.forPlane(row)
	if row.Told == state && (row.certain || row.reason == effect.LocatorAwaitsReply) {
		return
	}
	row.Told, row.certain = state, true
	t.h.Emit(effect.SetLocatorState{RLOC: row.Path.RLOC, Behind: row.Path.Behind, State: state})
	t.Changed()
}

// MovedSince reports whether packets of a mapping go to another hop of a path than they did at that count of Moves.
func (a *Paths) MovedSince(m *lisp.Mapping, moves uint64) bool {
	t := a.table
	for i := range m.Locators {
		if l := &m.Locators[i]; l.Behind != "" {
			if id, known := t.Paths.ByPath[l.Path()]; known && t.Paths.Rows.At(id).moved > moves {
				return true
			}
		}
	}
	return false
}

// AdoptNext takes over which hop the data plane sends to since before a restart: those before it did not answer.
func (a *Paths) AdoptNext(l *lisp.Locator, next uint8) {
	t := a.table
	id, known := t.Paths.ByPath[l.Path()]
	if !known {
		return
	}
	row := t.Paths.Rows.At(id)
	for i := row.choice.First; i < next && int(i) < row.Path.Len(); i++ {
		if _, hop, known := t.Get(row.Path.Hop(int(i))); known && hop.reason == effect.LocatorAwaitsReply {
			hop.State, hop.reason, hop.changedAt, hop.downAt = effect.LocatorUnconfirmed, effect.LocatorAdopted, t.h.Now, t.h.Now
			t.noteHop(hop)
		}
		t.Paths.judge(id)
		row = t.Paths.Rows.At(id)
	}
}

// adopt takes over a path's state.
func (a *Paths) adopt(k effect.SetLocatorState) {
	t := a.table
	id, known := t.Paths.ByPath[k.Path()]
	if !known {
		t.forget(k.Path())
		return
	}
	row := t.Paths.Rows.At(id)
	row.Told, row.certain = k.State, true
	switch k.State {
	case effect.LocatorDown, effect.LocatorUnconfirmed:
		row.adopted = k.State
	case effect.LocatorHeard:
		row.adopted = effect.LocatorUnconfirmed
	}
	t.Paths.judge(id)
}

// status tells how things stand with a path.
func (a *Paths) status(id uint32) status.LocatorStatus {
	t := a.table
	row := t.Paths.Rows.At(id)
	s := status.LocatorStatus{
		RLOC: row.Path.RLOC, Behind: row.Path.Behind, Bits: row.bits, Next: row.choice.Next,
		State: row.State, Told: row.Told, Reason: row.reason, ChangedAt: t.h.Time(row.changedAt), Mappings: row.mappings, Prefix: row.Prefix,
	}
	if _, hop, known := t.Get(row.Path.Hop(int(row.choice.Next))); known {
		s.RoundTrip = hop.trips.Status()
	}
	return s
}

// PathStatus tells how things stand with a path; nil where no mapping has it.
func (t *Table) PathStatus(p lisp.Path) *status.LocatorStatus {
	if id, known := t.Paths.ByPath[p]; known {
		s := t.Paths.status(id)
		return &s
	}
	if id, known := t.ByRLOC[p.RLOC]; known && p.IsPlain() {
		s := t.RowStatus(id)
		return &s
	}
	return nil
}
