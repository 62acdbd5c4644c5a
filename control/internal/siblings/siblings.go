// SPDX-License-Identifier: Apache-2.0

package siblings

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

	"loci/control/internal/counter"
	"loci/control/internal/database"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/timing"
	"loci/control/internal/transfer"
	"loci/lisp"
	"loci/wire"
)

const (
	defaultSiblingInterval = 2 * time.Second
	// siblingTries unanswered questions make a sibling silent.
	siblingTries = 3
	// SiblingPause is the least time between two questions to one sibling, however often
	// it says that something changed, and however often we are configured.
	SiblingPause = 20 * time.Millisecond
	// maxSiblingLocators bounds what is remembered of one.
	maxSiblingLocators = lisp.MaxLocators
)

// sibling is what is known of one.
type sibling struct {
	config     settings.SiblingConfig
	Nonce      uint64 // of the last question, 0 for none
	askedAt    timing.Instant
	unanswered int                // questions, those of one interval as one
	countedAt  timing.Instant     // when the last of them was asked
	heardAt    timing.Instant     // 0 for never
	silent     bool               // told so
	reachable  map[lisp.RLOC]bool // its own locators, as it said
	core       question           // that it was asked about the core
}

// Siblings belongs to a Node with ITR and ETR. The Node gives it what it needs to know,
// and carries out what it finds.
type Siblings struct {
	h         *system.System
	Rows      []sibling
	Timers    timing.Deadlines // ids are indexes of rows; CoreTimer is the judgement's
	database  *database.Database
	path      corePath
	hand      handover
	back      comeback
	Inquiries inquiries      // what siblings asked us about the core
	Giver     transfer.Giver // of mappings, at a handover
	Taker     transfer.Taker
	told      []lisp.RLOC // own RLOCs that are reachable, as siblings were told last
}

// CoreTimer is the deadline of the next judgement of our own paths.
const CoreTimer = settings.MaxSiblings

// New knows of no sibling.
func New(h *system.System) *Siblings {
	s := &Siblings{h: h, hand: handover{to: -1}, database: database.New(nil), Giver: transfer.NewGiver(h), Taker: transfer.NewTaker(h)}
	s.Inquiries = inquiries{h: h, isWithoutPath: func() bool { return s.hand.to >= 0 || s.ownDown() }}
	s.back = comeback{h: h, hasOwn: s.hasOwn, throughCore: s.throughCore, path: &s.path, inquiries: &s.Inquiries}
	s.Giver.Ended = func() { s.Timers.Set(CoreTimer, s.h.Now) } // what waits for it goes on
	return s
}

// Configure takes over the siblings and the Database of a configuration. What is known
// of siblings that stay, stays.
func (s *Siblings) Configure(configs []settings.SiblingConfig, d *database.Database) {
	old := s.Rows
	s.database, s.Rows = d, nil
	s.h.CutOff = s.ownDown()
	for i, c := range configs {
		row := sibling{reachable: map[lisp.RLOC]bool{}}
		if at := slices.IndexFunc(old, func(r sibling) bool { return r.config.Address == c.Address }); at >= 0 {
			row = old[at]
		}
		row.config = c
		row.forgetOthers(d)
		s.Rows = append(s.Rows, row)
		s.askSoon(i)
	}
	for i := len(s.Rows); i < len(old); i++ {
		s.Timers.Remove(uint32(i))
	}
	if !slices.EqualFunc(old, s.Rows, func(a, b sibling) bool { return a.config.Address == b.config.Address }) {
		s.Giver.End()
		s.Inquiries.forget()
	}
	s.Timers.Remove(CoreTimer)
	if len(s.Rows) > 0 {
		s.Timers.Set(CoreTimer, s.h.Now)
	} else {
		s.path = corePath{}
	}
	if at := s.hand.to; at >= 0 && (at >= len(s.Rows) || s.Rows[at].config.Address != old[at].config.Address) {
		s.takeBack()
	}
	switch {
	case s.ownDown():
		s.back.since = 0
	case s.back.since == 0 && s.hand.to >= 0 && s.hand.why == status.SiblingPathRLOCsDown:
		s.back.begin(s.h.Now)
	}
}

// forgetOthers forgets what a sibling said of locators that the Database has no more: they are no path of its.
func (row *sibling) forgetOthers(d *database.Database) {
	for r := range row.reachable {
		if !d.Has(r) {
			delete(row.reachable, r)
		}
	}
}

// link is the site's link to a sibling.
func (row *sibling) link() transfer.Link {
	return transfer.Link{Address: row.config.Address, Local: row.config.Local}
}

// isOwn reports whether an EID-Prefix is of this site.
func (s *Siblings) isOwn(p lisp.Prefix) bool {
	_, own := s.database.Longest(p)
	return own
}

// UseCache says which map-cache mappings are given from and taken into.
func (s *Siblings) UseCache(cache transfer.Mappings, resolve func(lisp.Prefix)) {
	s.Giver.Cache, s.Taker.Cache, s.Inquiries.resolve = cache, cache, resolve
}

// Gives answers a sibling that asks for mappings, and reports whether a Map-Request is that.
func (s *Siblings) Gives(m *message.MapRequest) bool {
	i := s.Of(m.From.Addr())
	return i >= 0 && s.Giver.Give(s.Rows[i].link(), m)
}

// Asks reports whether an RLOC-probe is a sibling's question about the core, and answers it.
func (s *Siblings) Asks(m *message.MapRequest) bool {
	i := s.Of(m.From.Addr())
	return i >= 0 && s.Inquiries.take(i, s.Rows[i].config, m)
}

// Of returns the sibling with that address, -1 for none.
func (s *Siblings) Of(a netip.Addr) int {
	return slices.IndexFunc(s.Rows, func(r sibling) bool { return r.config.Address == a })
}

// askSoon asks a sibling now, or when SiblingPause is over since the last question.
func (s *Siblings) askSoon(i int) {
	soonest := s.h.Now
	if row := &s.Rows[i]; row.askedAt > 0 {
		soonest = max(soonest, row.askedAt+timing.Instant(SiblingPause))
	}
	s.Timers.Set(uint32(i), soonest)
}

// Ask asks a sibling for its mapping.
func (s *Siblings) Ask(i int) {
	row := &s.Rows[i]
	interval := cmp.Or(row.config.Interval, defaultSiblingInterval)
	s.Timers.Set(uint32(i), s.h.After(interval))
	asked := s.prefixesToAsk()
	if len(asked) == 0 {
		return // a sibling that is not asked is not silent
	}
	row.count(s.h.Now, interval)
	if row.unanswered > siblingTries && !row.silent {
		row.silent = true
		s.h.Notice(effect.Notice{Kind: effect.NoticeSiblingSilent, Remote: s.remote(row)})
	}
	row.Nonce, row.askedAt = s.h.Nonce(), s.h.Now
	m := wire.MapRequest{
		Probe: true, LocalXTR: true, Nonce: row.Nonce, SourceEID: wire.NoAddress{},
		ITRRLOCs: []wire.Address{wire.RLOCAddress(lisp.RLOCFromAddr(row.config.Local))},
	}
	for _, p := range asked {
		m.Records = append(m.Records, wire.RequestRecord{EID: wire.AddressOf(p), MaskLen: uint8(p.Bits())})
	}
	s.send(row, &m, counter.SiblingAsked)
}

// count notes a question. Links that flap have it asked more often than it may answer: that is no silence.
func (row *sibling) count(now timing.Instant, interval time.Duration) {
	if row.unanswered > 0 && now-row.countedAt < timing.Instant(interval) {
		return
	}
	row.unanswered++
	row.countedAt = now
}

// prefixesToAsk are EID-Prefixes whose mappings together have all locators that are not
// ours.
func (s *Siblings) prefixesToAsk() []lisp.Prefix {
	var asked []lisp.Prefix
	covered := map[lisp.RLOC]bool{}
	for _, l := range s.database.RLOCs {
		if slices.Contains(s.h.RLOCs, l.RLOC) || covered[l.RLOC] {
			continue
		}
		covered[l.RLOC] = true
		if len(asked) < settings.MaxRequestRecords && !slices.Contains(asked, l.Prefix) {
			asked = append(asked, l.Prefix)
		}
	}
	return asked
}

func (s *Siblings) send(row *sibling, m *wire.MapRequest, counted counter.Counter) {
	payload, err := m.AppendTo(nil)
	if err != nil {
		s.h.Count(counter.RefusedEncoding)
		return
	}
	s.h.Send(netip.AddrPortFrom(row.config.Local, 0), s.remote(row), payload)
	s.h.Count(counted)
}

// tell says to all siblings that our mapping changed.
func (s *Siblings) tell() {
	p := s.database.First
	if p.IsZero() {
		return
	}
	for i := range s.Rows {
		m := wire.MapRequest{SMR: true, DontReply: true, LocalXTR: true, Nonce: s.h.Nonce()}
		m.Ask(p.EID(), []lisp.RLOC{lisp.RLOCFromAddr(s.Rows[i].config.Local)}, p)
		s.send(&s.Rows[i], &m, counter.SiblingTold)
	}
}

// TellChange tells siblings when our own R bits are others than they were told.
func (s *Siblings) TellChange() {
	var own []lisp.RLOC
	for _, l := range s.database.RLOCs {
		if l.Reachable && slices.Contains(s.h.RLOCs, l.RLOC) && s.isReachable(l.RLOC) {
			own = append(own, l.RLOC)
		}
	}
	if s.told == nil || !slices.Equal(own, s.told) {
		s.told = append([]lisp.RLOC{}, own...)
		s.tell()
	}
}

// HandleSolicitMapRequest asks a sibling at once, because it says that something changed. One without a source EID offers mappings.
func (s *Siblings) HandleSolicitMapRequest(m *message.MapRequest) (taken bool) {
	i := s.Of(m.From.Addr())
	switch {
	case i < 0:
		return false
	case m.Source.IsZero() && m.DontReply:
		s.Taker.Offered(s.Rows[i].link(), m.Prefixes)
	default:
		s.askSoon(i)
	}
	return true
}

// Takes reports whether a Map-Reply answers one of our questions, and takes it. changed
// reports that a sibling says something new.
func (s *Siblings) Takes(m *message.MapReply) (taken, changed bool) {
	core := m.Probe && s.Inquiries.answered(m)
	if core {
		s.path.heard(s.h)
	}
	if core || m.Probe && (s.path.takes(s.h, m) || s.back.takes(m)) {
		s.Timers.Set(CoreTimer, s.h.Now)
		return true, false
	}
	i := s.Of(m.From.Addr())
	switch {
	case i < 0:
		return false, false
	case !m.Probe:
		return s.Taker.Takes(s.Rows[i].link(), m, s.isOwn), false
	case s.takesAnswer(i, m):
		return true, false
	case s.Rows[i].Nonce == 0 || s.Rows[i].Nonce != m.Nonce:
		return false, false
	}
	row := &s.Rows[i]
	s.h.Count(counter.SiblingAnswered)
	if row.silent || row.heardAt == 0 {
		s.h.Notice(effect.Notice{Kind: effect.NoticeSiblingHeard, Remote: m.From})
	}
	row.unanswered, row.silent, row.heardAt = 0, false, s.h.Now
	for _, mapping := range m.Mappings {
		for _, l := range mapping.Locators {
			changed = s.note(row, l) || changed
		}
	}
	return true, changed
}

// note takes what a sibling says of one of its own locators, if our Database has it.
func (s *Siblings) note(row *sibling, l lisp.Locator) (changed bool) {
	rloc := l.Path().Last()
	if !l.Local || slices.Contains(s.h.RLOCs, rloc) || !s.database.Has(rloc) {
		return false
	}
	was, known := row.reachable[rloc]
	if !known && len(row.reachable) >= maxSiblingLocators {
		return false
	}
	row.reachable[rloc] = l.Reachable
	return !known || was != l.Reachable
}

// Lowered is a set with the R bits as they are: configured, and neither lowered by a sibling for
// its locators nor by us for ours.
func (s *Siblings) Lowered(set lisp.LocatorSet) lisp.LocatorSet {
	isWrong := func(l lisp.Locator) bool { return l.Reachable && !s.isReachable(l.Path().Last()) }
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
func (s *Siblings) isSiblings(r lisp.RLOC) bool {
	return slices.ContainsFunc(s.Rows, func(row sibling) bool { return row.reachable[r] })
}

func (s *Siblings) isReachable(r lisp.RLOC) bool {
	if slices.Contains(s.h.RLOCs, r) {
		return s.hand.to < 0 // an xTR that needs a sibling has no path
	}
	for i := range s.Rows {
		if up, said := s.Rows[i].reachable[r]; said {
			return up
		}
	}
	return true
}

// Status yields what is known of each sibling.
func (s *Siblings) Status() iter.Seq[status.SiblingStatus] {
	return func(yield func(status.SiblingStatus) bool) {
		for i := range s.Rows {
			row := &s.Rows[i]
			told := status.SiblingStatus{Address: row.config.Address, Answers: row.heardAt != 0 && row.unanswered <= siblingTries, SiblingPathTaken: i == s.hand.to}
			if row.heardAt != 0 {
				told.HeardAt = s.h.Time(row.heardAt)
			}
			s.coreStatus(row, &told)
			for rloc, up := range row.reachable {
				told.Locators = append(told.Locators, status.SiblingLocator{RLOC: rloc, Reachable: up})
			}
			slices.SortStableFunc(told.Locators, func(a, b status.SiblingLocator) int { return a.RLOC.Compare(b.RLOC) })
			if !yield(told) {
				return
			}
		}
	}
}
