// SPDX-License-Identifier: Apache-2.0

package checks

// What is true: which site owns which EIDs, which locators a site ever configured for
// them, and what each tunnel router had the right to register when. The tables of Nodes
// are held against this.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/mirror"
	"loci/sim/internal/report"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/wire"
)

type truth struct {
	locators map[locatorFact]bool
	contents map[content]*validity
	inForce  map[int][]content // by router
	Barred   bool              // a Map-Server was once told to forget a site
	former   []formerOwner
}

// formerOwner is a site that had an address until it went to another one.
type formerOwner struct {
	addr  netip.Addr
	site  *sites.Site
	until time.Duration
}

func newTruth() truth {
	return truth{
		locators: map[locatorFact]bool{}, contents: map[content]*validity{}, inForce: map[int][]content{},
	}
}

// record notes what a tunnel router is configured to say from now on.
func (t *truth) record(r *Record) {
	if r.Site == nil {
		return
	}
	t.retire(r)
	for _, m := range r.Config.ETR.Database {
		said := r.Sibling.saying(m)
		for _, l := range said {
			t.locators[factOf(m.Prefix, l)] = true
		}
		c := content{router: r.Index, prefix: m.Prefix, locators: mirror.Hash(said), version: m.Version}
		v := t.contents[c]
		if v == nil {
			v = &validity{first: r.judge.now()}
			t.contents[c] = v
		}
		if v.until != r.judge.now() {
			v.since = r.judge.now()
		}
		v.until = inForce
		v.authenticated = v.authenticated || !r.registersWrong
		t.inForce[r.Index] = append(t.inForce[r.Index], c)
	}
}

// retire ends what a tunnel router said so far.
func (t *truth) retire(r *Record) {
	for _, c := range t.inForce[r.Index] {
		t.contents[c].until = r.judge.now()
	}
	t.inForce[r.Index] = t.inForce[r.Index][:0]
}

func factOf(p lisp.Prefix, l lisp.Locator) locatorFact {
	return locatorFact{prefix: p, path: l.Path(), bits: l.Bits, priority: l.Priority, weight: l.Weight, reachable: l.Reachable}
}

// underWay is longer than any message takes: what was said so shortly before the content that is accepted may
// come after an earlier time of that one.
const underWay = time.Second

// checkRegistration holds a registration against what its tunnel router had the right to
// say: that very content, with the right key, and nothing older than what the Map-Server
// had from it before (RFC 9301 s.5.6). fresh says that a Map-Register just spoke of
// it that its tunnel router sent, and not the attacker: a Map-Server that lost its store
// has no nonces, and takes replays in the order in which they were first sent.
func checkRegistration(j *Judge, at *Record, g control.Registration, fresh bool) {
	owner, ok := j.Owners.Exactly(g.Prefix)
	if !ok {
		j.Fail(at, invariantAuthentic, "%s is registered, which no site has", g.Prefix)
		return
	}
	x := owner.Site.XTRs[0]
	for _, sibling := range owner.Site.XTRs {
		if g.XTRID == sibling.XTRID() {
			x = sibling
		}
	}
	said := content{router: x.Index, prefix: g.Prefix, locators: mirror.Hash(g.Mapping.Locators), version: g.Mapping.Version}
	key := acceptanceKey{x.Index, g.Prefix}
	before, known := at.Accepted[key]
	if known && before.content == said {
		return // it was right when it came
	}
	v := j.Truth.contents[said]
	if v == nil || !v.authenticated {
		j.Fail(at, invariantAuthentic, "%s is registered as %s, which %s never said with the right key", g.Prefix, g.Mapping, x.Name)
		return
	}
	if at.Accepted == nil {
		at.Accepted = Acceptance{}
	}
	if known && !owner.Site.WithoutXTRID && v.until < before.since-underWay {
		j.Fail(at, invariantAuthentic, "%s went back to %s, which %s said before what was registered already: a replay",
			g.Prefix, g.Mapping, x.Name)
	}
	since := v.since
	if !fresh { // what a store kept, or the attacker, may be of an earlier time
		since = max(v.first, before.since)
	}
	at.Accepted[key] = accepted{said, since}
}

// hasSaidBut is hasSaid whatever the priority: a router does not use those that it leaves out.
func (t *truth) hasSaidBut(owner *sites.SitePrefix, l lisp.Locator) bool {
	for l.Priority = 0; l.Priority < lisp.PriorityUnused; l.Priority++ {
		if t.hasSaid(owner, l) {
			return true
		}
	}
	return false
}

// hasSaid reports whether the site of an EID-Prefix ever said that of it, or of a less specific one of its own,
// which an answer about it can be cut from while it is not registered.
func (t *truth) hasSaid(owner *sites.SitePrefix, l lisp.Locator) bool {
	if t.locators[factOf(owner.Prefix, l)] {
		return true
	}
	for _, p := range owner.Site.Prefixes {
		if p.Prefix.Covers(owner.Prefix) && t.locators[factOf(p.Prefix, l)] {
			return true
		}
	}
	return false
}

// Leave notes that an address goes from a router of a site to one of another site.
func (t *truth) Leave(a netip.Addr, s *sites.Site, now time.Duration) {
	t.former = append(t.former, formerOwner{addr: a, site: s, until: now})
}

// wasOf reports whether the site had that address, so lately that a mapping may still say
// so. When its EIDs are within those of the router that has the address now, that one cannot know
// that a packet is not for it: its own EID-Prefix has the EID.
func (t *truth) wasOf(a netip.Addr, s *sites.Site, now time.Duration) bool {
	return slices.ContainsFunc(t.former, func(f formerOwner) bool {
		return f.addr == a && f.site == s && now-f.until < report.ConvergenceBound
	})
}

// storeMargin leaves out what expires at about the time of a restart, whose clock may be set.
const storeMargin = 5 * time.Second

// CheckRestored wants everything that was durable, unless its site is barred or its time is
// over.
func (r *Record) CheckRestored() {
	type stored struct {
		prefix   lisp.Prefix
		xtr      [16]byte
		locators uint64
	}
	has := map[stored]bool{}
	for g := range r.Node.Registrations() {
		has[stored{g.Prefix, g.XTRID, mirror.Hash(g.Mapping.Locators)}] = true
	}
	for _, g := range r.Expects {
		owner, known := r.judge.Owners.Exactly(g.Prefix)
		if !known || owner.Site.Barred > 0 || g.ExpiresAt.Sub(r.Time()) < storeMargin {
			continue
		}
		if !has[stored{g.Prefix, g.XTRID, mirror.Hash(g.Mapping.Locators)}] {
			r.judge.Fail(r, InvariantStored, "after the restart it lacks %s of xTR %x, registered at %s", g.Mapping, g.XTRID[:2], g.LastRegisteredAt.Sub(virtual.Epoch))
			return
		}
	}
}

// serverStart is how long a Map-Server denies nothing after its start, by a clock that may be wrong.
const serverStart = 59 * time.Second

// WatchDenial judges what a Map-Server says right after its start.
func (r *Record) WatchDenial(m *wire.MapReply) {
	if !slices.Contains(r.judge.Servers, r.Router) || r.Time().Sub(r.StartedAt) >= serverStart {
		return
	}
	for i := range m.Records {
		mapping, err := m.Records[i].Mapping()
		if err != nil || !mapping.Negative() || mapping.TTLMinutes != unregisteredTTLMinutes {
			continue
		}
		if owner, ok := r.judge.Owners.Longest(mapping.Prefix); ok {
			r.judge.Fail(r, invariantStart, "denies %s of %s %s after its start", mapping.Prefix, owner.Site.Name, r.Time().Sub(r.StartedAt))
		}
	}
}
