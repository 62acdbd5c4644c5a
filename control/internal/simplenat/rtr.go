// SPDX-License-Identifier: Apache-2.0

package simplenat

// The RTR (s.8): an Info-Request to its data port says which port a NAT has for a host, by the host's name. Mappings
// name hosts and the addresses of their NATs: packets go there only while both are those of an Info-Request. Nothing
// proves that it is the host's own: who sends from the same address by the same name gets its packets.

import (
	"container/list"
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/indata"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/control/internal/timing"
	"loci/lisp"
	"loci/wire"
)

const (
	// hostLasts is how long a host is known without Info-Requests, which nodes send every 15 seconds.
	hostLasts = 3 * time.Minute
	// moveRest is how long a host keeps its port after a change: two that claim one name change it no more often.
	moveRest = time.Second
)

// Host is a host behind a NAT: its name, and the NAT's address.
type Host struct {
	Name string
	At   netip.Addr
}

// known is what is known of a host.
type known struct {
	Host
	port  uint16
	local netip.Addr // ours, that it sent to

	since, heardAt, movedAt timing.Instant
	moves                   uint64
	changes                 timing.Changes // of its port
	unused                  *list.Element  // of its source, where no mapping named it when it was heard last
}

// source is an address with hosts behind it.
type source struct {
	hosts  int
	unused list.List // those that no mapping names, by when they were heard last
	oldest *list.Element
}

func (s *source) add(id uint32) *list.Element {
	e := s.unused.PushBack(id)
	if s.oldest == nil {
		s.oldest = e
	}
	return e
}

func (s *source) remove(e *list.Element) {
	if s.oldest == e {
		s.oldest = e.Next()
	}
	s.unused.Remove(e)
}

// RTR is the side of an RTR.
type RTR struct {
	h       *system.System
	config  *settings.NATRelay // nil where it takes no nodes of simple-nat
	hosts   table.Slab[known]
	byHost  map[Host]uint32
	sources map[netip.Addr]*source
	often   map[Host]struct{} // whose ports change often
	Expiry  timing.Deadlines
	unused  timing.Deadlines // those that no mapping named when they were heard last

	IsUsed  func(Host) bool            // whether a mapping names a host
	Heard   func(_ Host, changed bool) // it sent, and has another port than before
	Expired func(name string)          // a host of that name is known no more
	Count   func(Host) int             // of mappings that name it
	All     func()                     // all hosts may have other ports, or none
}

// NewRTR makes one that knows no host.
func NewRTR(h *system.System) *RTR {
	r := &RTR{h: h}
	r.clear()
	return r
}

func (r *RTR) clear() {
	r.hosts, r.Expiry, r.unused = table.Slab[known]{}, timing.Deadlines{}, timing.Deadlines{}
	r.byHost, r.sources, r.often = map[Host]uint32{}, map[netip.Addr]*source{}, map[Host]struct{}{}
}

// Configure takes over another configuration. Where nodes of simple-nat are taken no more, their hosts are forgotten.
func (r *RTR) Configure(c *settings.NATRelay) {
	if c != nil && !c.SimpleNAT {
		c = nil
	}
	if r.config = c; c == nil {
		r.clear()
	}
	r.All()
}

// IsOn reports whether nodes of simple-nat are taken.
func (r *RTR) IsOn() bool { return r.config != nil }

// PortOf is the port that a NAT has for a host of an EID-Prefix.
func (r *RTR) PortOf(p lisp.Prefix, host Host) (port uint16, is bool) {
	id, is := r.byHost[host]
	if !is || r.config == nil || !r.config.Takes(p) {
		return 0, false
	}
	return r.hosts.At(id).port, true
}

// HandleInfoRequest learns a host's port.
func (r *RTR) HandleInfoRequest(m *message.NamedInfoRequest) {
	host := Host{string(m.Name), m.From.Addr()}
	if slices.Contains(r.h.RLOCs, lisp.RLOCFromAddr(host.At)) {
		r.h.Count(counter.RefusedNATHost)
		return
	}
	id, is := r.byHost[host]
	changed := !is || r.hosts.At(id).port != m.From.Port()
	switch {
	case !is && !r.hasRoom(host.At):
		r.h.Count(counter.RefusedNATTable)
		return
	case !is:
		id = r.add(host, m)
	case changed && r.h.Now-r.hosts.At(id).movedAt < timing.Instant(moveRest):
		r.h.Count(counter.RefusedNATClaim)
		return
	case changed:
		r.move(r.hosts.At(id), m)
	}
	r.h.Count(counter.NATProbeReceived)
	r.hosts.At(id).heardAt = r.h.Now
	r.Expiry.Set(id, r.h.After(hostLasts))
	if r.use(id); !r.IsUsed(host) {
		r.unused.Set(id, r.h.Now)
		r.hosts.At(id).unused = r.sources[host.At].add(id)
	}
	r.Heard(host, changed)
	if m.IsDraft {
		r.reply(m)
	}
}

// use takes a host from those that may leave for others.
func (r *RTR) use(id uint32) {
	b := r.hosts.At(id)
	r.unused.Remove(id)
	if b.unused != nil {
		r.sources[b.At].remove(b.unused)
		b.unused = nil
	}
}

// hasRoom reports whether another host of an address may be known. Where all places are taken, or those of the
// address, the host that was heard longest ago of those that no mapping names leaves.
func (r *RTR) hasRoom(at netip.Addr) bool {
	for s := r.sources[at]; s != nil && s.hosts >= settings.NATHostsPerAddress; {
		if s.oldest == nil {
			return false
		}
		r.replace(s.oldest.Value.(uint32))
	}
	for len(r.byHost) >= settings.NATHosts {
		id, any := r.unused.First()
		if !any {
			return false
		}
		r.replace(id)
	}
	return true
}

// replace drops a host for another one, unless a mapping names it by now.
func (r *RTR) replace(id uint32) {
	if r.use(id); !r.IsUsed(r.hosts.At(id).Host) {
		r.drop(id, removedReplaced)
	}
}

func (r *RTR) add(host Host, m *message.NamedInfoRequest) uint32 {
	id := r.hosts.Add(known{Host: host, port: m.From.Port(), local: m.Local.Addr(), since: r.h.Now, movedAt: r.h.Now})
	r.byHost[host] = id
	if r.sources[host.At] == nil {
		r.sources[host.At] = &source{}
	}
	r.sources[host.At].hosts++
	r.h.Count(counter.NATBindingAdded)
	r.noticeMade(r.hosts.At(id))
	return id
}

func (r *RTR) move(b *known, m *message.NamedInfoRequest) {
	before := b.seen()
	b.port, b.local, b.movedAt = m.From.Port(), m.Local.Addr(), r.h.Now
	b.moves++
	r.noteChange(b)
	r.h.Count(counter.NATBindingMoved)
	r.noticeMoved(b, before)
}

func (b *known) seen() netip.AddrPort { return netip.AddrPortFrom(b.At, b.port) }

// drop forgets a host.
func (r *RTR) drop(id uint32, why string) {
	r.use(id)
	b := *r.hosts.At(id)
	delete(r.byHost, b.Host)
	if r.sources[b.At].hosts--; r.sources[b.At].hosts == 0 {
		delete(r.sources, b.At)
	}
	r.Expiry.Remove(id)
	*r.hosts.At(id) = known{}
	r.hosts.Release(id)
	r.h.Count(counter.NATBindingExpired)
	r.noticeRemoved(&b, why)
	r.Expired(b.Name)
}

// HandleExpiry forgets a host that sends no more.
func (r *RTR) HandleExpiry(id uint32) { r.drop(id, removedExpired) }

// reply answers the draft's form, by the NAT's binding for data. The code's is not answered.
func (r *RTR) reply(m *message.NamedInfoRequest) {
	if !r.h.MayReplyToInfo(m.From.Addr()) {
		return
	}
	seen := &wire.NATTraversalLCAF{
		ETRPort: m.From.Port(), GlobalETR: wire.RLOCAddress(lisp.RLOCFromAddr(m.From.Addr())),
		MapServer: wire.NoAddress{}, PrivateETR: wire.NoAddress{},
	}
	payload, err := wire.DataHeader{Instance: true, InstanceID: lisp.ControlInstanceID}.AppendTo(r.h.Buffer(system.UsualECMOctets))
	if err == nil {
		reply := &wire.InfoReply{InfoRequest: wire.InfoRequest{Nonce: m.Nonce, EID: m.Name}, NAT: seen}
		payload, err = reply.AppendTo(payload)
	}
	if err != nil {
		r.h.Count(counter.RefusedEncoding)
		return
	}
	r.h.Send(netip.AddrPortFrom(m.Local.Addr(), wire.DataPort), m.From, r.h.Used(payload))
	r.h.Count(counter.InfoReplySent)
}

// HandleProbe answers an RLOC-probe that came in a data packet, by the same ports: about EIDs that it relays.
func (r *RTR) HandleProbe(local, from netip.AddrPort, inner wire.InnerPacket, m *wire.MapRequest) {
	asked, err := m.Records[0].Prefix()
	if err != nil || !r.config.Takes(asked) {
		r.h.Count(counter.RefusedControlInData)
		return
	}
	if indata.AnswerProbe(r.h, backTo(from, local.Addr(), inner.Source, r.h), m.Nonce, indata.ProbedMapping(asked, local.Addr(), 1)) {
		r.h.Count(counter.RLOCProbeReplySent)
	}
}

// backTo is the way of an answer to what came in a data packet, at an address of ours.
func backTo(from netip.AddrPort, own netip.Addr, inner netip.AddrPort, h *system.System) indata.Way {
	return indata.Way{
		Local: netip.AddrPortFrom(own, wire.DataPort), Remote: from,
		Source: netip.AddrPortFrom(own, h.ControlPort), Destination: inner,
	}
}

// Size is how many hosts are known.
func (r *RTR) Size() int { return len(r.byHost) }

// pageRows bounds the rows that are looked at for one page.
const pageRows = 2048

// Page is a part of the hosts, in no order, as that of bindings is.
func (r *RTR) Page(from uint32, most int) (page []status.NATHost, next uint32, more bool) {
	rows := uint32(r.hosts.Len())
	for next = from; next < rows && len(page) < most && next-from < pageRows; next++ {
		b := r.hosts.At(next)
		if !b.At.IsValid() { // released
			continue
		}
		page = append(page, r.statusOf(next))
	}
	return page, next, next < rows
}

// Of is a host, if it is known.
func (r *RTR) Of(host Host) (s status.NATHost, is bool) {
	id, is := r.byHost[host]
	if is {
		s = r.statusOf(id)
	}
	return s, is
}

func (r *RTR) statusOf(id uint32) status.NATHost {
	b := r.hosts.At(id)
	s := status.NATHost{
		Name: b.Name, Seen: b.seen(), Own: b.local, Since: r.h.Time(b.since), HeardAt: r.h.Time(b.heardAt),
		ExpiresAt: r.h.Time(r.Expiry.Of(id)), Moves: b.moves, Mappings: r.Count(b.Host),
	}
	if since, often := b.changes.OftenSince(r.h.Now); often {
		s.OftenChangedSince = r.h.Time(since)
	}
	return s
}
