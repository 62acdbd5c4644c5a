// SPDX-License-Identifier: Apache-2.0

package control

// simple-nat (draft-farinacci-lisp-lispers-net-nat): what the roles have to do with it.

import (
	"encoding/hex"
	"net/netip"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/simplenat"
	"loci/lisp"
	"loci/wire"
)

// simpleNAT has a side for each role, which does nothing until it is configured.
type simpleNAT struct {
	server *simplenat.Server
	rtr    *simplenat.RTR
	node   *simplenat.Node
}

func (n *Node) newSimpleNAT() {
	r := simplenat.NewRTR(n.host)
	n.simple.server, n.simple.rtr = simplenat.NewServer(n.host), r
	n.simple.node = simplenat.NewNode(n.host)
	n.simple.node.Name, n.simple.node.Changed, n.simple.node.IsAnswered = n.hostName, n.natPathChanged, n.nat.IsAnswered
	n.simple.node.IsSilent = n.nat.IsSilent
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
	if c := p.config.ETR; c != nil {
		n.simple.node.Configure(c.NAT, c)
	} else {
		n.simple.node.Configure(nil, nil)
	}
	before := n.simple.rtr.IsOn()
	if n.simple.rtr.Configure(p.config.NATRelay); n.simple.rtr.IsOn() != before {
		n.host.Emit(effect.SetRTRs{RTRs: n.controlSources()})
	}
}

// withoutSimpleNAT is how the other protocol is spoken; nil where it is not.
func withoutSimpleNAT(c *settings.NATTraversal) *settings.NATTraversal {
	if c != nil && c.Protocol == settings.NATSimple {
		return nil
	}
	return c
}

// hostName is what this host is called by simple-nat: by its xTR-ID, which others cannot guess where it is chance.
func (n *Node) hostName() string { return "loci-" + hex.EncodeToString(n.xtrID()) }

func (n *Node) xtrID() []byte {
	if n.host.XTRID != [16]byte{} {
		return n.host.XTRID[:]
	}
	return n.nat.Identity()
}

// proxies are the RTRs that all packets go to.
func (n *Node) proxies() []netip.Addr { return eachOnce(n.nat.Proxies(), n.simple.node.Proxies()) }

// handleFromNamedRTR takes what an RTR of simple-nat sends to this node, and reports whether it is from one.
func (n *Node) handleFromNamedRTR(p ControlPacket) bool {
	from := netip.AddrPortFrom(p.From.Addr().Unmap(), p.From.Port())
	if !n.simple.node.IsRTR(from.Addr()) || from.Port() != wire.DataPort {
		return false
	}
	inner, err := wire.Parser{AcceptZeroInnerChecksum: n.config.AcceptZeroInnerChecksum}.ParseInner(p.Packet)
	if err == nil && n.takeFromNamedRTR(p.Local.Addr().Unmap(), from, inner) {
		return true
	}
	n.host.Count(counter.RefusedControlInData)
	return true
}

func (n *Node) takeFromNamedRTR(local netip.Addr, from netip.AddrPort, inner wire.InnerPacket) bool {
	m, err := wire.Parse(inner.Message)
	if err != nil {
		return false
	}
	switch m := m.(type) {
	case *wire.MapReply:
		return n.simple.node.HandleProbeReply(from.Addr(), m)
	case *wire.MapRequest:
		if !m.Probe || len(m.Records) == 0 {
			return false
		}
		asked, err := m.Records[0].Prefix()
		if err != nil || !n.isOwn(asked) {
			return false
		}
		n.host.Count(counter.RLOCProbeReceived)
		n.simple.node.AnswerProbe(local, from, inner, m, asked)
		return true
	}
	return false
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

// NATHostsOf are the hosts that the mapping of just this EID-Prefix names, with what the RTR knows of them: no Seen
// port, and no times, where it has not heard of one.
func (n *Node) NATHostsOf(p lisp.Prefix) (list []NATHost) {
	if n.itr == nil || !n.simple.rtr.IsOn() {
		return nil
	}
	for _, host := range n.itr.Cache.Named.HostsOf(p) {
		h, known := n.simple.rtr.Of(host)
		if !known {
			h = NATHost{Name: host.Name, Seen: netip.AddrPortFrom(host.At, 0)}
		}
		list = append(list, h)
	}
	return list
}

// ChangingNATHosts are the hosts of an RTR of simple-nat whose ports change often, 64 at most. Mappings name them.
func (n *Node) ChangingNATHosts() []NATHost { return n.simple.rtr.ChangingOften() }

// NATHostCount is how many there are.
func (n *Node) NATHostCount() int { return n.simple.rtr.Size() }
