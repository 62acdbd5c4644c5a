// SPDX-License-Identifier: Apache-2.0

package control

// simple-nat (draft-farinacci-lisp-lispers-net-nat): what the roles have to do with it.

import (
	"net/netip"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/simplenat"
	"loci/lisp"
	"loci/wire"
)

// simpleNAT has a side for each role, which does nothing until it is configured.
type simpleNAT struct {
	server *simplenat.Server
	rtr    *simplenat.RTR
}

func (n *Node) newSimpleNAT() {
	r := simplenat.NewRTR(n.host)
	n.simple.server, n.simple.rtr = simplenat.NewServer(n.host), r
	r.IsUsed = func(h simplenat.Host) bool { return n.itr != nil && n.itr.Cache.Named.IsUsed(h) }
	r.Count = func(h simplenat.Host) int {
		if n.itr == nil {
			return 0
		}
		return n.itr.Cache.Named.Count(h)
	}
	r.Heard = func(h simplenat.Host, changed bool) {
		if n.itr != nil {
			n.itr.Cache.Named.Heard(h, changed)
		}
	}
	r.Expired = func(name string) {
		if n.itr != nil {
			n.itr.Cache.Named.Changed(name, false)
		}
	}
	r.All = func() {
		if n.itr != nil {
			n.itr.Cache.Named.AllChanged()
		}
	}
}

// configureSimpleNAT takes over another configuration of all sides.
func (n *Node) configureSimpleNAT(p *Prepared) {
	n.simple.server.Configure(p.config.MapServer)
	if n.itr != nil {
		n.itr.Cache.Named.PortOf = n.simple.rtr.PortOf
	}
	before := n.simple.rtr.IsOn()
	if n.simple.rtr.Configure(p.config.NATRelay); n.simple.rtr.IsOn() != before {
		n.host.Emit(effect.SetRTRs{RTRs: n.controlSources()})
	}
}

// controlSources are the routers that control messages in data packets are taken from.
func (n *Node) controlSources() []lisp.RLOC {
	list := rlocsOf(n.natRTRs)
	if n.simple.rtr.IsOn() {
		list = append(list, lisp.RLOCFromAddr(netip.IPv4Unspecified())) // all nodes of simple-nat
	}
	return list
}

// handleNATProbe takes what a node of simple-nat sends to the RTR's data port: an Info-Request without IP and UDP
// headers, or an RLOC-probe with them. It reports whether it is such a thing.
func (n *Node) handleNATProbe(p ControlPacket) bool {
	at := message.Arrival{
		Local: netip.AddrPortFrom(p.Local.Addr().Unmap(), p.Local.Port()),
		From:  netip.AddrPortFrom(p.From.Addr().Unmap(), p.From.Port()),
	}
	if !n.simple.rtr.IsOn() || !at.Local.Addr().Is4() || len(p.Packet) == 0 {
		return false
	}
	if wire.MessageType(p.Packet[0]>>4) == wire.TypeInfo {
		m, refused := message.InspectNATProbe(at, p.Packet)
		if refused != nil {
			n.host.Count(refused.Reason)
			return true
		}
		n.simple.rtr.HandleInfoRequest(m)
		return true
	}
	inner, err := wire.Parser{AcceptZeroInnerChecksum: n.config.AcceptZeroInnerChecksum}.ParseInner(p.Packet)
	if err != nil || inner.MessageType() != wire.TypeMapRequest {
		return false
	}
	m, err := wire.Parse(inner.Message)
	if ask, is := m.(*wire.MapRequest); err == nil && is && ask.Probe && len(ask.Records) > 0 {
		n.host.Count(counter.RLOCProbeReceived)
		n.simple.rtr.HandleProbe(at.Local, at.From, inner, ask)
		return true
	}
	return false
}

// NATHostsPage is a part of the hosts that an RTR knows by simple-nat, in no order, as NATBindingsPage is one of the
// bindings.
func (n *Node) NATHostsPage(from uint32, most int) (page []NATHost, next uint32, more bool) {
	return n.simple.rtr.Page(from, most)
}

// NATHostCount is how many there are.
func (n *Node) NATHostCount() int { return n.simple.rtr.Size() }
