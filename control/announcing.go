// SPDX-License-Identifier: Apache-2.0

package control

// What the ETR announces, brought into line with its Database: both are gone through in the order of
// prefixes, the data plane is told what differs, then the registrar, and at last the peers. A large
// Database takes many turns, a small one none of its own. One pass is finished before the next begins:
// nothing is registered twice or left out, however fast changes follow each other.

import (
	"fmt"

	"loci/lisp"
)

// announceBatch bounds one turn; a row of the pass costs 1.
const announceBatch = 512

// announcing is the pass under way.
type announcing struct {
	walking     bool
	registering bool
	was         int // place in what is announced so far
	to          int // place in the Database
	is          chunked[DatabaseMapping]
	anew        bool
	tells       bool                     // peers know of us
	sites       map[string]*announcement // what differs, by site
	changed     []lisp.Prefix            // for the peers, smrNews at most
	gone        []lisp.Prefix
	untold      int // those beyond
}

// announce brings what is announced into line with a Database. anew says that everything must be
// registered whatever differs.
func (e *etr) announce(d *database, anew bool) {
	busy := e.announces()
	e.wanted, e.anew = d, e.anew || anew
	if !busy {
		e.handleAnnouncing(0)
	}
}

// announces reports whether there is anything left to do.
func (e *etr) announces() bool { return e.wanted != nil || e.pass.walking || e.pass.registering }

// handleAnnouncing does one batch.
func (e *etr) handleAnnouncing(uint32) {
	for left := announceBatch; left > 0 && e.announces(); {
		left -= e.announceStep()
	}
	e.announcing.remove(0)
	if e.announces() {
		e.announcing.set(0, e.h.now+1) // the next turn
	}
}

// announceStep does the least piece of work and returns what it costs.
func (e *etr) announceStep() (cost int) {
	switch {
	case e.pass.walking && (e.pass.was < e.announced.len() || e.pass.to < len(e.database.list)):
		e.compareNext()
	case e.pass.walking:
		e.announced, e.pass.is = e.pass.is, chunked[DatabaseMapping]{}
		e.pass.walking, e.pass.registering = false, true
		e.registrar.configure(e.config.MapServers, e.config.QuickRegistrationInterval, e.announcementOf)
	case e.registrar.busy():
		return e.registrar.step()
	case e.pass.registering:
		e.tellPeers()
		e.pass = announcing{}
	default:
		e.database = e.wanted
		e.pass = announcing{walking: true, anew: e.anew, tells: e.announced.len() > 0, sites: make(map[string]*announcement)}
		e.wanted, e.anew = nil, false
	}
	return 1
}

// compareNext looks at the next EID-Prefix of both.
func (e *etr) compareNext() {
	a := &e.pass
	order := 1 // new
	switch {
	case a.to == len(e.database.list):
		order = -1 // gone
	case a.was < e.announced.len():
		order = e.announced.at(a.was).Prefix.Compare(e.database.list[a.to].Prefix)
	}
	switch {
	case order < 0:
		was := e.announced.at(a.was)
		a.was++
		e.h.emit(RemoveDatabase{Prefix: was.Prefix})
		a.of(was.Site).withdrawn.push(was.Prefix)
		a.note(&a.gone, was.Prefix)
	case order > 0:
		e.putNext(nil)
	default:
		a.was++
		e.putNext(e.announced.at(a.was - 1))
	}
}

// putNext announces the next mapping of the Database; was is what is announced of it, nil for nothing.
func (e *etr) putNext(was *DatabaseMapping) {
	a := &e.pass
	m := e.database.list[a.to]
	a.to++
	m.Locators = e.lowered(m.Locators)
	is := m
	e.probed = appendWithLocalBits(e.probed[:0], m.Locators, e.h.rlocs)
	is.Locators = e.probed
	same := was != nil && was.equal(is)
	if same {
		is.Locators = was.Locators
	} else {
		is.Locators = append(lisp.LocatorSet(nil), e.probed...)
		a.note(&a.changed, m.Prefix)
		e.putChanged(was, m)
	}
	if !same || was.Site != m.Site {
		a.of(m.Site).changed.push(a.is.len())
	}
	if was != nil && was.Site != m.Site {
		a.of(was.Site).withdrawn.push(m.Prefix)
	}
	a.is.push(is)
}

// putChanged tells the data plane of a mapping that differs in more than whose the locators are.
func (e *etr) putChanged(was *DatabaseMapping, m DatabaseMapping) {
	if was != nil && was.equalBarLocal(m) {
		return
	}
	if was != nil {
		e.checkVersion(was, &m)
	}
	e.h.emit(InstallDatabase{m})
}

// checkVersion tells the operator of a mapping that changed without a newer Map-Version:
// nobody who compares versions will notice the change (RFC 9302 s.6). Raising it is the
// operator's, an ETR must not do it.
func (e *etr) checkVersion(was, is *DatabaseMapping) {
	versioned := was.Version != lisp.NullMapVersion && is.Version != lisp.NullMapVersion
	if versioned && lisp.CompareMapVersions(is.Version, was.Version) <= 0 {
		e.h.count(MapVersionNotRaised)
		e.h.notice(Notice{Kind: NoticeMapVersionNotRaised, Prefix: is.Prefix, Detail: fmt.Sprintf("from %d to %d", was.Version, is.Version)})
	}
}

// of is what differs for a site.
func (a *announcing) of(site string) *announcement {
	of := a.sites[site]
	if of == nil {
		of = &announcement{site: site}
		a.sites[site] = of
	}
	return of
}

// note keeps an EID-Prefix that peers are to be told about, while they could be.
func (a *announcing) note(list *[]lisp.Prefix, p lisp.Prefix) {
	if len(*list) == smrNews {
		a.untold++
		return
	}
	*list = append(*list, p)
}

// announcementOf is what the registrar is to know about a site.
func (e *etr) announcementOf(site string) *announcement {
	of := e.pass.of(site)
	of.all, of.anew = &e.announced, e.pass.anew
	return of
}

// tellPeers has those told by SMRs who may have the old mappings; of an ETR that begins they know nothing yet.
func (e *etr) tellPeers() {
	a := &e.pass
	if !a.tells {
		return
	}
	e.solicitor.mappingsChanged(append(a.changed, a.gone...), e.registrar.acknowledges(), e.registrar.changeAt)
	for range a.untold {
		e.h.count(RefusedSMRTable)
	}
}
