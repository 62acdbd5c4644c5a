// SPDX-License-Identifier: Apache-2.0

package control

// Registration with Map-Servers: Map-Registers within the size of control
// messages, authenticated, sent again until a Map-Notify comes, refreshed every
// interval, withdrawn when a prefix leaves the Database (RFC 9301 s.5.6, s.5.7,
// s.8.2). Every message, also a repeated one, has a nonce of its own: a Map-Server
// drops what it has seen. It never answers Map-Requests.

import (
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
	// withdrawTries ends the repetition of an unacknowledged withdrawal, or one that
	// nobody acknowledges; the registration expires by itself.
	withdrawTries = 5
	// silentAfter unacknowledged Map-Registers the Map-Server is called silent.
	silentAfter = 3
	// quickPeriod is how long after a start or a change Map-Registers come at the
	// quick interval (RFC 9301 s.8.2), quickMessages up to how many of them: a large
	// Database relies on Map-Notifies.
	quickPeriod   = 5 * time.Minute
	quickMessages = 64
	// registerGap is how far apart the first Map-Registers to one Map-Server are where no
	// Map-Notify tells of a loss, and repeated ones anywhere: it drops one that another
	// overtook, whose nonce is greater (RFC 9301 s.5.6). gapMessages are those that keep it;
	// more follow the pace.
	registerGap = 20 * time.Millisecond
	gapMessages = 64
	// registerJitterPart of the longest time between two repetitions is left to chance.
	registerJitterPart = 4
	// refreshGapPart: refreshes of one Database are this part of their interval apart.
	refreshGapPart = 4 * gapMessages
)

// registrar registers mappings with all Map-Servers.
type registrar struct {
	h        *host
	peers    []*registrationPeer
	leaving  []*registrationPeer // configured no more; they are told so
	work     []*registering      // Map-Servers whose registration is being brought into line
	messages slab[registerMessage]
	byNonce  map[uint64]uint32
	timers   deadlines
	quick    time.Duration // the quick interval, negative for never
	awaited  int           // messages with changes that no Map-Notify has answered yet
	changeAt instant       // when the last message with changes goes that no Map-Notify answers
}

// registrationPeer is a Map-Server and how things stand with it.
type registrationPeer struct {
	config         MapServerPeer
	messages       []uint32
	cut            int  // messages that are gone from the front: numbers of the others do not change
	withdrawals    int  // of the messages
	leaves         bool // it is configured no more
	prefixes       int
	lastSentAt     instant
	lastNotifyAt   instant
	unacknowledged int
	quickUntil     instant
	pace           instant                 // when its bucket of Map-Registers is full again
	alone          int                     // of the messages
	retried        int                     // the place among them where the last one was that was tried again early
	joined         uint32                  // the message that takes what is acknowledged alone, and 1; 0 for none
	refused        map[lisp.Prefix]instant // while all is registered anew: what was alone, and since when
}

// registerMessage is a Map-Register that is sent again and again.
type registerMessage struct {
	peer         *registrationPeer
	mappings     []lisp.Mapping
	withdrawal   bool
	awaited      bool     // it has changes, and no Map-Notify came yet
	nonces       []uint64 // of the last messages, registerNonces at most
	tries        int      // since the last Map-Notify
	sentAt       instant
	since        instant // the first that no Map-Notify answered, 0 for none
	got          []bool  // which mappings the Map-Notifies since have, nil for none
	alone        bool    // an EID-Prefix that is not acknowledged
	refused      bool    // although others are: that was told
	joined       bool    // its mappings were acknowledged alone before
	aloneUntil   instant // it was not acknowledged with others; 0 for never
	acknowledged bool    // at least once, and not silent since
	place        int     // among those of the same registration, below gapMessages
	apart        bool    // its refreshes have gone apart from the others'
	number       int     // its place in peer.messages, and peer.cut
}

// newRegistrar makes a registrar without Map-Servers.
func newRegistrar(h *host) *registrar { return &registrar{h: h, byNonce: make(map[uint64]uint32)} }

// withdrawNow sends a Map-Register with TTL 0, never again and whatever comes of it, and returns what that costs.
func (r *registrar) withdrawNow(p *registrationPeer, gone []lisp.Mapping) (cost int) {
	m := registerMessage{peer: p, mappings: gone, withdrawal: true}
	payload, err := r.encode(&m, r.h.nextRegisterNonce())
	if err != nil {
		r.h.count(RefusedEncoding)
		return messageCost
	}
	r.h.send(netip.AddrPort{}, p.config.Address, payload)
	r.h.count(MapRegisterSent)
	r.tell(&m)
	return messageCost
}

// under is what is to be withdrawn from a Map-Server and was taken back to be sent anew.
func (r *registrar) under(p *registrationPeer) *chunked[lisp.Prefix] {
	for _, w := range r.work {
		if w.peer == p {
			return &w.under
		}
	}
	return &chunked[lisp.Prefix]{}
}

// tell tells of a Map-Register that says something new.
func (r *registrar) tell(m *registerMessage) {
	r.h.notice(Notice{Kind: NoticeMapRegisterSent, Prefix: m.mappings[0].Prefix, Remote: m.peer.config.Address, Detail: registerDetail(*m)})
}

func (r *registrar) add(m registerMessage) {
	r.queue(m)
	r.tell(&m)
}

// queue gives a message its turn.
func (r *registrar) queue(m registerMessage) (id uint32) {
	at := r.firstAt(&m)
	if m.awaited && !m.peer.config.WantMapNotify {
		m.awaited, r.changeAt = false, max(r.changeAt, at)
	}
	if m.awaited {
		r.awaited++
	}
	if m.alone {
		m.peer.alone++
	}
	id = r.messages.add(m)
	r.list(id)
	if at > r.h.now {
		r.timers.set(id, at)
	} else {
		r.send(id)
	}
	return id
}

// firstAt gives a message its place among those for its Map-Server, and the time at which
// it goes. Where Map-Notifies are wanted all go at once: what one of them lacks is sent again.
func (r *registrar) firstAt(m *registerMessage) instant {
	before := len(m.peer.messages)
	m.place = before % gapMessages
	at := m.peer.slot(r.h.now, r.h.limits.MapRegisters)
	if !m.peer.config.WantMapNotify {
		at += instant(min(before, gapMessages)) * instant(registerGap)
	}
	return at
}

// slot is when the next Map-Register of many may go to the Map-Server. Refreshes and
// repetitions follow the spacing that it gives.
func (p *registrationPeer) slot(now instant, r Rate) instant {
	p.pace = max(p.pace, now) + r.interval()
	return max(p.pace-r.refill(), now)
}

// interval is how long after an acknowledged Map-Register the next one follows.
func (r *registrar) interval(p *registrationPeer) time.Duration {
	if r.h.now < p.quickUntil {
		return min(p.config.RegistrationInterval, r.quick)
	}
	return p.config.RegistrationInterval
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

func (r *registrar) drop(id uint32) {
	m := r.messages.at(id)
	for _, nonce := range m.nonces {
		delete(r.byNonce, nonce)
	}
	r.arrived(m)
	if m.withdrawal {
		m.peer.withdrawals--
	}
	if r.setAlone(m, false); m.peer.joined == id+1 {
		m.peer.joined = 0
	}
	if m.sentAt == 0 { // its turn is another one's
		m.peer.pace -= r.h.limits.MapRegisters.interval()
	}
	r.timers.remove(id)
	r.messages.release(id)
}

// arrived notes that nobody waits for the message any more.
func (r *registrar) arrived(m *registerMessage) {
	if m.awaited {
		m.awaited = false
		r.awaited--
	}
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
	if m.since == 0 {
		m.since = r.h.now
	}
	m.acknowledged = m.acknowledged && m.tries < silentAfter
	p.lastSentAt = r.h.now
	r.h.send(netip.AddrPort{}, p.config.Address, payload)
	r.h.count(MapRegisterSent)
	r.timers.set(id, r.h.after(r.wait(m)))
	r.noteSilence(p, m)
}

// wait is how long after a Map-Register the next one follows, a Map-Notify not
// counted in (RFC 9301 s.5.7: one second, doubling, a minute at most), and no longer than the
// registration interval: a Map-Server that was away has all again after one. Part of that is
// chance, so that not all who lost it come back at the same moment.
func (r *registrar) wait(m *registerMessage) time.Duration {
	p := m.peer
	if !p.config.WantMapNotify && !m.withdrawal {
		return r.refreshAfter(m)
	}
	if m.refused {
		return p.waitRefused(r.h.below)
	}
	most := min(registerRetransmitMax, p.config.RegistrationInterval)
	if wait := registerRetransmitFirst << min(m.tries-1, 6); wait < most {
		return wait + time.Duration(m.place)*registerGap
	}
	return r.jittered(most)
}

func (r *registrar) jittered(most time.Duration) time.Duration {
	return max(most-r.h.below(most/registerJitterPart), registerRetransmitFirst)
}

// refreshAfter is how long after a Map-Register its refresh follows. The first of them go
// apart from each other, and stay so.
func (r *registrar) refreshAfter(m *registerMessage) time.Duration {
	interval := r.interval(m.peer)
	if m.apart {
		return interval
	}
	m.apart = true
	return interval + time.Duration(m.place)*interval/refreshGapPart
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
	switch {
	case p.answers(m.since):
		if m.alone && m.tries >= silentAfter && !m.refused {
			r.tellRefused(m)
		}
	case m.tries == silentAfter && !m.alone:
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
	payload, err := wire.AppendSigned(r.h.room(usualSignedOctets+len(m.mappings)*usualRecordOctets), message, p.Key.Secret)
	return r.h.used(payload), err
}

// handleTimeout sends a message again, or what of it is not acknowledged apart, or ends a withdrawal.
func (r *registrar) handleTimeout(id uint32) {
	m := r.messages.at(id)
	switch {
	case m.got != nil: // no other Map-Notify came with the rest
		r.part(id)
		return
	case r.mayPart(m):
		r.partAll(id)
		return
	case m.withdrawal && m.tries >= withdrawTries:
		r.end(id)
		return
	}
	if !m.peer.config.WantMapNotify && !m.withdrawal {
		m.tries = 0 // nobody acknowledges: every message is a refresh
	}
	r.send(id)
}

// list puts a message behind the others to its Map-Server.
func (r *registrar) list(id uint32) {
	m := r.messages.at(id)
	m.number = m.peer.cut + len(m.peer.messages)
	m.peer.messages = append(m.peer.messages, id)
	if m.withdrawal {
		m.peer.withdrawals++
	}
}

// end is for a withdrawal that arrived, or did not for too long: the last message takes its place.
func (r *registrar) end(id uint32) {
	m := r.messages.at(id)
	p, last := m.peer, len(m.peer.messages)-1
	moved := p.messages[last]
	p.messages[m.number-p.cut], r.messages.at(moved).number = moved, m.number
	p.messages = p.messages[:last]
	r.drop(id)
	r.forget(p)
}

// numbered is a Map-Server by its number: those that leave are behind the others.
func (r *registrar) numbered(i int) *registrationPeer {
	if i < len(r.peers) {
		return r.peers[i]
	}
	return r.leaving[i-len(r.peers)]
}
