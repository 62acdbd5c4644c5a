// SPDX-License-Identifier: Apache-2.0

package control

// Registration with Map-Servers: Map-Registers within the size of control
// messages, authenticated, sent again until a Map-Notify comes, refreshed every
// interval, withdrawn when a prefix leaves the Database (RFC 9301 s.5.6, s.5.7,
// s.8.2). Every message, also a repeated one, has a nonce of its own: a Map-Server
// drops what it has seen. It never answers Map-Requests.

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

const (
	// registerNonces is how many of a Map-Register's nonces a late Map-Notify may
	// answer.
	registerNonces = 8
	// withdrawTries ends the repetition of an unacknowledged withdrawal; the
	// registration expires by itself.
	withdrawTries = 5
	// silentAfter unacknowledged Map-Registers the Map-Server is called silent.
	silentAfter = 3
)

// registrar registers mappings with all Map-Servers.
type registrar struct {
	h        *host
	peers    []*registrationPeer
	messages slab[registerMessage]
	byNonce  map[uint64]uint32
	timers   deadlines
}

// registrationPeer is a Map-Server and how things stand with it.
type registrationPeer struct {
	config         MapServerPeer
	messages       []uint32
	prefixes       int
	lastSentAt     instant
	lastNotifyAt   instant
	unacknowledged int
}

// registerMessage is a Map-Register that is sent again and again.
type registerMessage struct {
	peer         *registrationPeer
	mappings     []lisp.Mapping
	withdrawal   bool
	nonces       []uint64 // of the last messages, registerNonces at most
	tries        int      // since the last Map-Notify
	sentAt       instant
	acknowledged bool // at least once, and not silent since
}

func newRegistrar(h *host) *registrar { return &registrar{h: h, byNonce: make(map[uint64]uint32)} }

// configure brings the registrations into line: a peer is left alone unless it or
// the mappings changed.
func (r *registrar) configure(peers []MapServerPeer, mappings []lisp.Mapping, withdrawn []lisp.Prefix, changed bool) {
	old := r.peers
	r.peers = make([]*registrationPeer, len(peers))
	for i, config := range peers {
		at := slices.IndexFunc(old, func(p *registrationPeer) bool { return p.config.Address == config.Address })
		if at < 0 {
			r.peers[i] = &registrationPeer{config: config}
			r.register(r.peers[i], mappings, nil)
			continue
		}
		p := old[at]
		r.peers[i] = p
		same := p.config.equal(config)
		p.config = config
		if !same || changed {
			r.register(p, mappings, withdrawn)
		}
	}
	for _, p := range old {
		if !slices.Contains(r.peers, p) {
			r.forget(p)
		}
	}
}

func (p MapServerPeer) equal(o MapServerPeer) bool {
	return p.Address == o.Address && p.Key.equal(o.Key) && p.ProxyReply == o.ProxyReply && p.WantMapNotify == o.WantMapNotify &&
		p.UseTTL == o.UseTTL && p.MergeRequest == o.MergeRequest && p.RegistrationInterval == o.RegistrationInterval
}

func (k Key) equal(o Key) bool {
	return k.ID == o.ID && k.Algorithm == o.Algorithm && k.TruncatedMAC == o.TruncatedMAC && slices.Equal(k.Secret, o.Secret)
}

// register sends everything to a Map-Server, at once.
func (r *registrar) register(p *registrationPeer, mappings []lisp.Mapping, withdrawn []lisp.Prefix) {
	r.forget(p)
	p.prefixes = len(mappings)
	if len(withdrawn) > 0 {
		r.withdraw(p, withdrawn)
	}
	for _, part := range r.split(p, mappings) {
		r.add(registerMessage{peer: p, mappings: part})
	}
}

// withdraw sends Map-Registers with TTL 0.
func (r *registrar) withdraw(p *registrationPeer, prefixes []lisp.Prefix) {
	gone := make([]lisp.Mapping, len(prefixes))
	for i, prefix := range prefixes {
		gone[i] = lisp.Mapping{Prefix: prefix, Authoritative: true}
	}
	for _, part := range r.split(p, gone) {
		r.add(registerMessage{peer: p, mappings: part, withdrawal: true})
	}
}

// withdrawAll withdraws what is registered, once, without waiting for anything.
func (r *registrar) withdrawAll(prefixes []lisp.Prefix) {
	for _, p := range r.peers {
		r.forget(p)
		r.withdraw(p, prefixes)
	}
}

func (r *registrar) add(m registerMessage) {
	id := r.messages.add(m)
	m.peer.messages = append(m.peer.messages, id)
	r.send(id)
	first := m.mappings[0]
	r.h.notice(Notice{Kind: NoticeMapRegisterSent, Prefix: first.Prefix, Remote: m.peer.config.Address, Detail: registerDetail(m)})
}

func registerDetail(m registerMessage) string {
	text := "registering"
	if m.withdrawal {
		text = "withdrawing"
	}
	if more := len(m.mappings) - 1; more > 0 {
		return text + " with others in one message"
	}
	return text
}

// forget drops all messages for a peer.
func (r *registrar) forget(p *registrationPeer) {
	for _, id := range p.messages {
		r.drop(id)
	}
	p.messages, p.unacknowledged = nil, 0
}

func (r *registrar) drop(id uint32) {
	for _, nonce := range r.messages.at(id).nonces {
		delete(r.byNonce, nonce)
	}
	r.timers.remove(id)
	r.messages.release(id)
}

// split groups mappings so that each Map-Register stays within the size of control
// messages; a mapping that is too large for that goes alone.
func (r *registrar) split(p *registrationPeer, mappings []lisp.Mapping) [][]lisp.Mapping {
	const headOctets, xtrIDOctets = 16, 24
	room := controlOctets(p.config.Address.Addr()) - headOctets - xtrIDOctets - p.config.Key.macOctets()
	var parts [][]lisp.Mapping
	used := 0
	for _, m := range mappings {
		octets := recordOctets(m)
		last := len(parts) - 1
		if last < 0 || used+octets > room || len(parts[last]) == wire.MaxRecords {
			parts = append(parts, []lisp.Mapping{m})
			used = octets
			continue
		}
		parts[last] = append(parts[last], m)
		used += octets
	}
	return parts
}

// send sends a message with the next nonce and sets its deadline: the
// retransmission when a Map-Notify is wanted, else the next refresh.
func (r *registrar) send(id uint32) {
	m := r.messages.at(id)
	p := m.peer
	nonce := r.h.nextRegisterNonce()
	payload, err := r.encode(m, nonce)
	if err != nil { // not ours to repair: a value that no message can hold
		r.h.count(RefusedEncoding)
		r.timers.set(id, r.h.after(p.config.RegistrationInterval))
		return
	}
	if m.tries > 0 {
		r.h.count(MapRegisterRetransmitted)
	}
	r.remember(id, nonce)
	m.tries++
	m.sentAt = r.h.now
	m.acknowledged = m.acknowledged && m.tries < silentAfter
	p.lastSentAt = r.h.now
	r.h.send(netip.AddrPort{}, p.config.Address, payload)
	r.h.count(MapRegisterSent)
	r.timers.set(id, r.h.after(m.wait()))
	r.noteSilence(p, m)
}

// wait is how long after a Map-Register the next one follows, a Map-Notify not
// counted in (RFC 9301 s.5.7: one second, doubling, a minute at most).
func (m *registerMessage) wait() time.Duration {
	interval := m.peer.config.RegistrationInterval
	switch {
	case !m.peer.config.WantMapNotify:
		return interval
	case m.tries > 6:
		return registerRetransmitMax
	}
	return min(registerRetransmitFirst<<(m.tries-1), registerRetransmitMax)
}

func (r *registrar) remember(id uint32, nonce uint64) {
	m := r.messages.at(id)
	m.nonces = append(m.nonces, nonce)
	r.byNonce[nonce] = id
	if len(m.nonces) > registerNonces {
		delete(r.byNonce, m.nonces[0])
		m.nonces = slices.Delete(m.nonces, 0, 1)
	}
}

func (r *registrar) noteSilence(p *registrationPeer, m *registerMessage) {
	if !p.config.WantMapNotify {
		return
	}
	p.unacknowledged++
	if m.tries == silentAfter {
		r.h.notice(Notice{Kind: NoticeMapServerSilent, Prefix: m.mappings[0].Prefix, Remote: p.config.Address,
			Detail: "no Map-Notify: is the address right, do the keys agree, does the site own the EID-Prefix?"})
	}
}

func (r *registrar) encode(m *registerMessage, nonce uint64) ([]byte, error) {
	p := &m.peer.config
	message := &wire.MapRegister{
		ProxyReply: p.ProxyReply, UseTTL: p.UseTTL, MergeRequest: p.MergeRequest, WantMapNotify: p.WantMapNotify,
		Nonce: nonce, KeyID: p.Key.ID, AlgorithmID: p.Key.Algorithm, Authentication: make([]byte, p.Key.macOctets()),
		Records: make([]wire.Record, len(m.mappings)),
	}
	if r.h.xtrID != ([16]byte{}) {
		message.XTRIDPresent, message.XTRID, message.SiteID = true, r.h.xtrID, r.h.siteID
	}
	for i, mapping := range m.mappings {
		message.Records[i] = wire.RecordOf(mapping)
	}
	return wire.AppendSigned(nil, message, p.Key.Secret)
}

// handleTimeout sends a message again, or ends a withdrawal.
func (r *registrar) handleTimeout(id uint32) {
	m := r.messages.at(id)
	if m.withdrawal && (m.tries >= withdrawTries || !m.peer.config.WantMapNotify) {
		r.end(id)
		return
	}
	if !m.peer.config.WantMapNotify {
		m.tries = 0 // nobody acknowledges: every message is a refresh
	}
	r.send(id)
}

func (r *registrar) end(id uint32) {
	p := r.messages.at(id).peer
	p.messages = slices.DeleteFunc(p.messages, func(x uint32) bool { return x == id })
	r.drop(id)
}

// handleMapNotify takes the acknowledgement of a Map-Register, and acknowledges a
// Map-Notify that answers none (RFC 9301 s.5.7).
func (r *registrar) handleMapNotify(m *mapNotify) {
	r.h.count(MapNotifyReceived)
	id, ok := r.byNonce[m.Nonce]
	if !ok || r.messages.at(id).peer.config.Address != m.peer {
		r.acknowledge(m)
		return
	}
	message := r.messages.at(id)
	if !message.awaits(m.Nonce) {
		return // a duplicate, or somebody's replay: nothing is registered by it
	}
	p := message.peer
	if p.lastNotifyAt == 0 || message.tries >= silentAfter {
		r.h.notice(Notice{Kind: NoticeMapNotifyReceived, Prefix: message.mappings[0].Prefix, Remote: m.from})
	}
	p.lastNotifyAt, p.unacknowledged = r.h.now, 0
	if message.withdrawal {
		r.end(id)
		return
	}
	message.acknowledged, message.tries = true, 0
	r.timers.set(id, max(message.sentAt+instant(p.config.RegistrationInterval), r.h.now))
}

// awaits reports whether a Map-Notify with that nonce acknowledges anything: it
// must answer one of the messages since the last Map-Notify. Older nonces are kept
// to tell a late copy from an unsolicited Map-Notify.
func (m *registerMessage) awaits(nonce uint64) bool {
	since := max(len(m.nonces)-m.tries, 0)
	return slices.Contains(m.nonces[since:], nonce)
}

func (r *registrar) acknowledge(m *mapNotify) {
	at := slices.IndexFunc(r.peers, func(p *registrationPeer) bool { return p.config.Address == m.peer })
	if at < 0 {
		r.h.count(RefusedUnknownPeer)
		return
	}
	if !r.h.mayNotify(m.from.Addr()) {
		return
	}
	key := r.peers[at].config.Key
	ack := wire.MapNotifyAck(*m.MapNotify)
	ack.Authentication = make([]byte, len(m.Authentication))
	payload, err := wire.AppendSigned(nil, &ack, key.Secret)
	if err != nil {
		r.h.count(RefusedEncoding)
		return
	}
	r.h.send(r.h.answerFrom(m.local), m.from, payload)
	r.h.count(MapNotifyAckSent)
	if len(m.Records) > 0 {
		r.h.notice(unsolicitedNotice(m))
	}
}

// unsolicitedNotice tells what a Map-Server says about an EID-Prefix that another xTR
// of the site has changed. Nothing else follows from it.
func unsolicitedNotice(m *mapNotify) Notice {
	n := Notice{Kind: NoticeMapNotifyReceived, Remote: m.from, Detail: "unasked"}
	if mapping, err := m.Records[0].Mapping(); err == nil {
		n.Prefix, n.Detail = mapping.Prefix, "unasked: "+mapping.String()
	}
	return n
}

// acknowledges reports whether any Map-Server was asked for Map-Notifies.
func (r *registrar) acknowledges() bool {
	return slices.ContainsFunc(r.peers, func(p *registrationPeer) bool { return p.config.WantMapNotify })
}

// registered reports whether no Map-Register waits for its first Map-Notify.
func (r *registrar) registered() bool {
	for _, p := range r.peers {
		if p.config.WantMapNotify && slices.ContainsFunc(p.messages, func(id uint32) bool { return !r.messages.at(id).acknowledged }) {
			return false
		}
	}
	return true
}

// status yields how things stand with each Map-Server.
func (r *registrar) status() iter.Seq[MapServerStatus] {
	return func(yield func(MapServerStatus) bool) {
		for _, p := range r.peers {
			if !yield(r.peerStatus(p)) {
				return
			}
		}
	}
}

func (r *registrar) peerStatus(p *registrationPeer) MapServerStatus {
	s := MapServerStatus{Address: p.config.Address, State: MapServerIdle, Prefixes: p.prefixes, Unacknowledged: p.unacknowledged}
	if p.lastSentAt != 0 {
		s.State, s.LastSentAt = MapServerSent, r.h.time(p.lastSentAt)
	}
	if p.lastNotifyAt != 0 {
		s.LastNotifyAt = r.h.time(p.lastNotifyAt)
	}
	next, acknowledged := never, true
	for _, id := range p.messages {
		next = min(next, r.timers.of(id))
		acknowledged = acknowledged && r.messages.at(id).acknowledged
	}
	if next != never {
		s.NextSendAt = r.h.time(next)
	}
	if p.config.WantMapNotify && len(p.messages) > 0 {
		s.State = MapServerWaiting
		if acknowledged {
			s.State = MapServerRegistered
		}
	}
	return s
}
