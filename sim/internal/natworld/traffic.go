// SPDX-License-Identifier: Apache-2.0

package natworld

// What is under way: packets of hosts, and datagrams through NATs.

import (
	"net/netip"
	"time"

	enginepackets "loci/dataplane/model/packets"
	"loci/lisp"
	"loci/sim/internal/network"
	"loci/sim/internal/packets"
	"loci/sim/internal/virtual"
	"loci/wire"
)

// insideDelay is how long a datagram takes inside a network, and to the router itself.
const insideDelay = 50 * time.Microsecond

// flow is a host that talks to another one.
type flow struct {
	from, to            *router
	source, destination netip.Addr
	interval            time.Duration
}

// addFlows has each site talk to another one, both ways.
func (w *World) addFlows() {
	slowest := 2 * time.Second
	if w.options.OneAddress {
		slowest = 10 * time.Second
	}
	for i, to := range w.sites {
		from := virtual.Pick(w.random, w.sites)
		if w.options.OneAddress {
			from = w.sites[i%min(crowdOnline, len(w.sites))]
		}
		v4 := w.random.Chance(0.7)
		source, ok := from.hostOf(v4)
		destination, both := to.hostOf(v4)
		if !ok || !both {
			source, _ = from.hostOf(true)
			destination, _ = to.hostOf(true)
		}
		if from == to || from.instance != to.instance {
			continue
		}
		interval := w.random.Between(slowest/2, slowest)
		w.flows = append(w.flows, &flow{from, to, source, destination, interval}, &flow{to, from, destination, source, interval})
	}
}

// transmit sends one packet of a flow into its router.
func (w *World) transmit(f *flow) {
	if f.from.plane == nil {
		return
	}
	w.packets++
	w.stats.PacketsSent++
	p := packets.Payload{Number: w.packets, From: uint32(f.from.index), Instance: uint32(f.from.instance), Site: uint32(f.to.index)}
	w.await(f, w.packets)
	o := f.from.plane.Send(siteInterface, p.Packet(f.source, f.destination))
	w.trace.Say(w.now, func() string {
		return f.from.name + " is given a packet for " + f.destination.String() + ": " + o.What.String() + " " + o.Reason.String()
	})
	f.from.raiseEvents()
}

// emit takes what an engine sends. It must not call the engine.
func (r *router) emit(m enginepackets.Emission) {
	if m.Way != enginepackets.ToCore {
		r.w.stats.PacketsNative++
		return
	}
	if r.w.stats.PacketsCarried++; m.Relayed {
		r.w.stats.PacketsRelayed++
	}
	from, to, payload := packets.Ends(m.Packet)
	inner := payload[wire.DataHeaderOctets:]
	r.w.trace.Note(r.w.now, r.index, m.Packet, func() string {
		return r.name + " encapsulates to " + packets.Destination(inner).String() + " from " + from.String() + " to " + to.String()
	})
	r.checkEncapsulated(packets.InstanceOf(m.Packet), packets.Destination(inner), to)
	r.carry(from, to, payload, true)
}

// carry brings a datagram on its way, through the NATs before its router.
func (r *router) carry(from, to netip.AddrPort, payload []byte, data bool) {
	w := r.w
	m := w.network.NewMail()
	m.From, m.To, m.Payload, m.Data = from, to, payload, data
	if r.station.Has(to.Addr()) {
		w.queue.Push(w.now+insideDelay, event{at: r.place, mail: m, inside: true})
		return
	}
	if r.away > 0 {
		return
	}
	if r.behind != nil && r.behind.hosts[to.Addr()] != nil { // another host of its network
		w.queue.Push(w.now+insideDelay, event{at: r.behind.hosts[to.Addr()], mail: m, inside: true})
		return
	}
	station := &r.station
	for b := r.behind; b != nil; b = b.behind {
		public, ok := b.Out(w.now, m.From, m.To, w.random)
		if !ok || b.down > 0 {
			return
		}
		m.From, station = public, &b.station
	}
	r.noteOutside(from, m.From, to)
	w.network.Carry(station, m)
}

// arrive is a datagram that comes to where an address led when it was sent. Whose address it is now gets it.
func (w *World) arrive(at *place, m *network.Mail) {
	defer w.network.Release(m)
	at, arrives := w.network.Arrive(at.station(), m)
	to := m.To
	for arrives && at.box != nil {
		b := at.box
		if to, arrives = b.In(w.now, to, m.From); !arrives || b.down > 0 {
			w.trace.Say(w.now, func() string { return b.name + " drops a datagram from " + m.From.String() + " to " + m.To.String() })
			return
		}
		at = b.hosts[to.Addr()]
		arrives = at != nil
	}
	if arrives {
		at.router.arrive(m, to)
	}
}

func (p *place) station() *network.Station[*place] {
	if p.box != nil {
		return &p.box.station
	}
	return &p.router.station
}

// arrive gives a router a datagram.
func (r *router) arrive(m *network.Mail, to netip.AddrPort) {
	switch {
	case r.away > 0 || r.frozen:
	case dataPort(to) && r.plane != nil:
		r.arrivePacket(m, to)
	case dataPort(to) || r.node == nil:
		r.w.stats.MessagesLost++
	default:
		r.w.trace.Note(r.w.now, r.index, m.Payload, func() string {
			return r.name + " receives " + packets.Describe(m.Payload) + " from " + m.From.String()
		})
		r.beforeMessage(m)
		r.node.HandlePacket(r.time(), to, m.From, m.Payload)
		r.drain()
	}
}

// arrivePacket gives the data plane an encapsulated packet, or a control message in one.
func (r *router) arrivePacket(m *network.Mail, to netip.AddrPort) {
	o := r.plane.Send(coreInterface, packets.Datagram(m.From, to, m.Payload))
	r.w.trace.Note(r.w.now, r.index, m.Payload, func() string {
		return r.name + " takes a packet from " + m.From.String() + ": " + o.What.String() + " " + o.Reason.String()
	})
	if o.What.String() == "decapsulate" {
		r.w.stats.PacketsArrived++
		r.checkDelivered(o.Instance, o.Packet)
	}
	r.raiseEvents()
}

// owner is the site of an EID, nil for none.
func (w *World) owner(instance lisp.InstanceID, a netip.Addr) *router {
	n := -1
	if b := a.AsSlice(); a.Is4() {
		n = int(b[1])<<8 | int(b[2])
	} else {
		n = int(b[4])<<8 | int(b[5])
	}
	if n >= len(w.sites) || w.sites[n].instance != instance {
		return nil
	}
	return w.sites[n]
}
