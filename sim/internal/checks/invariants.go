// SPDX-License-Identifier: Apache-2.0

package checks

// The invariants: what holds after every event that touches it, and what is looked at
// each virtual second. Rates on the wire are in rates.go, registrations in truth.go.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"loci/control"
	"loci/dataplane"
	enginepackets "loci/dataplane/model/packets"
	"loci/lisp"
	"loci/sim/internal/mirror"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/paths"
	"loci/sim/internal/rates"
	"loci/sim/internal/report"
	"loci/sim/internal/sites"
	"loci/sim/internal/virtual"
	"loci/wire"
)

// CheckMapping judges an entry that is being installed.
func (r *Record) CheckMapping(e *control.MapCacheEntry) {
	j := r.judge
	p := e.Mapping.Prefix
	if e.Gleaned {
		checkGleaned(j, r, e)
		return
	}
	r.Mirror.NoteStale(e, r.Time())
	if heard, ok := r.Mirror.MayBeKept(e.Mapping, r.Time()); !e.Static && (!ok || e.ExpiresAt.After(heard)) {
		j.Fail(r, invariantTTL, "%s is kept until %s, its Map-Reply allows %s", p, e.ExpiresAt.Sub(virtual.Epoch), heard.Sub(virtual.Epoch))
	}
	if e.Mapping.Negative() || isByProxy(r, e.Mapping) {
		checkNegative(j, r, e)
		return
	}
	if e.Static { // as it was configured
		configured := func(m lisp.Mapping) bool { return m.Prefix == p && mirror.Same(m.Locators, e.Mapping.Locators) }
		if !slices.ContainsFunc(r.Config.ITR.StaticMappings, configured) {
			j.Fail(r, invariantTrue, "%s is static in the map-cache, and not in the configuration", e.Mapping)
		}
		return
	}
	checkVersion(j, r, e)
	owner, ok := j.Owners.Longest(p)
	if !ok {
		j.Fail(r, invariantTrue, "%s is in the map-cache, which is of no site", e.Mapping)
		return
	}
	for _, l := range e.Mapping.Locators {
		if !j.Truth.hasSaid(owner, l) && !(l.Priority == lisp.PriorityUnused && view(r).LeavesOut(l.Path()) && j.Truth.hasSaidBut(owner, l)) {
			j.Fail(r, invariantTrue, "%s is in the map-cache: %s never said %s of %s", e.Mapping, owner.Site.Name, l, owner.Prefix)
		}
	}
}

// isByProxy reports whether a negative mapping is with the router's own proxy ETRs.
func isByProxy(r *Record, m lisp.Mapping) bool {
	return r.Site != nil && m.Action == lisp.ActionNativelyForward && mirror.Same(m.Locators, r.Config.ITR.ProxyETRs)
}

// isBriefDenial reports whether a negative mapping may be about what is configured. Only a sibling gives what is left
// of a TTL, in seconds.
func isBriefDenial(r *Record, m lisp.Mapping) bool {
	left := lisp.Lifetime(m.TTLMinutes, lisp.MaxLifetime)
	return m.TTLMinutes == unregisteredTTLMinutes || r.Mirror.IsGiven(m.Prefix) && left <= unregisteredTTLMinutes*time.Minute
}

// unregisteredTTLMinutes is the TTL of negative answers about what is configured and not
// registered (RFC 9301 s.8.3); other negative answers must not touch a site's EIDs.
const unregisteredTTLMinutes = 1

func checkNegative(j *Judge, r *Record, e *control.MapCacheEntry) {
	owner, ok := j.Owners.Longest(e.Mapping.Prefix)
	if isBriefDenial(r, e.Mapping) && ok || j.Truth.Barred {
		return
	}
	if ok {
		j.Fail(r, invariantTrue, "%s is negative for %d minutes, and within %s of %s", e.Mapping.Prefix, e.Mapping.TTLMinutes, owner.Prefix, owner.Site.Name)
	}
	for _, s := range j.Sites {
		for _, p := range s.Prefixes {
			if e.Mapping.Prefix.Covers(p.Prefix) {
				j.Fail(r, invariantTrue, "%s is negative and covers %s of %s", e.Mapping.Prefix, p.Prefix, s.Name)
			}
		}
	}
}

// CheckEncapsulated judges a packet that leaves towards the core.
func (r *Record) CheckEncapsulated(m enginepackets.Emission) (came Passage) {
	j := r.judge
	packet := packets.Inner(m.Packet)
	p := packets.Read(packet)
	if r.Relay != nil {
		came = checkRelayed(j, r, m)
	} else if int(p.From) != r.Index {
		j.Fail(r, invariantNoLoop, "packet %d of %s is encapsulated a second time", p.Number, j.Routers[p.From].Name)
	}
	to := lisp.EIDFromAddr(packets.Destination(packet))
	e, ok := r.Mirror.Longest(packets.InstanceOf(m.Packet), to)
	switch {
	case !ok:
		j.Fail(r, invariantTrue, "a packet to %s is sent to %s, but no mapping covers it", to, m.Destination)
	case r.Node != nil && !e.Static && r.Time().After(e.ExpiresAt.Add(rates.Rounding)) && r.Mirror.NotStale(&e, staleness(r)) != "":
		j.Fail(r, invariantTTL, "a packet to %s uses %s, which expired at %s: %s", to, e.Mapping, e.ExpiresAt.Sub(virtual.Epoch), r.Mirror.NotStale(&e, staleness(r)))
	case !view(r).MayTake(e.Mapping.Locators, m.Destination, came.encapsulated):
		j.Fail(r, InvariantLocator, "a packet to %s is sent to %s of %s", to, m.Destination, e.Mapping)
	}
	return came
}

// CheckDelivered judges a packet that goes to the site's hosts, and came to that RLOC.
func (r *Record) CheckDelivered(instance lisp.InstanceID, packet []byte, at netip.Addr) {
	j := r.judge
	p := packets.Read(packet)
	to := packets.Destination(packet)
	switch {
	case uint32(instance) != p.Instance || instance != r.Site.Instance:
		j.Fail(r, invariantRightSite, "a packet to %s in Instance-ID %d is delivered in %d of %s", to, p.Instance, instance, r.Site.Name)
	case p.Site == packets.NoSite || p.Site == packets.Outside:
		j.Fail(r, invariantRightSite, "a packet to %s, an EID of no site, is delivered to %s", to, r.Site.Name)
	case p.Site != uint32(r.Site.Index) && !(j.Truth.wasOf(at, j.Sites[p.Site], j.now()) && r.Site.Contains(lisp.HostPrefix(instance, lisp.EIDFromAddr(to)))):
		j.Fail(r, invariantRightSite, "a packet to %s of %s is delivered to %s", to, j.Sites[p.Site].Name, r.Site.Name)
	}
}

// BeforeMessage notes what a message allows its receiver to do.
func (r *Record) BeforeMessage(m *network.Mail) {
	if len(m.Payload) < 12 || r.IsServer() {
		return
	}
	noteFromCore(r, m)
	if wire.MessageType(m.Payload[0]>>4) != wire.TypeMapReply {
		return
	}
	if m.Payload[0]&rates.ProbeReplyBit != 0 { // the answer to an RLOC-probe allows nothing
		r.Mirror.Answered[m.From.Addr()] = r.Time()
		noteAnswer(r, m)
		return
	}
	if r.Station.IsInside(m.To.Addr()) {
		takeGiven(r, m)
		return
	}
	if !r.Sent.Requests.Has(binary.BigEndian.Uint64(m.Payload[4:])) {
		return
	}
	reply, ok := m.Message().(*wire.MapReply)
	if !ok || !r.Sent.Requests.Answered(reply.Nonce, r.Time()) {
		return
	}
	for mapping := range mappingsOf(reply) {
		r.Mirror.Answers[mapping.Prefix] = r.Time()
		r.Mirror.Hear(mapping, r.Time(), false)
	}
}

// AfterMessage looks at what a message did.
func (r *Record) AfterMessage(m *network.Mail) {
	j := r.judge
	switch {
	case len(m.Payload) == 0:
		return
	case wire.MessageType(m.Payload[0]>>4) == wire.TypeMapRegister:
		checkRegistered(j, r, m)
	case m.Forged && r.Site != nil:
		for s := range r.Node.MapServers() {
			if s.LastNotifyAt.Equal(r.Time()) {
				j.Fail(r, invariantAuthentic, "%s took a forged Map-Notify for an acknowledgement of %s", r.Name, s.Address)
			}
		}
	}
}

// checkRegistered looks at the registrations that a Map-Register speaks of: it cannot
// change others.
func checkRegistered(j *Judge, at *Record, m *network.Mail) {
	register, ok := m.Message().(*wire.MapRegister)
	if !ok {
		return
	}
	for i := range register.Records {
		p, err := register.Records[i].Prefix()
		if err != nil {
			continue
		}
		for g := range at.Node.RegistrationsOf(p) {
			checkRegistration(j, at, g, !m.Hostile)
		}
	}
}

// CheckRegistrations looks at all of them.
func (r *Record) CheckRegistrations() {
	j := r.judge
	for g := range r.Node.Registrations() {
		checkRegistration(j, r, g, false)
	}
}

// SweepInterval is how often the invariants that no event touched are checked.
const SweepInterval = time.Second

// registrationsInterval is how often all registrations are looked at, not only those of
// which a Map-Register spoke: nothing else may change one.
const registrationsInterval = 10 * time.Second

// settledFor is how long all must have been settled to be looked at less often, and how
// often then.
const settledFor = 5 * time.Second

// Sweep is each virtual second.
func (j *Judge) Sweep() {
	for _, r := range j.records {
		if r.Node == nil || j.Failure != nil {
			continue
		}
		if r.IsServer() {
			if j.now()%registrationsInterval < SweepInterval {
				r.CheckRegistrations()
			}
			continue
		}
		sweepTables(j, r)
		r.CheckLastPath()
	}
	sweepSiblings(j)
	if j.isEnding() || j.now() < j.CalmSince() || j.now()-j.lastUnsettled > settledFor && j.now()%settledFor >= SweepInterval {
		return
	}
	settled, why := j.settled()
	if settled {
		return
	}
	j.lastUnsettled = j.now()
	if j.MustBeQuiet() {
		j.Fail(nil, InvariantConvergence, "%s after the last fault: %s", j.now()-j.CalmSince(), why)
	}
}

// sweepTables looks at the map-cache when it changed, or when the first TTL ends.
func sweepTables(j *Judge, r *Record) {
	m := &r.Mirror
	if now := r.Time(); m.Changed || !m.FirstExpiry.IsZero() && now.After(m.FirstExpiry) {
		sweepMapCache(j, r, now)
		m.Changed = false
	}
	r.Sent.Requests.Prune(r.Time())
	if len(m.Heard) > 1000 {
		m.ForgetHeard(r.Time())
	}
}

// sweepMapCache looks for entries that outlived their TTL, and for an engine that says
// something else than the Node told it.
func sweepMapCache(j *Judge, r *Record, now time.Time) {
	r.Mirror.FirstExpiry = time.Time{}
	judged, used := staleness(r), usedAt(r)
	entries := 0
	for e := range r.Plane.InPlace() {
		entries++
		told, ok := r.Mirror.Entries[e.Mapping.Prefix]
		if !ok || !told.Mapping.Equal(e.Mapping) || told.Gleaned != e.Gleaned {
			j.Fail(r, InvariantPlane, "the data plane has %s, it was told %s", e.Mapping, told.Mapping)
		}
		if !e.Static && now.After(e.ExpiresAt.Add(rates.Rounding)) {
			why := r.Mirror.NotStale(&told, judged)
			if why == "" && !r.Mirror.InUse(e.Mapping.Prefix, judged, used) {
				why = "it is not in use"
			}
			if why != "" {
				j.Fail(r, invariantTTL, "%s stands in the map-cache after %s: %s", e.Mapping, e.ExpiresAt.Sub(virtual.Epoch), why)
			}
		}
		if first := &r.Mirror.FirstExpiry; !e.Static && (first.IsZero() || e.ExpiresAt.Before(*first)) {
			*first = e.ExpiresAt
		}
	}
	if sizes := r.Node.Sizes(); entries != sizes.MapCache || entries != len(r.Mirror.Entries) {
		j.Fail(r, InvariantPlane, "the data plane has %d mappings, the Node %d, told were %d", entries, sizes.MapCache, len(r.Mirror.Entries))
	}
	bounds := dataplane.DefaultWaitBounds
	if waiting, lost := r.Plane.Burden(); waiting > bounds.PacketsTotal || lost > 0 && r.Down == 0 && !j.Flavour.Tight && j.MustBeQuiet() {
		j.Fail(r, InvariantLimits, "%d packets wait, %d events were lost", waiting, lost)
	}
}

// staleness is what a router's mappings past their TTLs are judged by.
func staleness(r *Record) mirror.Staleness {
	s := mirror.Staleness{Now: r.Time(), StartedAt: r.StartedAt}
	if r.Node != nil && r.Config.ITR != nil {
		s.Public, s.Limit = r.Config.ITR.PublicInternet, r.Config.ITR.ServeStale
	}
	return s
}

// usedAt is when packets last used the mappings of a router that has some past their TTLs, nil for others.
func usedAt(r *Record) map[lisp.Prefix]time.Time {
	if len(r.Mirror.StaleSince) == 0 {
		return nil
	}
	used := map[lisp.Prefix]time.Time{}
	for e := range r.Plane.InPlace() {
		used[e.Mapping.Prefix] = e.Usage.LastUsedAt
	}
	return used
}

// MustBeQuiet reports whether everything has to be as the configuration says, which it is until somebody dies for
// good.
func (j *Judge) MustBeQuiet() bool {
	return j.now() > j.CalmSince()+report.ConvergenceBound && !j.isEnding()
}

// settled reports whether it is: registrations complete, and every steady flow resolved
// to the right locators. why names what is not: the first thing, or one of each kind where
// it is an offence.
func (j *Judge) settled() (settled bool, why string) {
	var missing []string
	for _, problem := range []func(*Judge) string{unresolvedFlow, unsettledRouter, incompleteServer} {
		if p := problem(j); p != "" {
			missing = append(missing, p)
			if !j.MustBeQuiet() {
				break
			}
		}
	}
	return len(missing) == 0, strings.Join(missing, "; ")
}

func unresolvedFlow(j *Judge) string {
	if j.Flavour.Tight { // entries come and go there
		return ""
	}
	for _, f := range j.Flows {
		if problem := j.Unresolved(f); problem != "" {
			return problem
		}
	}
	return ""
}

func unsettledRouter(j *Judge) string {
	for _, x := range j.XTRs {
		if x.CoreLost > 0 {
			continue // no other router hears of it, nor it of them
		}
		r := j.Record(x)
		if rloc, held := heldByStatusBit(r); held {
			return x.Name + " holds " + rloc.String() + " down by a status bit"
		}
		if problem := unacknowledged(r); problem != "" {
			return problem
		}
	}
	return ""
}

func incompleteServer(j *Judge) string {
	for _, s := range j.Servers {
		if n := registrationsMissing(j, j.Record(s)); n != "" {
			return s.Name + " lacks " + n
		}
	}
	return ""
}

// unacknowledged is the Map-Server whose Map-Notify a tunnel router wants and does not
// have.
func unacknowledged(r *Record) string {
	if r.Node == nil || !r.Site.Notify {
		return ""
	}
	for s := range r.Node.MapServers() {
		want, lacking := control.MapServerRegistered, 0
		if !r.Site.Strange.IsZero() {
			want, lacking = control.MapServerPartial, 1
		}
		if (s.State != want || s.LackingCount != lacking) && !isRepeated(r.Site.Strange, &s, &r.judge.Network.Conditions, r.Time()) {
			return fmt.Sprintf("%s has no Map-Notify of %s, which is %s and lacks %d EID-Prefixes", r.Name, s.Address, s.State, s.LackingCount)
		}
	}
	return ""
}

// overtakenFor is how long a refresh may go unacknowledged where the network reorders. A Map-Server refuses a
// Map-Register that a later one has overtaken (RFC 9301 s.5.6). It is sent again after 1, 1 and 2 seconds, and then
// within a minute.
const overtakenFor = 70 * time.Second

// isRepeated reports whether what a Map-Server has not acknowledged may have been overtaken, each time that it was
// sent.
func isRepeated(strange lisp.Prefix, at *control.MapServerStatus, network *network.Conditions, now time.Time) bool {
	isLate := func(l control.UnacknowledgedEID) bool {
		return l.Prefix != strange && now.Sub(l.Since) > overtakenFor
	}
	lacksNew := slices.ContainsFunc(at.Lacking, func(l control.UnacknowledgedEID) bool { return l.Prefix != strange })
	return network.Reorder > 0 && lacksNew && len(at.Lacking) == at.LackingCount && !slices.ContainsFunc(at.Lacking, isLate)
}

// registrationsMissing is the first registration that a Map-Server should have.
func registrationsMissing(j *Judge, at *Record) string {
	if at.Node == nil {
		return "everything: it is down"
	}
	for _, planned := range j.XTRs {
		x := j.Record(planned)
		if x.Node == nil {
			return x.Name + ", which is down"
		}
		if p, ok := unregistered(x, at); ok {
			return p.String() + " of " + x.Name
		}
	}
	return ""
}

// unregistered is the first mapping of a tunnel router's Database that a Map-Server has not from it, or from its
// sibling, as it has to be.
func unregistered(r *Record, at *Record) (lisp.Prefix, bool) {
	for i, m := range r.Config.ETR.Database {
		if m.Prefix == r.Site.Strange {
			continue // no site has it
		}
		sets := []lisp.LocatorSet{m.Locators}
		if r.Site.Siblings {
			sets = r.Site.Prefixes[i].RightLocators()
		}
		if !slices.ContainsFunc(sets, func(set lisp.LocatorSet) bool { return registered(at, m, set) }) {
			return m.Prefix, true
		}
	}
	return lisp.Prefix{}, false
}

// registered reports whether a Map-Server has a registration of those locators.
func registered(at *Record, m control.DatabaseMapping, set lisp.LocatorSet) bool {
	for g := range at.Node.RegistrationsOf(m.Prefix) {
		if mirror.Same(g.Mapping.Locators, set) && g.Mapping.Version == m.Version {
			return true
		}
	}
	return false
}

// Unresolved says what is wrong with the mapping that a flow's packets use.
func (j *Judge) Unresolved(f *sites.Flow) string {
	eid := lisp.EIDFromAddr(f.To)
	owner, ok := j.OwnerOf(f.Instance(), eid)
	from := j.Record(f.From).Way()
	if from == nil {
		return f.From.Name + " has no way to the core"
	}
	e, cached := from.Mirror.Longest(f.Instance(), eid)
	switch {
	case !ok && !f.Outside:
		return "no site owns " + f.To.String()
	case from.Plane == nil || from.Node == nil:
		return from.Name + " is down"
	case !cached && f.IsNative():
		return ""
	case !cached:
		return from.Name + " has no mapping for " + f.To.String()
	case e.Static:
		return wrongHop(from, e.Mapping.Locators)
	case f.Outside:
		return unresolvedOutside(from, e)
	case e.Mapping.Version != owner.Site.Version:
		return fmt.Sprintf("%s has %s of version %d, right is %d", from.Name, e.Mapping, e.Mapping.Version, owner.Site.Version)
	case !owner.IsUsed(e.Mapping.Locators, view(from)):
		return from.Name + " has " + e.Mapping.String() + ", right is " + lisp.Mapping{Prefix: owner.Prefix, Locators: owner.Locators(nil)}.String()
	}
	return wrongHop(from, e.Mapping.Locators)
}

// unresolvedOutside says what is wrong with what a site knows of hosts outside LISP.
func unresolvedOutside(from *Record, e control.MapCacheEntry) string {
	want := paths.Plainly(from.Site.Via.Exits)
	if e.Mapping.Action != lisp.ActionNativelyForward || !mirror.Same(e.Mapping.Locators, want) {
		return fmt.Sprintf("%s has %s, action %s, right are proxy ETRs %s", from.Name, e.Mapping, e.Mapping.Action, want)
	}
	return ""
}

// heldByStatusBit is a locator that is down by a status bit though no fault says so any
// more, and is not held because it flapped.
func heldByStatusBit(r *Record) (lisp.RLOC, bool) {
	if r.Node == nil || len(r.States) == 0 {
		return lisp.RLOC{}, false
	}
	for s := range r.Node.Locators() {
		if s.State == control.LocatorDown && s.Reason == control.LocatorStatusBit && s.HeldUntil.IsZero() {
			return s.RLOC, true
		}
	}
	return lisp.RLOC{}, false
}
