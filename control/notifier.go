// SPDX-License-Identifier: Apache-2.0

package control

// Unsolicited Map-Notifies: the Map-Server tells the other xTRs of an EID-Prefix, those
// that want Map-Notifies, that what it answers has changed, until they acknowledge
// (RFC 9301 s.5.7). An xTR whose registration was displaced is not told: it may have
// returned elsewhere. The Map-Notify that acknowledges a Map-Register is mapserver.go's,
// and never repeated.

import (
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

// A Map-Notify is sent again notifyEven times after notifyInterval, then notifyDoubling
// times after twice the time before (RFC 9301 s.5.7).
const (
	notifyInterval = 3 * time.Second
	notifyEven     = 3
	notifyDoubling = 3
)

// notifyTarget is whom a Map-Notify is for and what it is about. A newer one takes the
// place of the one before.
type notifyTarget struct {
	prefix lisp.Prefix
	xtr    registrantID
}

// notification is a Map-Notify under way.
type notification struct {
	target  notifyTarget
	site    *siteState
	nonce   uint64
	remote  netip.AddrPort
	payload []byte
	sent    int
}

// notifier keeps Map-Notifies until they are acknowledged.
type notifier struct {
	h        *host
	known    *registrations
	rows     slab[notification]
	byNonce  map[uint64]uint32
	byTarget map[notifyTarget]uint32
	timers   deadlines
}

func newNotifier(h *host, known *registrations) *notifier {
	return &notifier{h: h, known: known, byNonce: make(map[uint64]uint32), byTarget: make(map[notifyTarget]uint32)}
}

// changed tells the xTRs of a registration but the one that changed it.
func (n *notifier) changed(row *registration, by registrantID) {
	newest := n.known.registrants.at(row.newest)
	for r := range n.known.each(row) {
		if x := n.known.xtrs.at(r.xtr); x.wantMapNotify && x.id != by && n.known.agrees(newest, r) {
			n.notify(row, x)
		}
	}
}

// reader is the xTR that a Map-Notify is still for, nil when its registration ended or was displaced.
func (n *notifier) reader(target notifyTarget) *xtr {
	_, row, ok := n.known.get(target.prefix)
	if !ok {
		return nil
	}
	r := n.known.find(row, target.xtr)
	if r == nil || !n.known.agrees(n.known.registrants.at(row.newest), r) {
		return nil
	}
	return n.known.xtrs.at(r.xtr)
}

func (n *notifier) notify(row *registration, r *xtr) {
	target, site := notifyTarget{row.prefix, r.id}, n.known.siteOf(row)
	if id, known := n.byTarget[target]; known {
		n.drop(id) // it speaks of what is over
	}
	if len(n.byTarget) >= n.h.limits.Notifications {
		n.h.count(RefusedNotifyTable)
		return
	}
	at := slices.IndexFunc(site.config.Keys, func(k Key) bool { return k.ID == r.keyID })
	if at < 0 {
		return // the key was withdrawn: so is the registration soon
	}
	key := site.config.Keys[at]
	m := &wire.MapNotify{
		Nonce: n.h.nonce(), KeyID: r.keyID, AlgorithmID: r.algorithm, Authentication: make([]byte, r.macOctets),
		Records: []wire.Record{wire.RecordOf(n.known.merged(row))},
	}
	payload, err := wire.AppendSigned(nil, m, key.Secret)
	if err != nil {
		n.h.count(RefusedEncoding)
		return
	}
	id := n.rows.add(notification{
		target: target, site: site, nonce: m.Nonce, remote: netip.AddrPortFrom(r.from.Addr(), n.h.controlPort), payload: payload,
	})
	n.byTarget[target], n.byNonce[m.Nonce] = id, id
	n.send(id)
}

// send sends a Map-Notify, again or for the first time, and sets the next deadline.
func (n *notifier) send(id uint32) {
	row := n.rows.at(id)
	row.sent++
	wait := notifyInterval
	if row.sent > notifyEven {
		wait = notifyInterval << (row.sent - notifyEven)
	}
	n.timers.set(id, n.h.after(wait))
	if !n.h.mayNotify(row.remote.Addr()) {
		return
	}
	n.h.send(n.h.fromControlPort(), row.remote, row.payload)
	n.h.count(MapNotifyUnsolicitedSent)
	if row.sent == 1 {
		n.h.notice(Notice{Kind: NoticeMapNotifySent, Prefix: row.target.prefix, Remote: row.remote, Site: row.site.config.Name})
	}
}

// handleTimeout sends a Map-Notify again, or gives it up.
func (n *notifier) handleTimeout(id uint32) {
	row := n.rows.at(id)
	x := n.reader(row.target)
	if x == nil {
		n.drop(id)
		return
	}
	row.remote = netip.AddrPortFrom(x.from.Addr(), n.h.controlPort) // where it is now
	if row.sent <= notifyEven+notifyDoubling {
		n.send(id)
		return
	}
	n.h.count(MapNotifyUnacknowledged)
	n.h.notice(Notice{Kind: NoticeMapNotifyUnacknowledged, Prefix: row.target.prefix, Remote: row.remote, Site: row.site.config.Name})
	n.drop(id)
}

// siteOf is the site whose xTR a Map-Notify with that nonce went to.
func (n *notifier) siteOf(nonce uint64) (*Site, bool) {
	id, known := n.byNonce[nonce]
	if !known {
		return nil, false
	}
	return &n.rows.at(id).site.config, true
}

// acknowledged ends a Map-Notify. The Map-Notify-Ack was authenticated by a key of the
// site; it must be the site that the Map-Notify went to.
func (n *notifier) acknowledged(m *mapNotifyAck) {
	id, known := n.byNonce[m.nonce]
	if !known || n.rows.at(id).site.config.Name != m.site {
		n.h.count(RefusedNotifyAck)
		return
	}
	n.drop(id)
}

func (n *notifier) drop(id uint32) {
	row := n.rows.at(id)
	delete(n.byNonce, row.nonce)
	delete(n.byTarget, row.target)
	n.timers.remove(id)
	n.rows.release(id)
}

// keep drops what is for sites that are gone.
func (n *notifier) keep() {
	for id := range n.rows.len() {
		if site := n.rows.at(uint32(id)).site; site != nil && !n.known.sites.renew(site) {
			n.drop(uint32(id))
		}
	}
}
