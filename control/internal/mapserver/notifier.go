// SPDX-License-Identifier: Apache-2.0

package mapserver

// Unsolicited Map-Notifies: the Map-Server tells the other xTRs of an EID-Prefix, those
// that want Map-Notifies, that what it answers has changed, until they acknowledge
// (RFC 9301 s.5.7). An xTR whose registration was displaced is not told: it may have
// returned elsewhere. The Map-Notify that acknowledges a Map-Register is mapserver.go's,
// and never repeated.

import (
	"net/netip"
	"slices"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/system"
	"loci/control/internal/table"
	"loci/control/internal/timing"
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
	xtr    RegistrantID
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
	h        *system.System
	known    *Registrations
	rows     table.Slab[notification]
	ByNonce  map[uint64]uint32
	ByTarget map[notifyTarget]uint32
	Timers   timing.Deadlines

	unreachable func(*XTR) bool // no Map-Notify reaches the xTR that it did not ask for
}

func newNotifier(h *system.System, known *Registrations) *notifier {
	return &notifier{h: h, known: known, ByNonce: make(map[uint64]uint32), ByTarget: make(map[notifyTarget]uint32)}
}

// changed tells the xTRs of a registration but the one that changed it.
func (n *notifier) changed(row *Registration, by RegistrantID) {
	newest := n.known.Registrants.At(row.newest)
	for r := range n.known.Each(row) {
		if x := n.known.Xtrs.At(r.XTR); x.wantMapNotify && x.ID != by && n.known.agrees(newest, r) && !n.unreachable(x) {
			n.notify(row, x)
		}
	}
}

// reader is the xTR that a Map-Notify is still for, nil when its registration ended or was displaced.
func (n *notifier) reader(target notifyTarget) *XTR {
	_, row, ok := n.known.Get(target.prefix)
	if !ok {
		return nil
	}
	r := n.known.find(row, target.xtr)
	if r == nil || !n.known.agrees(n.known.Registrants.At(row.newest), r) {
		return nil
	}
	return n.known.Xtrs.At(r.XTR)
}

func (n *notifier) notify(row *Registration, r *XTR) {
	target, site := notifyTarget{row.Prefix, r.ID}, n.known.SiteOf(row)
	if id, known := n.ByTarget[target]; known {
		n.drop(id) // it speaks of what is over
	}
	if len(n.ByTarget) >= n.h.Limits.Notifications {
		n.h.Count(counter.RefusedNotifyTable)
		return
	}
	at := slices.IndexFunc(site.Config.Keys, func(k settings.Key) bool { return k.ID == r.keyID })
	if at < 0 {
		return // the key was withdrawn: so is the registration soon
	}
	key := site.Config.Keys[at]
	m := &wire.MapNotify{
		Nonce: n.h.Nonce(), KeyID: r.keyID, AlgorithmID: r.algorithm, Authentication: make([]byte, r.macOctets),
		Records: []wire.Record{wire.RecordOf(n.known.merged(row))},
	}
	payload, err := wire.AppendSigned(nil, m, key.Secret)
	if err != nil {
		n.h.Count(counter.RefusedEncoding)
		return
	}
	id := n.rows.Add(notification{
		target: target, site: site, nonce: m.Nonce, remote: netip.AddrPortFrom(r.From.Addr(), n.h.ControlPort), payload: payload,
	})
	n.ByTarget[target], n.ByNonce[m.Nonce] = id, id
	n.send(id)
}

// send sends a Map-Notify, again or for the first time, and sets the next deadline.
func (n *notifier) send(id uint32) {
	row := n.rows.At(id)
	row.sent++
	wait := notifyInterval
	if row.sent > notifyEven {
		wait = notifyInterval << (row.sent - notifyEven)
	}
	n.Timers.Set(id, n.h.After(wait))
	if !n.h.MayNotify(row.remote.Addr()) {
		return
	}
	n.h.Send(n.h.FromControlPort(), row.remote, row.payload)
	n.h.Count(counter.MapNotifyUnsolicitedSent)
	if row.sent == 1 {
		n.h.Notice(effect.Notice{Kind: effect.NoticeMapNotifySent, Prefix: row.target.prefix, Remote: row.remote, Site: row.site.Config.Name})
	}
}

// HandleTimeout sends a Map-Notify again, or gives it up.
func (n *notifier) HandleTimeout(id uint32) {
	row := n.rows.At(id)
	x := n.reader(row.target)
	if x == nil {
		n.drop(id)
		return
	}
	row.remote = netip.AddrPortFrom(x.From.Addr(), n.h.ControlPort) // where it is now
	if row.sent <= notifyEven+notifyDoubling {
		n.send(id)
		return
	}
	n.h.Count(counter.MapNotifyUnacknowledged)
	n.h.Notice(effect.Notice{Kind: effect.NoticeMapNotifyUnacknowledged, Prefix: row.target.prefix, Remote: row.remote, Site: row.site.Config.Name})
	n.drop(id)
}

// SiteOf is the site whose xTR a Map-Notify with that nonce went to.
func (n *notifier) SiteOf(nonce uint64) (*settings.Site, bool) {
	id, known := n.ByNonce[nonce]
	if !known {
		return nil, false
	}
	return &n.rows.At(id).site.Config, true
}

// Acknowledged ends a Map-Notify. The Map-Notify-Ack was authenticated by a key of the
// site; it must be the site that the Map-Notify went to.
func (n *notifier) Acknowledged(m *message.MapNotifyAck) {
	id, known := n.ByNonce[m.Nonce]
	if !known || n.rows.At(id).site.Config.Name != m.Site {
		n.h.Count(counter.RefusedNotifyAck)
		return
	}
	n.drop(id)
}

func (n *notifier) drop(id uint32) {
	row := n.rows.At(id)
	delete(n.ByNonce, row.nonce)
	delete(n.ByTarget, row.target)
	n.Timers.Remove(id)
	n.rows.Release(id)
}

// keep drops what is for sites that are gone.
func (n *notifier) keep() {
	for id := range n.rows.Len() {
		if site := n.rows.At(uint32(id)).site; site != nil && !n.known.Sites.renew(site) {
			n.drop(uint32(id))
		}
	}
}
