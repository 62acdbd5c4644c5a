// SPDX-License-Identifier: Apache-2.0

package mapserver

// RTRs that a registration names no more are told, once (draft-ermagan-lisp-nat-traversal s.5.5): they ask for the
// mapping then, and forward by that. One that is not told forwards to its ETR's old address until its binding ends.

import (
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/system"
	"loci/lisp"
	"loci/wire"
)

// departures are those who left an RTR.
type departures struct {
	h             *system.System
	registrations *Registrations
	infos         *infos
}

// rtrsOf are the offered RTRs that a registration names, of those that believe what comes unasked: by a key.
func (d *departures) rtrsOf(set lisp.LocatorSet) (list []netip.Addr) {
	for _, r := range d.infos.rtrs {
		isIt := func(l lisp.Locator) bool { return l.RLOC == lisp.RLOCFromAddr(r.Address) }
		if len(r.Keys) > 0 && slices.ContainsFunc(set, isIt) {
			list = append(list, r.Address)
		}
	}
	return list
}

// rtrsAt are those of the registration at a place, if there is one.
func (d *departures) rtrsAt(at Place) []netip.Addr {
	if !at.known || len(d.infos.rtrs) == 0 {
		return nil
	}
	return d.rtrsOf(d.registrations.merged(at.row).Locators)
}

// tell tells the RTRs of a registration that it names no more.
func (d *departures) tell(were []netip.Addr, row *Registration) {
	if len(were) == 0 {
		return
	}
	m := d.registrations.merged(row)
	are := d.rtrsOf(m.Locators)
	for _, rtr := range were {
		if !slices.Contains(are, rtr) {
			d.tellRTR(rtr, row, m)
		}
	}
}

// tellRTR sends a Map-Notify that is for the RTR itself. It has a MAC of the site like any other.
func (d *departures) tellRTR(rtr netip.Addr, row *Registration, m lisp.Mapping) {
	site := d.registrations.SiteOf(row).Config
	own, has := d.h.RLOCOf(rtr.Is4())
	if len(site.Keys) == 0 || !has || !d.h.MayNotify(rtr) {
		return
	}
	key := site.Keys[0]
	notify, err := wire.AppendSigned(nil, &wire.MapNotify{
		Nonce: d.h.Nonce(), KeyID: key.ID, AlgorithmID: key.Algorithm,
		Authentication: make([]byte, key.MACOctets()),
		Records:        []wire.Record{wire.RecordOf(m)},
	}, key.Secret)
	if err != nil {
		d.h.Count(counter.RefusedEncoding)
		return
	}
	if d.infos.sendByRTR(d.h.FromControlPort(), rtr, own.Addr(), rtr, notify) {
		d.h.Count(counter.MapNotifyUnsolicitedSent)
		remote := netip.AddrPortFrom(rtr, d.h.ControlPort)
		d.h.Notice(effect.Notice{
			Kind: effect.NoticeMapNotifySent, Prefix: row.Prefix, Remote: remote, Site: site.Name,
		})
	}
}
