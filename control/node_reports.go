// SPDX-License-Identifier: Apache-2.0

package control

// What the data plane reports, given to the roles.

import (
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
)

// HandleStatusBits takes locators out of use that their site says are down, and back when
// it says that they are up.
func (n *Node) HandleStatusBits(now time.Time, s StatusBits) {
	if n.hint(now) {
		n.itr.HandleStatusBits(s)
	}
}

// HandleNonceMismatch takes a locator out of use that sends packets and does not echo our
// nonce (RFC 9300 s.10.1).
func (n *Node) HandleNonceMismatch(now time.Time, r lisp.RLOC) {
	if n.hint(now) {
		n.itr.Prober.Distrust(r, LocatorNonceMismatch, n.itr.Trusts())
	}
}

// HandleUnreachable takes an ICMP message that calls a locator unreachable and quotes a
// packet that we may have sent.
func (n *Node) HandleUnreachable(now time.Time, r lisp.RLOC) {
	if n.hint(now) {
		n.itr.Prober.Distrust(r, LocatorUnreachable, true)
	}
}

// hint begins the handling of a hint; false where there is no ITR to act on it.
func (n *Node) hint(now time.Time) bool {
	n.host.Advance(now)
	n.host.Count(counter.LocatorHintReceived)
	return n.itr != nil
}

// HandleGleaned uses the outer source of a packet as its inner source's locator for three
// seconds, and asks the mapping system for the mapping.
func (n *Node) HandleGleaned(now time.Time, g Gleaned) {
	n.host.Advance(now)
	switch {
	case n.itr == nil:
		n.host.Count(counter.RefusedRole)
	case g.Source.IsZero() || g.From.IsZero():
		n.host.Count(counter.RefusedEID)
	case n.isOwn(lisp.HostPrefix(g.Instance, g.Source)):
		n.host.Count(counter.RefusedOwnEID)
	default:
		n.itr.HandleGleaned(g)
	}
}

// HandleMapVersions acts on the Map-Versions of a data packet. The rates of SMRs and of
// SMR-invoked Map-Requests bound what forged packets can cause.
func (n *Node) HandleMapVersions(now time.Time, v MapVersions) {
	n.host.Advance(now)
	if n.etr != nil {
		n.etr.HandleVersion(v)
	}
	if n.itr != nil {
		n.itr.HandleVersion(v)
	}
}

// HandleMiss asks for the mapping of a destination, unless that is under way.
func (n *Node) HandleMiss(now time.Time, m Miss) {
	n.host.Advance(now)
	n.host.Count(counter.MissReceived)
	switch {
	case n.itr == nil:
		n.host.Count(counter.RefusedRole)
	case m.Destination.IsZero():
		n.host.Count(counter.RefusedEID)
	case n.isOwn(lisp.HostPrefix(m.Instance, m.Destination)):
		n.host.Count(counter.RefusedOwnEID)
	default:
		n.resolveMiss(m)
	}
}

// resolveMiss asks for the mapping of a packet of our site, or of one that the policy of a relay is for. The source EID of others is
// not told, and a PITR says that it is one (RFC 9301 s.5.2).
func (n *Node) resolveMiss(m Miss) {
	source := lisp.HostPrefix(m.Instance, m.Source)
	relays := len(n.config.Roles) > 0 || n.config.NATRelay != nil
	if !relays || n.isOwn(source) || m.Source.IsZero() || n.isOwnRLOC(m) {
		n.itr.HandleMiss(m, false)
		return
	}
	admitted, asPITR := n.relay.Admits(m)
	if _, e, ok := n.itr.Cache.Longest(source); ok && e.Registered {
		admitted, asPITR = true, false
	}
	if !admitted {
		n.host.Count(counter.RefusedPolicy)
		return
	}
	m.Source = lisp.EID{}
	n.itr.HandleMiss(m, asPITR)
}

// isOwnRLOC reports whether a miss is for the RLOC of a packet that we encapsulated, which is an EID with two layers.
func (n *Node) isOwnRLOC(m Miss) bool {
	return n.host.Depth > 1 && m.Instance == 0 && slices.Contains(n.host.RLOCs, lisp.RLOCFromAddr(m.Source.Addr()))
}

// HandleUsage takes notice of which map-cache entries are in use: those are
// refreshed before their TTL ends, the others removed when idle. Report each use
// within half a minute. Entries that the Node does not have are removed from the
// data plane: their removal was lost while that was away.
func (n *Node) HandleUsage(now time.Time, usage []Usage) {
	n.host.Advance(now)
	if n.itr != nil {
		n.itr.HandleUsage(usage)
	}
}

// HandleHeard takes notice of the RLOCs from which data packets come. Report it after the use of the
// map-cache's entries, of each RLOC as long as the time of its last packet is known.
func (n *Node) HandleHeard(now time.Time, heard []Heard) {
	n.host.Advance(now)
	n.dataCame(heard)
	if n.itr != nil {
		n.itr.Prober.HandleHeard(heard)
	}
}
