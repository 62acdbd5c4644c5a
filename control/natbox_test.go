// SPDX-License-Identifier: Apache-2.0

package control

// A NAT in the network in memory: each pair of an inside address and port and a remote one has a port of its own
// outside, which nothing else reaches, and which the NAT may forget.

import (
	"net/netip"

	"loci/lisp"
	"loci/wire"
)

type natBinding struct{ inside, remote netip.AddrPort }

type natBox struct {
	public  []netip.Addr // one of each is taken in turn
	next    uint16
	byFlow  map[natBinding]netip.AddrPort
	byPort  map[netip.AddrPort]natBinding
	inside  map[netip.AddrPort]*testNode
	dropped int // from outside, without a binding
}

// nat puts a NAT before nodes.
func (n *testNetwork) nat(public []string, nodes ...*testNode) *natBox {
	box := &natBox{next: 40000, inside: map[netip.AddrPort]*testNode{}}
	for _, p := range public {
		box.public = append(box.public, netip.MustParseAddr(p))
	}
	box.flush()
	for _, d := range nodes {
		d.behind = box
	}
	n.boxes = append(n.boxes, box)
	return box
}

// natOf is the NAT before an address, nil for none.
func (d *testNode) natOf(a netip.Addr) *natBox {
	if d.links != nil {
		return d.links[a]
	}
	return d.behind
}

// flush forgets all bindings.
func (b *natBox) flush() {
	b.byFlow, b.byPort = map[natBinding]netip.AddrPort{}, map[netip.AddrPort]natBinding{}
}

// out is how a packet looks outside.
func (b *natBox) out(d *testNode, p SendPacket) netip.AddrPort {
	flow := natBinding{p.Local, p.Remote}
	seen, known := b.byFlow[flow]
	if !known {
		b.next++
		for i := range b.public {
			if a := b.public[(int(b.next)+i)%len(b.public)]; a.Is4() == p.Remote.Addr().Is4() {
				seen = netip.AddrPortFrom(a, b.next)
			}
		}
		b.byFlow[flow], b.byPort[seen] = seen, flow
	}
	b.inside[p.Local] = d
	return seen
}

// translated gives a packet for a NAT's address to the node inside, and reports whether it was one.
func (n *testNetwork) translated(from *testNode, p SendPacket) bool {
	for _, box := range n.boxes {
		for _, a := range box.public {
			if a != p.Remote.Addr() {
				continue
			}
			flow, known := box.byPort[p.Remote]
			if !known || flow.remote != p.Local {
				box.dropped++
				return true
			}
			n.arrive(testPacket{n.now.Add(oneWay), flow.inside, p.Local, box.inside[flow.inside], p.Payload, from.name})
			return true
		}
	}
	return false
}

// receive gives a packet to the control port, or the control message in one to the data port.
func (d *testNode) receive(p testPacket) {
	if p.local.Port() != wire.DataPort {
		d.HandlePacket(d.net.now, p.local, p.from, p.payload)
		return
	}
	h, rest, err := wire.ParseDataHeader(p.payload)
	if err == nil && h.Instance && h.InstanceID == lisp.ControlInstanceID {
		d.HandleControlPacket(d.net.now, ControlPacket{Local: p.local, From: p.from, Packet: rest})
	}
}
