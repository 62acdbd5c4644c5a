// SPDX-License-Identifier: Apache-2.0

package settings

// NAT traversal (draft-ermagan-lisp-nat-traversal, simple-nat): the settings of a node behind a NAT, of its Map-Server
// and of its RTR.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/timing"
	"loci/lisp"
)

const (
	// MaxRTRs is how many RTRs an Info-Reply names at most.
	MaxRTRs = 16
	// DefaultKeepalive: Linux forgets an exchange of one packet each way after 30 seconds.
	DefaultKeepalive = 25 * time.Second
	// minKeepalive is below what a keepalive is a flood.
	minKeepalive = time.Second

	// NATBindings bounds the EID-Prefixes that an RTR forwards to nodes behind NATs.
	NATBindings = 1 << 16
	// NATBindingsPerSite bounds those of one Site-ID, or of one xTR-ID without.
	NATBindingsPerSite = 1 << 12
	// NATRLOCs bounds the RLOCs of a router behind NATs by which an RTR reaches it.
	NATRLOCs = 8
	// NATRouters bounds the routers behind NATs that an RTR forwards one EID-Prefix to.
	NATRouters = 16
	// NATPending bounds the relayed Map-Registers that no Map-Notify has answered.
	NATPending = 1 << 13
	// NATPendingPerSource bounds those from one IPv4 address, or one /64 of IPv6.
	NATPendingPerSource = 1 << 10
	// NATRenewals bounds, besides, those from the address and port of a router that is forwarded to: a flood of
	// others keeps none from renewing.
	NATRenewals = 1 << 13
	// NATRenewalsPerRouter bounds those from one address and port.
	NATRenewalsPerRouter = 1 << 9
	// NATPendingLast is how long such a Map-Register waits for its Map-Notify.
	NATPendingLast = 10 * time.Second
	// NATHosts bounds the hosts behind NATs that an RTR of simple-nat knows.
	NATHosts = 1 << 16
	// NATHostsPerAddress bounds those of one address.
	NATHostsPerAddress = 1 << 12
	// NATRecords bounds the records of a Map-Register that is relayed: more do not fit a packet of 1280 octets.
	NATRecords = 64
)

// InfoReplies bounds the Info-Replies to one address, which many nodes may share behind a NAT.
func InfoReplies() timing.Rate { return timing.Rate{PerSecond: 50, Burst: 200} }

// InfoRepliesTotal bounds all of them.
func InfoRepliesTotal() timing.Rate { return timing.Rate{PerSecond: 2000, Burst: 2000} }

// NATProtocol is by which protocol a node finds NATs, and gets through them.
type NATProtocol uint8

// The protocols.
const (
	NATAuto    NATProtocol = iota // draft-ermagan-lisp-nat-traversal, or where that is not answered simple-nat
	NATErmagan                    // that draft's
	NATSimple                     // simple-nat, draft-farinacci-lisp-lispers-net-nat
)

// String is the word of the configuration.
func (p NATProtocol) String() string {
	switch p {
	case NATErmagan:
		return "ermagan"
	case NATSimple:
		return "simple"
	default:
		return "auto"
	}
}

// NATTraversal is how a node finds out that it is behind a NAT, and what it does then.
type NATTraversal struct {
	Always    bool          // an RTR is used without a NAT as well
	Keepalive time.Duration // between messages that keep the NAT's binding; 0 is 25 seconds, negative is never
	Protocol  NATProtocol
}

// NamedPath is how an own RLOC of a node is reached by simple-nat: its RTRs, and what they send to.
type NamedPath struct {
	Local netip.Addr // own RLOC
	Seen  netip.Addr // as the NAT translates it
	Name  string     // of this host, at this RLOC
	RTRs  []netip.Addr

	Unused bool // no RTR answers there, and one does at another RLOC
}

// Equal reports whether both are the same; nil is equal to nil alone.
func (p *NamedPath) Equal(o *NamedPath) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Local == o.Local && p.Seen == o.Seen && p.Name == o.Name && p.Unused == o.Unused &&
		slices.Equal(p.RTRs, o.RTRs)
}

// RTRPath is an RTR, and the own RLOC behind a NAT that is reached by it.
type RTRPath struct {
	RTR    netip.Addr
	IPv4   netip.Addr // of the RTR, where a NAT64 is on the way; else the zero one
	Local  netip.Addr
	Silent bool // it does not answer, and another one does
}

// Known is the address by which other nodes reach the RTR.
func (p RTRPath) Known() netip.Addr {
	if p.IPv4.IsValid() {
		return p.IPv4
	}
	return p.RTR
}

// RTRPeer is an RTR that a Map-Server offers to nodes behind NATs.
type RTRPeer struct {
	Address netip.Addr
	Keys    []Key // the first one authenticates Map-Notifies for it; none: it believes nonces
}

// NATRelay is what an RTR does for nodes behind NATs.
type NATRelay struct {
	MapServers []NATMapServer   // Map-Registers are relayed to no other
	EIDs       []netip.Prefix   // of the nodes; none: all that a Map-Server acknowledges
	Instance   *lisp.InstanceID // the only one of the nodes; nil: all
	SimpleNAT  bool             // nodes of simple-nat as well: what their Info-Requests say is believed
}

// NATMapServer is a Map-Server that an RTR relays Map-Registers to.
type NATMapServer struct {
	Address  netip.Addr
	Keys     []Key // of its Map-Notifies; none: the nonce is enough
	OldDraft bool  // messages go without an ECM, as before draft-ermagan-lisp-nat-traversal-04
}

// MapServer is the configured Map-Server of an address.
func (r *NATRelay) MapServer(a netip.Addr) (*NATMapServer, bool) {
	for i := range r.MapServers {
		if r.MapServers[i].Address == a {
			return &r.MapServers[i], true
		}
	}
	return nil, false
}

// MapServerFor is the configured Map-Server that a node calls by that address: its own, or, where a NAT64 is between
// the node and this RTR, an IPv6 address that stands for it.
func (r *NATRelay) MapServerFor(a netip.Addr) (*NATMapServer, bool) {
	if m, known := r.MapServer(a); known {
		return m, true
	}
	for i := range r.MapServers {
		if _, leads := lisp.NAT64Prefix(a, r.MapServers[i].Address); leads {
			return &r.MapServers[i], true
		}
	}
	return nil, false
}

// Believes reports whether a Map-Notify of a Map-Server counts, which a key authenticated, the zero one for none.
func (r *NATRelay) Believes(mapServer netip.Addr, k Key) bool {
	m, known := r.MapServer(mapServer)
	return known && (len(m.Keys) == 0 || slices.ContainsFunc(m.Keys, k.equal))
}

// Takes reports whether an EID-Prefix is one of the nodes'.
func (r *NATRelay) Takes(p lisp.Prefix) bool {
	if !p.EID().IsIP() || r.Instance != nil && *r.Instance != p.Instance() {
		return false
	}
	return len(r.EIDs) == 0 || slices.ContainsFunc(r.EIDs, func(e netip.Prefix) bool {
		return e.Bits() <= p.Bits() && e.Contains(p.EID().Addr())
	})
}

func (t *NATTraversal) withDefaults() *NATTraversal {
	if t == nil {
		return nil
	}
	return &NATTraversal{Always: t.Always, Keepalive: durationOr(t.Keepalive, DefaultKeepalive), Protocol: t.Protocol}
}

func (r *NATRelay) withDefaults() *NATRelay {
	if r == nil {
		return nil
	}
	relay := &NATRelay{EIDs: r.EIDs, Instance: r.Instance, SimpleNAT: r.SimpleNAT}
	for _, m := range r.MapServers {
		server := NATMapServer{Address: m.Address.Unmap(), Keys: keysWithDefaults(m.Keys), OldDraft: m.OldDraft}
		relay.MapServers = append(relay.MapServers, server)
	}
	return relay
}

func rtrsWithDefaults(rtrs []RTRPeer) (list []RTRPeer) {
	for _, r := range rtrs {
		list = append(list, RTRPeer{Address: r.Address.Unmap(), Keys: keysWithDefaults(r.Keys)})
	}
	return list
}

func keysWithDefaults(keys []Key) (list []Key) {
	for _, k := range keys {
		list = append(list, k.withDefaults())
	}
	return list
}

func (t *NATTraversal) validate() error {
	if t != nil && t.Keepalive >= 0 && t.Keepalive < minKeepalive {
		return fmt.Errorf("NAT traversal: keepalive %s: want %s or more", t.Keepalive, minKeepalive)
	}
	return nil
}

func (r *NATRelay) validate(c *Config) error {
	if r == nil {
		return nil
	}
	var errs []error
	for _, m := range r.MapServers {
		errs = append(errs, validServer("Map-Server", netip.AddrPortFrom(m.Address, c.ControlPort)))
		if len(m.Keys) > 0 {
			errs = append(errs, validKeys(fmt.Sprintf("Map-Server %s", m.Address), m.Keys))
		}
	}
	if c.ITR == nil {
		errs = append(errs, errors.New("an RTR of nodes behind NATs needs the ITR, which has their mappings"))
	}
	return errors.Join(errs...)
}

func validRTRs(rtrs []RTRPeer, port uint16) error {
	var errs []error
	if len(rtrs) > MaxRTRs {
		errs = append(errs, fmt.Errorf("%d RTRs: want at most %d", len(rtrs), MaxRTRs))
	}
	for _, r := range rtrs {
		errs = append(errs, validServer("RTR", netip.AddrPortFrom(r.Address, port)))
		if len(r.Keys) > 0 {
			errs = append(errs, validKeys(fmt.Sprintf("RTR %s", r.Address), r.Keys))
		}
	}
	return errors.Join(errs...)
}
