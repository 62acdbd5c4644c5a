// SPDX-License-Identifier: Apache-2.0

package control

// Several xTRs at one site (RFC 9300 s.10, RFC 9301 s.5.4: R bits). Siblings ask each
// other over a link inside the site, by RLOC-probes, which of their own locators are
// reachable; a change is told by an SMR, which makes the other ask at once. What a
// sibling says of its own locators goes into our Database, so that we register for it and
// send SMRs while it cannot. An xTR without a path to the core (corepath.go) lowers its
// own R bits and hands the site's packets to a sibling that has one. A sibling's silence
// says nothing about its locators: its data plane may forward without its control plane.

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

const (
	defaultSiblingInterval = 2 * time.Second
	// siblingTries unanswered questions make a sibling silent.
	siblingTries = 3
	// siblingPause is the least time between two questions to one sibling, however often
	// it says that something changed, and however often we are configured.
	siblingPause = 20 * time.Millisecond
	// maxSiblingLocators bounds what is remembered of one.
	maxSiblingLocators = lisp.MaxLocators
)

// sibling is what is known of one.
type sibling struct {
	config     SiblingConfig
	nonce      uint64 // of the last question, 0 for none
	askedAt    instant
	unanswered int
	heardAt    instant            // 0 for never
	silent     bool               // told so
	reachable  map[lisp.RLOC]bool // its own locators, as it said
}

// siblings belongs to a Node with ITR and ETR. The Node gives it what it needs to know,
// and carries out what it finds.
type siblings struct {
	h         *host
	rows      []sibling
	timers    deadlines // ids are indexes of rows; coreTimer is the judgement's
	database  *database
	path      corePath
	detourBy  int     // index of who gets the site's packets, -1 for nobody
	detourAt  instant // since when, or since when not
	detourWhy DetourReason
	actAt     instant     // not before, so that two siblings do not act at the same moment
	told      []lisp.RLOC // own RLOCs that are reachable, as siblings were told last
}

// coreTimer is the deadline of the next judgement of our own paths.
const coreTimer = maxSiblings

// newSiblings knows of no sibling.
func newSiblings(h *host) *siblings { return &siblings{h: h, detourBy: -1, database: newDatabase(nil)} }

// configure takes over the siblings and the Database of a configuration. What is known
// of siblings that stay, stays.
func (s *siblings) configure(configs []SiblingConfig, d *database) {
	old := s.rows
	s.database, s.rows = d, nil
	s.h.cutOff = s.ownDown()
	for i, c := range configs {
		row := sibling{reachable: map[lisp.RLOC]bool{}}
		if at := slices.IndexFunc(old, func(r sibling) bool { return r.config.Address == c.Address }); at >= 0 {
			row = old[at]
		}
		row.config = c
		row.forgetOthers(d)
		s.rows = append(s.rows, row)
		s.askSoon(i)
	}
	for i := len(s.rows); i < len(old); i++ {
		s.timers.remove(uint32(i))
	}
	s.timers.remove(coreTimer)
	if len(s.rows) > 0 {
		s.timers.set(coreTimer, s.h.now)
	} else {
		s.path = corePath{}
	}
	if s.detourBy >= len(s.rows) || s.detourBy >= 0 && (s.detourBy >= len(old) || s.rows[s.detourBy].config.Address != old[s.detourBy].config.Address) {
		s.endDetour()
	}
}

// forgetOthers forgets what a sibling said of locators that the Database has no more: they are no path of its.
func (row *sibling) forgetOthers(d *database) {
	for r := range row.reachable {
		if !d.has(r) {
			delete(row.reachable, r)
		}
	}
}

// of returns the sibling with that address, -1 for none.
func (s *siblings) of(a netip.Addr) int {
	return slices.IndexFunc(s.rows, func(r sibling) bool { return r.config.Address == a })
}

// askSoon asks a sibling now, or when siblingPause is over since the last question.
func (s *siblings) askSoon(i int) {
	soonest := s.h.now
	if row := &s.rows[i]; row.askedAt > 0 {
		soonest = max(soonest, row.askedAt+instant(siblingPause))
	}
	s.timers.set(uint32(i), soonest)
}

// ask asks a sibling for its mapping.
func (s *siblings) ask(i int) {
	row := &s.rows[i]
	s.timers.set(uint32(i), s.h.after(cmp.Or(row.config.Interval, defaultSiblingInterval)))
	asked := s.prefixesToAsk()
	if len(asked) == 0 {
		return // whoever is not asked is not silent
	}
	row.unanswered++
	if row.unanswered > siblingTries && !row.silent {
		row.silent = true
		s.h.notice(Notice{Kind: NoticeSiblingSilent, Remote: s.remote(row)})
	}
	row.nonce, row.askedAt = s.h.nonce(), s.h.now
	m := wire.MapRequest{
		Probe: true, LocalXTR: true, Nonce: row.nonce, SourceEID: wire.NoAddress{},
		ITRRLOCs: []wire.Address{wire.RLOCAddress(lisp.RLOCFromAddr(row.config.Local))},
	}
	for _, p := range asked {
		m.Records = append(m.Records, wire.RequestRecord{EID: wire.AddressOf(p), MaskLen: uint8(p.Bits())})
	}
	s.send(row, &m, SiblingAsked)
}

// prefixesToAsk are EID-Prefixes whose mappings together have all locators that are not
// ours.
func (s *siblings) prefixesToAsk() []lisp.Prefix {
	var asked []lisp.Prefix
	covered := map[lisp.RLOC]bool{}
	for _, l := range s.database.rlocs {
		if slices.Contains(s.h.rlocs, l.rloc) || covered[l.rloc] {
			continue
		}
		covered[l.rloc] = true
		if len(asked) < maxRequestRecords && !slices.Contains(asked, l.prefix) {
			asked = append(asked, l.prefix)
		}
	}
	return asked
}

func (s *siblings) remote(row *sibling) netip.AddrPort {
	return netip.AddrPortFrom(row.config.Address, s.h.controlPort)
}

func (s *siblings) send(row *sibling, m *wire.MapRequest, counted Counter) {
	payload, err := m.AppendTo(nil)
	if err != nil {
		s.h.count(RefusedEncoding)
		return
	}
	s.h.send(netip.AddrPortFrom(row.config.Local, 0), s.remote(row), payload)
	s.h.count(counted)
}

// tell says to all siblings that our mapping changed.
func (s *siblings) tell() {
	p := s.database.first
	if p.IsZero() {
		return
	}
	for i := range s.rows {
		m := wire.MapRequest{SMR: true, DontReply: true, LocalXTR: true, Nonce: s.h.nonce()}
		m.Ask(p.EID(), []lisp.RLOC{lisp.RLOCFromAddr(s.rows[i].config.Local)}, p)
		s.send(&s.rows[i], &m, SiblingTold)
	}
}

// tellChange tells siblings when our own R bits are others than they were told.
func (s *siblings) tellChange() {
	var own []lisp.RLOC
	for _, l := range s.database.rlocs {
		if l.reachable && slices.Contains(s.h.rlocs, l.rloc) && s.isReachable(l.rloc) {
			own = append(own, l.rloc)
		}
	}
	if s.told == nil || !slices.Equal(own, s.told) {
		s.told = append([]lisp.RLOC{}, own...)
		s.tell()
	}
}

// handleSolicitMapRequest asks a sibling at once, because it says that something changed.
func (s *siblings) handleSolicitMapRequest(i int) { s.askSoon(i) }

// takes reports whether a Map-Reply answers one of our questions, and takes it. changed
// reports that a sibling says something new.
func (s *siblings) takes(m *mapReply) (taken, changed bool) {
	if !m.probe {
		return false, false
	}
	if s.path.takes(s, m) {
		return true, false
	}
	i := s.of(m.from.Addr())
	if i < 0 || s.rows[i].nonce == 0 || s.rows[i].nonce != m.nonce {
		return false, false
	}
	row := &s.rows[i]
	s.h.count(SiblingAnswered)
	if row.silent || row.heardAt == 0 {
		s.h.notice(Notice{Kind: NoticeSiblingHeard, Remote: m.from})
	}
	row.unanswered, row.silent, row.heardAt = 0, false, s.h.now
	for _, mapping := range m.mappings {
		for _, l := range mapping.Locators {
			changed = s.note(row, l) || changed
		}
	}
	return true, changed
}

// note takes what a sibling says of one of its own locators, if our Database has it.
func (s *siblings) note(row *sibling, l lisp.Locator) (changed bool) {
	if !l.Local || slices.Contains(s.h.rlocs, l.RLOC) || !s.database.has(l.RLOC) {
		return false
	}
	was, known := row.reachable[l.RLOC]
	if !known && len(row.reachable) >= maxSiblingLocators {
		return false
	}
	row.reachable[l.RLOC] = l.Reachable
	return !known || was != l.Reachable
}

// lowered is a set with the R bits as they are: configured, and neither lowered by a sibling for
// its locators nor by us for ours.
func (s *siblings) lowered(set lisp.LocatorSet) lisp.LocatorSet {
	isWrong := func(l lisp.Locator) bool { return l.Reachable && !s.isReachable(l.RLOC) }
	if !slices.ContainsFunc(set, isWrong) {
		return set
	}
	set = slices.Clone(set)
	for i, l := range set {
		set[i].Reachable = l.Reachable && !isWrong(l)
	}
	return set
}

// isSiblings reports whether a sibling calls an RLOC its own and reachable.
func (s *siblings) isSiblings(r lisp.RLOC) bool {
	return slices.ContainsFunc(s.rows, func(row sibling) bool { return row.reachable[r] })
}

func (s *siblings) isReachable(r lisp.RLOC) bool {
	if slices.Contains(s.h.rlocs, r) {
		return s.detourBy < 0 // who needs a sibling has no path
	}
	for i := range s.rows {
		if up, said := s.rows[i].reachable[r]; said {
			return up
		}
	}
	return true
}

// good is the first sibling that answers and has a locator which it calls reachable, -1
// for none. One that gets the packets now keeps them while it is good.
func (s *siblings) good() int {
	isGood := func(r sibling) bool {
		if r.heardAt == 0 || r.unanswered > siblingTries {
			return false
		}
		for _, up := range r.reachable {
			if up {
				return true
			}
		}
		return false
	}
	if s.detourBy >= 0 && isGood(s.rows[s.detourBy]) {
		return s.detourBy
	}
	return slices.IndexFunc(s.rows, isGood)
}

// status yields what is known of each sibling.
func (s *siblings) status() iter.Seq[SiblingStatus] {
	return func(yield func(SiblingStatus) bool) {
		for i := range s.rows {
			row := &s.rows[i]
			told := SiblingStatus{Address: row.config.Address, Answers: row.heardAt != 0 && row.unanswered <= siblingTries, Detoured: i == s.detourBy}
			if row.heardAt != 0 {
				told.HeardAt = s.h.time(row.heardAt)
			}
			for rloc, up := range row.reachable {
				told.Locators = append(told.Locators, SiblingLocator{rloc, up})
			}
			slices.SortFunc(told.Locators, func(a, b SiblingLocator) int { return a.RLOC.Compare(b.RLOC) })
			if !yield(told) {
				return
			}
		}
	}
}
