// SPDX-License-Identifier: Apache-2.0

package sim

// The invariants: what holds after every event that touches it, and what is looked at
// each virtual second. Rates on the wire are in rates.go, registrations in truth.go.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"loci/control"
	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
	"loci/wire"
)

// The names of the invariants, as violations and docs/simulator.md have them.
const (
	invariantNoPanic     = "no-panic"
	invariantPlane       = "plane-in-step"        // the data plane takes what the Node gives it
	invariantRightSite   = "right-site"           // RFC 9300 s.4: never another site or Instance-ID
	invariantNoLoop      = "no-loop"              // nothing is encapsulated twice
	invariantLocator     = "usable-locator"       // RFC 9301 s.5.4: not 255, not R=0, not down, lowest priority
	invariantTTL         = "within-ttl"           // RFC 9301 s.5.4: no mapping beyond its TTL
	invariantTrue        = "true-mapping"         // what is cached was said by its site
	invariantGleaned     = "gleaned"              // RFC 9300 s.9: brief, verified, contradicts nobody
	invariantRequestRate = "map-request-rate"     // RFC 9301 s.5.3: one a second for an EID-Prefix
	invariantHoldDown    = "map-request-holddown" // RFC 9301 s.5.3: ten tries, then a pause
	invariantReplyRate   = "map-reply-rate"       // RFC 9301 s.5.4
	invariantSMR         = "smr"                  // RFC 9301 s.6.1: rate, D bit, answers through the mapping system alone
	invariantProbe       = "rloc-probe"           // RFC 9301 s.5.8, s.7.1: rates, never encapsulated
	invariantRegister    = "map-register-backoff" // RFC 9301 s.5.7: a second before the first repetition
	invariantLimits      = "within-limits"        // tables, queues, turns
	invariantAuthentic   = "authentic"            // registrations and Map-Notifies come from whoever has the key
	invariantStored      = "stored"               // what a Map-Server's store took is there after a restart
	invariantVersion     = "map-version"          // RFC 9302 s.7: never by a newer version than there is, never back to an older one
	invariantLastPath    = "last-path"            // RFC 9300 s.10: no router, nor its site, says that it has no path while it has one
	invariantStart       = "server-start"         // a Map-Server denies nothing before all had the time to register
	invariantDeadControl = "dead-control-plane"   // RFC 9300 s.10: its death alone loses no packet while the TTL runs
	invariantConvergence = "convergence"          // in time, and for good
)

// mirror is the map-cache as the effects made it: what packets are judged by.
type mirror struct {
	router  *router
	entries map[lisp.Prefix]control.MapCacheEntry
	lengths [2][129]int // how many entries of IPv4 and IPv6 have so many bits
	// heard is until when a mapping may be used, by the Map-Replies on the wire.
	heard map[lisp.Prefix]time.Time

	changed     bool      // since the last sweep
	firstExpiry time.Time // at the last sweep
}

func family(p lisp.Prefix) int {
	if p.Kind() == lisp.EIDIPv6 {
		return 1
	}
	return 0
}

func (m *mirror) clear() {
	m.entries, m.heard, m.lengths = map[lisp.Prefix]control.MapCacheEntry{}, map[lisp.Prefix]time.Time{}, [2][129]int{}
}

func (m *mirror) put(e control.MapCacheEntry) {
	if _, known := m.entries[e.Mapping.Prefix]; !known {
		m.lengths[family(e.Mapping.Prefix)][e.Mapping.Prefix.Bits()]++
	}
	m.entries[e.Mapping.Prefix] = e
	m.changed = true
}

func (m *mirror) remove(p lisp.Prefix) {
	if _, known := m.entries[p]; known {
		m.lengths[family(p)][p.Bits()]--
		delete(m.entries, p)
		m.changed = true
	}
}

// longest is the entry that decides for an EID.
func (m *mirror) longest(instance lisp.InstanceID, eid lisp.EID) (control.MapCacheEntry, bool) {
	host := lisp.HostPrefix(instance, eid)
	lengths := &m.lengths[family(host)]
	for bits := host.Bits(); bits >= 0; bits-- {
		if lengths[bits] == 0 {
			continue
		}
		p, err := lisp.PrefixFrom(instance, eid, bits)
		if e, ok := m.entries[p]; ok && err == nil {
			return e, true
		}
	}
	return control.MapCacheEntry{}, false
}

// checkMapping judges an entry that is being installed.
func (w *world) checkMapping(r *router, e *control.MapCacheEntry) {
	p := e.Mapping.Prefix
	if e.Gleaned {
		w.checkGleaned(r, e)
		return
	}
	if heard, ok := r.mirror.heard[p]; !e.Static && (!ok || e.ExpiresAt.After(heard)) {
		w.fail(r, invariantTTL, "%s is kept until %s, its Map-Reply allows %s", p, e.ExpiresAt.Sub(epoch), heard.Sub(epoch))
	}
	if e.Mapping.Negative() {
		w.checkNegative(r, e)
		return
	}
	w.checkVersion(r, e)
	owner, ok := w.truth.longest(p)
	if !ok {
		w.fail(r, invariantTrue, "%s is in the map-cache, which is of no site", e.Mapping)
		return
	}
	for _, l := range e.Mapping.Locators {
		if !w.truth.hasSaid(owner, l) {
			w.fail(r, invariantTrue, "%s is in the map-cache: %s never said %s of %s", e.Mapping, owner.site.name, l, owner.prefix)
		}
	}
}

// unregisteredTTLMinutes is the TTL of negative answers about what is configured and not
// registered (RFC 9301 s.8.3); other negative answers must not touch a site's EIDs.
const unregisteredTTLMinutes = 1

func (w *world) checkNegative(r *router, e *control.MapCacheEntry) {
	owner, ok := w.truth.longest(e.Mapping.Prefix)
	if e.Mapping.TTLMinutes == unregisteredTTLMinutes && ok || w.truth.barred {
		return
	}
	if ok {
		w.fail(r, invariantTrue, "%s is negative for %d minutes, and within %s of %s", e.Mapping.Prefix, e.Mapping.TTLMinutes, owner.prefix, owner.site.name)
	}
	for _, s := range w.sites {
		for _, p := range s.prefixes {
			if e.Mapping.Prefix.Covers(p.prefix) {
				w.fail(r, invariantTrue, "%s is negative and covers %s of %s", e.Mapping.Prefix, p.prefix, s.name)
			}
		}
	}
}

// checkEncapsulated judges a packet that leaves towards the core.
func (w *world) checkEncapsulated(r *router, m model.Emission) {
	packet := inner(m.Packet)
	p := readPayload(packet)
	if int(p.from) != r.index {
		w.fail(r, invariantNoLoop, "packet %d of %s is encapsulated a second time", p.number, w.routers[p.from].name)
	}
	to := lisp.EIDFromAddr(destinationOf(packet))
	e, ok := r.mirror.longest(r.site.instance, to)
	switch {
	case !ok:
		w.fail(r, invariantTrue, "a packet to %s is sent to %s, but no mapping covers it", to, m.Destination)
	case r.node != nil && !e.Static && r.time().After(e.ExpiresAt.Add(rounding)):
		w.fail(r, invariantTTL, "a packet to %s uses %s, which expired at %s", to, e.Mapping, e.ExpiresAt.Sub(epoch))
	case !r.usable(e.Mapping.Locators, m.Destination):
		w.fail(r, invariantLocator, "a packet to %s is sent to %s of %s", to, m.Destination, e.Mapping)
	}
}

// checkDelivered judges a packet that goes to the site's hosts, and came to that RLOC.
func (w *world) checkDelivered(r *router, instance lisp.InstanceID, packet []byte, at netip.Addr) {
	p := readPayload(packet)
	to := destinationOf(packet)
	switch {
	case uint32(instance) != p.instance || instance != r.site.instance:
		w.fail(r, invariantRightSite, "a packet to %s in Instance-ID %d is delivered in %d of %s", to, p.instance, instance, r.site.name)
	case p.site == nobody:
		w.fail(r, invariantRightSite, "a packet to %s, an EID of nobody, is delivered to %s", to, r.site.name)
	case p.site != uint32(r.site.index) && !(w.network.wasOf(at, w.sites[p.site]) && r.site.contains(lisp.HostPrefix(instance, lisp.EIDFromAddr(to)))):
		w.fail(r, invariantRightSite, "a packet to %s of %s is delivered to %s", to, w.sites[p.site].name, r.site.name)
	}
}

// beforeMessage notes what a message allows its receiver to do.
func (w *world) beforeMessage(r *router, m *mail) {
	if len(m.payload) < 12 || r.site == nil || wire.MessageType(m.payload[0]>>4) != wire.TypeMapReply || m.payload[0]&probeReplyBit != 0 {
		return // the answer to an RLOC-probe allows nothing
	}
	if _, asked := r.requests.nonces[binary.BigEndian.Uint64(m.payload[4:])]; !asked {
		return
	}
	reply, ok := m.parsed().(*wire.MapReply)
	if !ok || !r.requests.answered(reply.Nonce) {
		return
	}
	for i := range reply.Records {
		mapping, err := reply.Records[i].Mapping()
		if err != nil {
			continue
		}
		until := r.time().Add(time.Duration(mapping.TTLMinutes) * time.Minute)
		if until.After(r.mirror.heard[mapping.Prefix]) {
			r.mirror.heard[mapping.Prefix] = until
		}
	}
}

// afterMessage looks at what a message did.
func (w *world) afterMessage(r *router, m *mail) {
	switch {
	case len(m.payload) == 0:
		return
	case wire.MessageType(m.payload[0]>>4) == wire.TypeMapRegister:
		w.checkRegistered(r, m)
	case m.forged && r.site != nil:
		for s := range r.node.MapServers() {
			if s.LastNotifyAt.Equal(r.time()) {
				w.fail(r, invariantAuthentic, "%s took a forged Map-Notify for an acknowledgement of %s", r.name, s.Address)
			}
		}
	}
}

// checkRegistered looks at the registrations that a Map-Register speaks of: it cannot
// change others.
func (w *world) checkRegistered(at *router, m *mail) {
	register, ok := m.parsed().(*wire.MapRegister)
	if !ok {
		return
	}
	for i := range register.Records {
		p, err := register.Records[i].Prefix()
		if err != nil {
			continue
		}
		for g := range at.node.RegistrationsOf(p) {
			w.checkRegistration(at, g, !m.hostile)
		}
	}
}

// checkRegistrations looks at all of them.
func (w *world) checkRegistrations(r *router) {
	for g := range r.node.Registrations() {
		w.checkRegistration(r, g, false)
	}
}

// registrationsInterval is how often all registrations are looked at, not only those of
// which a Map-Register spoke: nothing else may change one.
const registrationsInterval = 10 * time.Second

// settledFor is how long all must have been settled to be looked at less often, and how
// often then.
const settledFor = 5 * time.Second

// sweep is each virtual second.
func (w *world) sweep() {
	for _, r := range w.routers {
		if r.node == nil || w.failure != nil {
			continue
		}
		if r.site == nil {
			if w.now%registrationsInterval < sweepInterval {
				w.checkRegistrations(r)
			}
			continue
		}
		w.sweepTables(r)
		r.checkLastPath()
	}
	w.sweepSiblings()
	if w.dying.site != nil || w.now < w.calmSince() || w.now-w.lastUnsettled > settledFor && w.now%settledFor >= sweepInterval {
		return
	}
	settled, why := w.settled()
	if settled {
		return
	}
	w.lastUnsettled = w.now
	if w.mustBeQuiet() {
		w.fail(nil, invariantConvergence, "%s after the last fault: %s", w.now-w.calmSince(), why)
	}
}

// sweepTables looks at the map-cache when it changed, or when the first TTL ends.
func (w *world) sweepTables(r *router) {
	m := &r.mirror
	if now := r.time(); m.changed || !m.firstExpiry.IsZero() && now.After(m.firstExpiry) {
		w.sweepMapCache(r, now)
		m.changed = false
	}
	r.requests.prune()
	if len(m.heard) > 1000 {
		m.forgetHeard(r.time())
	}
}

// sweepMapCache looks for entries that outlived their TTL, and for an engine that says
// something else than the Node told it.
func (w *world) sweepMapCache(r *router, now time.Time) {
	r.mirror.firstExpiry = time.Time{}
	entries := 0
	for e := range r.plane.InPlace() {
		entries++
		told, ok := r.mirror.entries[e.Mapping.Prefix]
		if !ok || !told.Mapping.Equal(e.Mapping) || told.Gleaned != e.Gleaned {
			w.fail(r, invariantPlane, "the data plane has %s, it was told %s", e.Mapping, told.Mapping)
		}
		if !e.Static && now.After(e.ExpiresAt.Add(rounding)) {
			w.fail(r, invariantTTL, "%s stands in the map-cache after %s", e.Mapping, e.ExpiresAt.Sub(epoch))
		}
		if first := &r.mirror.firstExpiry; !e.Static && (first.IsZero() || e.ExpiresAt.Before(*first)) {
			*first = e.ExpiresAt
		}
	}
	if sizes := r.node.Sizes(); entries != sizes.MapCache || entries != len(r.mirror.entries) {
		w.fail(r, invariantPlane, "the data plane has %d mappings, the Node %d, told were %d", entries, sizes.MapCache, len(r.mirror.entries))
	}
	bounds := dataplane.DefaultWaitBounds
	if waiting, lost := r.plane.Burden(); waiting > bounds.PacketsTotal || lost > 0 && r.down == 0 && !w.flavour.tight && w.mustBeQuiet() {
		w.fail(r, invariantLimits, "%d packets wait, %d events were lost", waiting, lost)
	}
}

func (m *mirror) forgetHeard(now time.Time) {
	for p, until := range m.heard {
		if until.Before(now) {
			delete(m.heard, p)
		}
	}
}

// mustBeQuiet reports whether everything has to be as the configuration says, which it is until somebody dies for good.
func (w *world) mustBeQuiet() bool {
	return w.now > w.calmSince()+ConvergenceBound && w.dying.site == nil
}

// settled reports whether it is: registrations complete, and every steady flow resolved
// to the right locators. why names what is not: the first thing, or one of each kind where
// it is an offence.
func (w *world) settled() (settled bool, why string) {
	var missing []string
	for _, problem := range []func() string{w.unresolvedFlow, w.unsettledRouter, w.incompleteServer} {
		if p := problem(); p != "" {
			missing = append(missing, p)
			if !w.mustBeQuiet() {
				break
			}
		}
	}
	return len(missing) == 0, strings.Join(missing, "; ")
}

func (w *world) unresolvedFlow() string {
	if w.flavour.tight { // entries come and go there
		return ""
	}
	for _, f := range w.flows {
		if problem := w.unresolved(f); problem != "" {
			return problem
		}
	}
	return ""
}

func (w *world) unsettledRouter() string {
	for _, x := range w.xtrs {
		if x.sibling.coreLost > 0 {
			continue // nobody hears of it, nor it of anybody
		}
		if rloc, held := x.heldByStatusBit(); held {
			return x.name + " holds " + rloc.String() + " down by a status bit"
		}
		if problem := x.unacknowledged(); problem != "" {
			return problem
		}
	}
	return ""
}

func (w *world) incompleteServer() string {
	for _, s := range w.servers {
		if n := w.registrationsMissing(s); n != "" {
			return s.name + " lacks " + n
		}
	}
	return ""
}

// unacknowledged is the Map-Server whose Map-Notify a tunnel router wants and does not
// have.
func (r *router) unacknowledged() string {
	if r.node == nil || !r.site.notify {
		return ""
	}
	for s := range r.node.MapServers() {
		want, lacking := control.MapServerRegistered, 0
		if !r.site.strange.IsZero() {
			want, lacking = control.MapServerPartial, 1
		}
		if s.State != want || s.LackingCount != lacking {
			return fmt.Sprintf("%s has no Map-Notify of %s, which is %s and lacks %d EID-Prefixes", r.name, s.Address, s.State, s.LackingCount)
		}
	}
	return ""
}

// registrationsMissing is the first registration that a Map-Server should have.
func (w *world) registrationsMissing(at *router) string {
	if at.node == nil {
		return "everything: it is down"
	}
	for _, x := range w.xtrs {
		if x.node == nil {
			return x.name + ", which is down"
		}
		if p, ok := x.unregistered(at); ok {
			return p.String() + " of " + x.name
		}
	}
	return ""
}

// unregistered is the first mapping of a tunnel router's Database that a Map-Server has not from it, or from its
// sibling, as it has to be.
func (r *router) unregistered(at *router) (lisp.Prefix, bool) {
	of := r
	if !r.site.merge {
		of = nil
	}
	for i, m := range r.config.ETR.Database {
		if m.Prefix == r.site.strange {
			continue // nobody has it
		}
		if r.site.siblings {
			m.Locators = r.site.prefixes[i].locators(of)
		}
		if !registered(at, m) {
			return m.Prefix, true
		}
	}
	return lisp.Prefix{}, false
}

// registered reports whether a Map-Server has a registration that says that.
func registered(at *router, m control.DatabaseMapping) bool {
	for g := range at.node.RegistrationsOf(m.Prefix) {
		if sameLocators(g.Mapping.Locators, m.Locators) && g.Mapping.Version == m.Version {
			return true
		}
	}
	return false
}

// unresolved says what is wrong with the mapping that a flow's packets use.
func (w *world) unresolved(f *flow) string {
	eid := lisp.EIDFromAddr(f.to)
	owner, ok := w.ownerOf(f.from.site.instance, eid)
	from := f.from.way()
	if from == nil {
		return f.from.name + " has no way to the core"
	}
	e, cached := from.mirror.longest(from.site.instance, eid)
	switch {
	case !ok:
		return "nobody owns " + f.to.String()
	case from.plane == nil || from.node == nil:
		return from.name + " is down"
	case !cached:
		return from.name + " has no mapping for " + f.to.String()
	case e.Mapping.Version != owner.site.version:
		return fmt.Sprintf("%s has %s of version %d, right is %d", from.name, e.Mapping, e.Mapping.Version, owner.site.version)
	case !sameLocators(e.Mapping.Locators, owner.locators(nil)):
		return from.name + " has " + e.Mapping.String() + ", right is " + lisp.Mapping{Prefix: owner.prefix, Locators: owner.locators(nil)}.String()
	}
	return ""
}
