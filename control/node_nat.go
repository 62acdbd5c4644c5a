// SPDX-License-Identifier: Apache-2.0

package control

// NAT traversal (draft-ermagan-lisp-nat-traversal): what the roles have to do with it.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/itr"
	"loci/control/internal/message"
	"loci/control/internal/nat"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// maxNATInstances bounds the Instance-IDs in which everything is sent to the RTR.
const maxNATInstances = 256

// newNAT makes both sides, which do nothing until they are configured.
func (n *Node) newNAT() {
	n.nat, n.rtr = nat.New(n.host), nat.NewRTR(n.host)
	n.nat.Changed = n.natPathChanged
	n.nat.Register = func(rtr, local netip.Addr) {
		if n.etr != nil {
			n.etr.Registrar.RegisterByRTR(rtr, local)
		}
	}
	n.nat.IsSilent = func(id settings.PeerID) bool { return n.etr != nil && n.etr.Registrar.IsSilent(id) }
	n.nat.Confirmed = n.putDefaults
	n.rtr.Forward = func(m lisp.Mapping) {
		if n.itr != nil {
			n.itr.Cache.PutNAT(itr.NATMapping{Mapping: m, Registered: true})
		}
	}
	n.rtr.Ask = func(p lisp.Prefix) {
		if n.itr != nil {
			n.itr.Departures.Ask(p)
		}
	}
	n.rtr.Stop = func(p lisp.Prefix) {
		if n.itr != nil {
			n.itr.Cache.RemoveNAT(p, effect.RemoveExpired)
		}
	}
}

// etrConfig is the configuration of the ETR as it is applied: by an RTR where this node is behind a NAT.
func (n *Node) etrConfig() *settings.ETRConfig {
	c := *n.config.ETR
	c.MapServers = n.simple.node.Peers(n.nat.Peers(c.MapServers))
	return &c
}

// configureNAT takes over another configuration of both sides; the ETR has its own.
func (n *Node) configureNAT(p *Prepared) {
	if n.rtr.Configure(p.config.NATRelay); n.itr != nil {
		n.itr.Departures.Leaves = n.rtr.Leaves
	}
	if c := p.config.ETR; c != nil {
		n.nat.Configure(withoutSimpleNAT(c.NAT), c)
	} else {
		n.nat.Configure(nil, nil)
	}
	n.putDefaults()
}

// natPathChanged is for other RTRs, or none, or one that is silent: everything is registered anew, and packets go to an
// RTR only when it knows us.
func (n *Node) natPathChanged() {
	n.putDefaults()
	if rtrs := eachOnce(n.nat.RTRs(), n.simple.node.All()); !slices.Equal(rtrs, n.natRTRs) {
		n.natRTRs = rtrs
		n.host.Emit(effect.SetRTRs{RTRs: n.controlSources()})
	}
	if n.etr != nil {
		n.etr.Configure(n.etrConfig(), n.current.database, false, false)
	}
}

// eachOnce are the addresses of both lists: an RTR may be one by both protocols.
func eachOnce(a, b []netip.Addr) (list []netip.Addr) {
	for _, r := range slices.Concat(a, b) {
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

func rlocsOf(addresses []netip.Addr) (list []lisp.RLOC) {
	for _, a := range addresses {
		list = append(list, lisp.RLOCFromAddr(a))
	}
	return list
}

// putDefaults puts a default mapping to the RTRs, from the data port, into the map-cache for each Instance-ID, and
// takes out those of Instance-IDs, or of RTRs, from before. A new ITR has none yet. Mappings that were learnt before
// such a default came end.
func (n *Node) putDefaults() {
	if n.itr == nil {
		n.natDefaults = nil
		return
	}
	wanted := n.wantedDefaults()
	for _, p := range n.natDefaults {
		if !slices.Contains(wanted, p) {
			n.itr.Cache.RemoveNAT(p, effect.RemoveConfigured)
		}
	}
	known := n.natDefaults
	n.natDefaults = wanted
	var locators []lisp.Locator
	for _, rtr := range rlocsOf(n.proxies()) {
		l := lisp.NewLocator(rtr)
		l.SourcePort = wire.DataPort
		locators = append(locators, l)
	}
	set, err := lisp.NewLocatorSet(locators...)
	if err != nil {
		n.host.Count(counter.RefusedEncoding)
		return
	}
	for _, p := range wanted {
		all := lisp.Mapping{Prefix: p, TTLMinutes: lisp.TTLUnlimited, Locators: set}
		n.itr.Cache.PutNAT(itr.NATMapping{Mapping: all})
	}
	isNew := func(p lisp.Prefix) bool { return !slices.Contains(known, p) }
	if slices.ContainsFunc(wanted, isNew) {
		n.itr.Sweeps.Start(itr.Sweep{Defaults: wanted})
	}
}

// wantedDefaults are the EID-Prefixes of everything, in both address families; none as long as no RTR knows this node.
func (n *Node) wantedDefaults() (list []lisp.Prefix) {
	if len(n.proxies()) == 0 || n.config.ETR == nil {
		return nil
	}
	for _, instance := range n.instances() {
		for _, text := range []string{"0.0.0.0/0", "::/0"} {
			if p, err := lisp.PrefixFrom(instance, lisp.MustParsePrefix(text).EID(), 0); err == nil {
				list = append(list, p)
			}
		}
	}
	return list
}

// instances are those of our EID-Prefixes.
func (n *Node) instances() (list []lisp.InstanceID) {
	for i := range n.config.ETR.Database {
		id := n.config.ETR.Database[i].Prefix.Instance()
		if !slices.Contains(list, id) && len(list) < maxNATInstances {
			list = append(list, id)
		}
	}
	return list
}

// HandleControlPacket takes a control message that came in a data packet of Instance-ID 0xFFFFFF. It passes a
// NAT as the data does. An RTR of the node may send a Map-Notify or the answer to a keepalive, and by simple-nat an
// RLOC-probe or the answer to one. An RTR takes Info-Requests and RLOC-probes of simple-nat, from any IPv4
// address.
func (n *Node) HandleControlPacket(now time.Time, p ControlPacket) {
	n.host.Advance(now)
	if n.handleNATProbe(p) || n.handleFromNamedRTR(p) {
		return
	}
	if !n.nat.IsRTR(p.From.Addr().Unmap()) || p.From.Port() != n.host.ControlPort {
		n.host.Count(counter.RefusedControlInData)
		return
	}
	inner, err := wire.Parser{AcceptZeroInnerChecksum: n.config.AcceptZeroInnerChecksum}.ParseInner(p.Packet)
	if err != nil {
		n.host.Count(counter.RefusedControlInData)
		return
	}
	switch inner.MessageType() {
	case wire.TypeMapNotify:
		n.handleDataMapNotify(p.From.Addr().Unmap(), inner)
	case wire.TypeMapReply:
		m, err := wire.Parse(inner.Message)
		if reply, ok := m.(*wire.MapReply); err != nil || !ok || !n.nat.HandleProbeReply(p.From.Addr().Unmap(), reply) {
			n.host.Count(counter.RefusedControlInData)
		}
	default:
		n.host.Count(counter.RefusedControlInData)
	}
}

// handleDataMapNotify takes a Map-Notify that came by an RTR, authenticated by the Map-Server's key as any other.
func (n *Node) handleDataMapNotify(rtr netip.Addr, inner wire.InnerPacket) {
	received, refused := message.Inspect(n.keyring, inner.Destination, inner.Source, inner.Message)
	if refused != nil {
		n.refuse(refused)
		return
	}
	m, ok := received.Message.(*message.MapNotify)
	if !ok || n.etr == nil {
		n.host.Count(counter.RefusedControlInData)
		return
	}
	if by, _ := n.etr.HandleMapNotify(m); by != nil && by.RTR == rtr {
		n.nat.HandleNotified(*by)
	}
}

// SetXTRID is for a Node that was just made: it registers by an RTR with this xTR-ID, if it has no configured one. An
// RTR knows the node by it after a restart.
func (n *Node) SetXTRID(id [16]byte) { n.nat.XTRID = id }

// NAT is how this node looks from outside; nil where it does not look for NATs.
func (n *Node) NAT() *NAT { return n.simple.node.Status(n.nat.Status()) }

// NATBindingsPage is a part of the bindings of an RTR, in no order, as LocatorsPage is one of the locators.
func (n *Node) NATBindingsPage(from uint32, most int) (page []NATBinding, next uint32, more bool) {
	return n.rtr.Bindings.Page(from, most)
}

// NATBindingsOf are the bindings of just this EID-Prefix: one for each router that has it.
func (n *Node) NATBindingsOf(p lisp.Prefix) []NATBinding { return n.rtr.Bindings.Of(p) }

// ChangingNATBindings are the bindings of an RTR that change often, 64 at most.
func (n *Node) ChangingNATBindings() []NATBinding { return n.rtr.ChangingOften() }

// NATBindingCount is how many there are.
func (n *Node) NATBindingCount() int {
	count, _ := n.rtr.Size()
	return count
}
