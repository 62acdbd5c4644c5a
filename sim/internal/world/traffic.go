// SPDX-License-Identifier: Apache-2.0

package world

// Traffic between hosts: steady flows that must never lose a packet once all is quiet,
// and short ones to anybody, also to EIDs that no site has, so that misses, resolution,
// negative mappings and eviction happen. Packets are real IP packets; each says in its
// payload whom it is for (RFC 9300 s.4).

import (
	"loci/sim/internal/checks"
	"net/netip"
	"time"

	enginepackets "loci/dataplane/model/packets"
	"loci/lisp"
	"loci/sim/internal/handover"
	"loci/sim/internal/packets"
	"loci/sim/internal/sites"
	"loci/wire"
)

// How much traffic there is.
const (
	steadyFirst   = 10 * time.Second
	steadyFastest = 2 * time.Second
	steadySlowest = 4 * time.Second
	briefGap      = 15 * time.Second // mean time between brief flows of a router
)

// startTraffic gives each tunnel router a steady flow and brief ones.
func startTraffic(w *World) {
	for _, planned := range w.XTRs {
		x := w.Router(planned)
		if f := w.NewFlow(planned); f != nil {
			f.Interval = w.Random.Between(steadyFastest, steadySlowest)
			w.Flows = append(w.Flows, f)
			w.After(w.Random.Between(steadyFirst, 2*steadyFirst), func() { w.Every(f.Interval, func() { w.Transmit(f, true) }) })
		}
		w.After(w.Random.Between(0, briefGap), func() { w.brief(x) })
		w.After(w.Random.Between(0, usageInterval), func() { w.Every(usageInterval, x.reportUsage) })
		if x.Site.Siblings {
			w.Every(handover.ReportsEvery, x.reportHeard)
		}
	}
}

// brief is a short flow, then the next one. One in five goes to an EID of no site.
func (w *World) brief(x *Router) {
	w.After(w.Random.Between(briefGap/2, briefGap*3/2), func() { w.brief(x) })
	f := w.NewFlow(x.Router)
	if f == nil {
		return
	}
	if w.Random.Chance(0.2) {
		f.To, f.Destination = packets.Offset(f.To, 1+w.Random.IntN(3)), nil
		if f.To.Is4() {
			b := f.To.As4()
			b[1] += byte(w.Random.IntN(3) * 100)
			f.To = netip.AddrFrom4(b)
		}
		if owner, ok := w.OwnerOf(x.Site.Instance, lisp.EIDFromAddr(f.To)); ok {
			f.Destination = owner.Site
		}
	}
	for i := range 1 + w.Random.IntN(3) {
		w.After(time.Duration(i)*w.Random.Between(0, time.Second), func() { w.Transmit(f, false) })
	}
}

// Transmit sends one packet of a flow into its tunnel router.
func (w *World) Transmit(f *sites.Flow, steady bool) {
	by := w.wayOf(f.From)
	if by == nil || by.Plane == nil {
		if w.ending != nil {
			w.ending.Forwarded(w.Router(f.From), f, "given to a sibling that is none")
		}
		return
	}
	w.packets++
	w.Stats.PacketsSent++
	p := packets.Payload{Number: w.packets, From: uint32(by.Index), Instance: uint32(f.Instance()), Site: packets.NoSite}
	switch {
	case f.Outside:
		p.Site = packets.Outside
	case f.Destination != nil:
		p.Site = uint32(f.Destination.Index)
	}
	if f.From.Site != nil && f.From.Site.Contains(lisp.HostPrefix(f.Instance(), lisp.EIDFromAddr(f.To))) {
		return // the site's own affair
	}
	isDue := steady && w.MustBeQuiet() && !w.Flavour.Tight
	if isDue && w.Flavour.Relays {
		w.AwaitFlow(f, w.packets)
	}
	if w.ending != nil {
		w.ending.Sent(f, w.packets)
	}
	what := w.send(f, by, p)
	if isDue && what != "encapsulate" && !f.IsNative() {
		w.Fail(by, checks.InvariantConvergence, "a packet of the steady flow from %s to %s was not encapsulated: %s", f.Source, f.To, what)
	}
	if w.ending != nil {
		w.ending.Forwarded(by, f, what)
	}
}

// wayOf is the router that encapsulates what the hosts behind one send, nil while there is none.
func (w *World) wayOf(r *sites.Router) *Router {
	if by := w.Record(r).Way(); by != nil {
		return w.Router(by.Router)
	}
	return nil
}

// NextPacket numbers a packet that no host sends.
func (w *World) NextPacket() uint32 {
	w.packets++
	return w.packets
}

// send gives a packet to the first router of a flow.
func (w *World) send(f *sites.Flow, by *Router, p packets.Payload) (outcome string) {
	if by.Relay != nil {
		return w.IntoProxy(by, p, f.Source, f.To, false)
	}
	o := by.Plane.Send(siteInterface, p.Packet(f.Source, f.To))
	by.RaiseMisses()
	return o.What.String()
}

// emit takes what an engine sends. It must not call the engine.
func (r *Router) emit(m enginepackets.Emission) {
	w := r.W
	switch {
	case m.Way == enginepackets.Natively:
		w.Stats.PacketsNative++
		r.CheckNative(m.Packet)
	case m.Way == enginepackets.ToCore:
		w.Stats.PacketsCarried++
		p := r.CheckEncapsulated(m)
		w.Trace.Note(w.Now, r.Index, m.Packet, func() string { return r.Name + " encapsulates to " + m.Destination.String() })
		to := netip.AddrPortFrom(m.Destination.Addr(), wire.DataPort)
		from := netip.AddrPortFrom(packets.Source(m.Packet), wire.DataPort)
		carried := w.Network.NewMail()
		carried.From, carried.To, carried.Payload, carried.Data = from, to, m.Packet, true
		carried.Hops, carried.Hostile = p.Hops+1, p.Hostile
		w.Network.Carry(&r.Station, carried)
	}
}

// arrivePacket is an encapsulated packet at a router.
func (w *World) arrivePacket(r *Router, m *Mail) {
	if r.Plane == nil {
		w.lostPacket(r, m, "the router is off")
		return
	}
	if r.Relay != nil {
		arriveAtRelay(w, r, m)
		return
	}
	if w.Flavour.Gleaning {
		r.HeardFrom.Note(w.Now, r.Site.Instance, m)
	}
	outcome := r.Plane.Send(coreInterface, m.Payload)
	w.Trace.Note(w.Now, r.Index, nil, func() string { return r.Name + " decapsulates: " + outcome.What.String() })
	if outcome.What.String() == "decapsulate" {
		w.Stats.PacketsArrived++
		r.Sibling.Watch.DataAt = w.Now
		if w.Flavour.Versions {
			r.CheckVersions(m.Payload)
		}
		delete(w.Awaited, packets.Read(outcome.Packet).Number)
		r.CheckDelivered(outcome.Instance, outcome.Packet, m.To.Addr())
	} else {
		w.lostPacket(r, m, outcome.Reason.String())
	}
	r.RaiseMisses()
}

// lostPacket is a packet that did not reach its site.
func (w *World) lostPacket(r *Router, m *Mail, why string) {
	if w.ending != nil {
		w.ending.Lost(r, packets.Read(m.Payload), m.To.Addr(), why)
	}
	w.CheckLost(w.recordOf(r), m, why)
}
