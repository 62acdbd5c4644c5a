// SPDX-License-Identifier: Apache-2.0

package etr

// What the ETR announces, brought into line with its Database: both are gone through in the order of
// prefixes, the data plane is told what differs, then the registrar, and at last the peers. A large
// Database takes many event-loop iterations, a small one none of its own. One pass is finished before the next begins:
// nothing is registered twice or left out, however fast changes follow each other.

import (
	"fmt"
	"iter"
	"slices"

	"loci/control/internal/batch"
	"loci/control/internal/counter"
	"loci/control/internal/database"
	"loci/control/internal/effect"
	"loci/control/internal/locatorset"
	"loci/control/internal/registrar"
	"loci/control/internal/settings"
	"loci/control/internal/solicit"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/lisp"
)

// AnnounceBatch bounds one event-loop iteration; a row of the pass costs 1.
const AnnounceBatch = 512

// Announcer announces the Database to the data plane, the Map-Servers and the peers.
type Announcer struct {
	h         *system.System
	Config    *settings.ETRConfig
	Database  *database.Database
	Registrar *registrar.Registrar
	Solicitor *solicit.Solicitor
	probed    []lisp.Locator // scratch buffer for locators with their L bits

	wanted     *database.Database // to be announced next, nil for none
	Anew       bool               // all of it is to be registered
	Announced  table.Chunked[settings.DatabaseMapping]
	Pass       announcing
	Announcing batch.Work // the next batch of the pass

	Changed func()                                // hears of mappings that changed, when all of them are with the registrar
	Lowered func(lisp.LocatorSet) lisp.LocatorSet // without the R bits that must not be set now
}

// announcing is the pass under way.
type announcing struct {
	Walking     bool
	registering bool
	Was         int // place in what is announced so far
	to          int // place in the Database
	is          table.Chunked[settings.DatabaseMapping]
	anew        bool
	tells       bool                               // peers know of us
	sites       map[string]*registrar.Announcement // what differs, by site
	changed     []lisp.Prefix                      // for the peers, SMRNews at most
	gone        []lisp.Prefix
	untold      int // those beyond
}

// Announce brings what is announced into line with a Database. anew says that everything must be
// registered whatever differs.
func (e *Announcer) Announce(d *database.Database, anew bool) {
	busy := e.Announces()
	e.wanted, e.Anew = d, e.Anew || anew
	if !busy {
		e.HandleAnnouncing()
	}
}

// Announces reports whether there is anything left to do.
func (e *Announcer) Announces() bool { return e.wanted != nil || e.Pass.Walking || e.Pass.registering }

// HandleAnnouncing does one batch.
func (e *Announcer) HandleAnnouncing() {
	e.Announcing.Run(e.h.Now, AnnounceBatch, func() (cost int, more bool) {
		cost = e.announceStep()
		return cost, e.Announces()
	})
}

// announceStep does the least piece of work and returns what it costs.
func (e *Announcer) announceStep() (cost int) {
	switch {
	case e.Pass.Walking && (e.Pass.Was < e.Announced.Len() || e.Pass.to < len(e.Database.List)):
		e.compareNext()
	case e.Pass.Walking:
		e.Announced, e.Pass.is = e.Pass.is, table.Chunked[settings.DatabaseMapping]{}
		e.Pass.Walking, e.Pass.registering = false, true
		e.Registrar.Configure(e.Config.MapServers, e.Config.QuickRegistrationInterval, e.announcementOf)
	case e.Registrar.Busy():
		return e.Registrar.Step()
	case e.Pass.registering:
		e.tellPeers()
		e.Pass = announcing{}
	default:
		e.Database = e.wanted
		e.Pass = announcing{Walking: true, anew: e.Anew, tells: e.Announced.Len() > 0, sites: make(map[string]*registrar.Announcement)}
		e.wanted, e.Anew = nil, false
	}
	return 1
}

// compareNext looks at the next EID-Prefix of both.
func (e *Announcer) compareNext() {
	a := &e.Pass
	order := 1 // new
	switch {
	case a.to == len(e.Database.List):
		order = -1 // gone
	case a.Was < e.Announced.Len():
		order = e.Announced.At(a.Was).Prefix.Compare(e.Database.List[a.to].Prefix)
	}
	switch {
	case order < 0:
		was := e.Announced.At(a.Was)
		a.Was++
		e.h.Emit(effect.RemoveDatabase{Prefix: was.Prefix})
		a.of(was.Site).Withdrawn.Push(was.Prefix)
		a.note(&a.gone, was.Prefix)
		e.Solicitor.HopsOf(was.Locators)
	case order > 0:
		e.putNext(nil)
	default:
		a.Was++
		e.putNext(e.Announced.At(a.Was - 1))
	}
}

// putNext announces the next mapping of the Database; was is what is announced of it, nil for nothing.
func (e *Announcer) putNext(was *settings.DatabaseMapping) {
	a := &e.Pass
	m := e.Database.List[a.to]
	a.to++
	m.Locators = e.Lowered(m.Locators)
	is := m
	e.probed = locatorset.AppendWithLocalBits(e.probed[:0], m.Locators, e.h.RLOCs)
	is.Locators = e.probed
	same := was != nil && was.Equal(is)
	if same {
		is.Locators = was.Locators
	} else {
		is.Locators = append(lisp.LocatorSet(nil), e.probed...)
		a.note(&a.changed, m.Prefix)
		if was != nil {
			e.Solicitor.HopsOf(was.Locators)
		}
		e.putChanged(was, m)
	}
	if !same || was.Site != m.Site {
		a.of(m.Site).Changed.Push(a.is.Len())
	}
	if was != nil && was.Site != m.Site {
		a.of(was.Site).Withdrawn.Push(m.Prefix)
	}
	a.is.Push(is)
}

// putChanged tells the data plane of a mapping that differs in more than whose the locators are.
func (e *Announcer) putChanged(was *settings.DatabaseMapping, m settings.DatabaseMapping) {
	if was != nil && was.EqualBarLocal(m) {
		return
	}
	if was != nil {
		e.checkVersion(was, &m)
	}
	e.h.Emit(effect.InstallDatabase{DatabaseMapping: m})
}

// checkVersion tells the operator of a mapping that changed without a newer Map-Version:
// receivers that compare versions will not notice the change (RFC 9302 s.6). Raising it is the
// operator's, an ETR must not do it.
func (e *Announcer) checkVersion(was, is *settings.DatabaseMapping) {
	versioned := was.Version != lisp.NullMapVersion && is.Version != lisp.NullMapVersion
	if versioned && lisp.CompareMapVersions(is.Version, was.Version) <= 0 {
		e.h.Count(counter.MapVersionNotRaised)
		e.h.Notice(effect.Notice{Kind: effect.NoticeMapVersionNotRaised, Prefix: is.Prefix, Detail: fmt.Sprintf("from %d to %d", was.Version, is.Version)})
	}
}

// of is what differs for a site.
func (a *announcing) of(site string) *registrar.Announcement {
	of := a.sites[site]
	if of == nil {
		of = &registrar.Announcement{Site: site}
		a.sites[site] = of
	}
	return of
}

// note keeps an EID-Prefix that peers are to be told about, while they could be.
func (a *announcing) note(list *[]lisp.Prefix, p lisp.Prefix) {
	if len(*list) == solicit.SMRNews {
		a.untold++
		return
	}
	*list = append(*list, p)
}

// announcementOf is what the registrar is to know about a site.
func (e *Announcer) announcementOf(site string) *registrar.Announcement {
	of := e.Pass.of(site)
	of.All, of.Anew = &e.Announced, e.Pass.anew
	return of
}

// Adopt has peers told of the mappings that an earlier run announced with other locators: those it sent packets to have them still.
func (e *Announcer) Adopt(was iter.Seq[settings.DatabaseMapping]) {
	var changed []lisp.Prefix
	untold := 0
	for before := range was {
		is, ok := e.Database.Index.Get(before.Prefix)
		switch {
		case !ok || slices.EqualFunc(before.Locators, is.Locators, isSameToPeers):
		case len(changed) == solicit.SMRNews:
			untold++
		default:
			changed = append(changed, before.Prefix)
			e.Solicitor.HopsOf(before.Locators)
		}
	}
	e.tell(changed, untold)
}

// isSameToPeers compares locators by what lasts; R bits differ from one moment to the next, and are announced when they do.
func isSameToPeers(a, b lisp.Locator) bool {
	return a.IsSame(&b) && a.Priority == b.Priority && a.Weight == b.Weight
}

// tellPeers has those told by SMRs who may have the old mappings; of an ETR that begins they know nothing yet.
func (e *Announcer) tellPeers() {
	a := &e.Pass
	if len(a.changed)+len(a.gone) > 0 {
		e.Changed()
	}
	if a.tells {
		e.tell(append(a.changed, a.gone...), a.untold)
	}
}

// tell has peers told of some EID-Prefixes; there are others that they are not told of.
func (e *Announcer) tell(changed []lisp.Prefix, untold int) {
	e.Solicitor.MappingsChanged(changed, e.Registrar.Acknowledges(), e.Registrar.Sender.ChangeAt)
	for range untold {
		e.h.Count(counter.RefusedSMRTable)
	}
}
