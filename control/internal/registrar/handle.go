// SPDX-License-Identifier: Apache-2.0

package registrar

// What Map-Servers say to the ETR: the Map-Notifies that acknowledge its Map-Registers
// and unsolicited ones (RFC 9301 s.5.7), and how things stand with each
// Map-Server. It changes no mapping: what is registered follows the Database alone.

import (
	"iter"
	"net/netip"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/effect"
	"loci/control/internal/mapregister"
	"loci/control/internal/message"
	"loci/control/internal/settings"
	"loci/control/internal/status"
	"loci/control/internal/system"
	"loci/wire"
)

// HandleMapNotify takes the acknowledgement of a Map-Register, and acknowledges a
// Map-Notify that answers none (RFC 9301 s.5.7). It returns whether it is an acknowledgement, and the RTR that
// its Map-Register went by, nil for none.
func (r *Registrar) HandleMapNotify(m *message.MapNotify) (by *settings.RTRPath, acknowledges bool) {
	r.h.Count(counter.MapNotifyReceived)
	p, by, acknowledges := r.Sender.HandleMapNotify(m)
	if p != nil {
		r.forget(p)
	} else {
		r.acknowledge(m)
	}
	if !acknowledges {
		return nil, false
	}
	return by, true
}

// RegisterByRTR sends what is registered by an RTR again, soon: the NAT's binding is another one now.
func (r *Registrar) RegisterByRTR(rtr, local netip.Addr) {
	for _, p := range r.Peers {
		r.Sender.SendAgain(p, rtr, local)
	}
}

// IsSilent reports whether a Map-Server acknowledges nothing by now, though it is asked to.
func (r *Registrar) IsSilent(id settings.PeerID) bool {
	return slices.ContainsFunc(r.Peers, func(p *mapregister.Peer) bool {
		return p.Config.ID() == id && p.Config.WantMapNotify && p.IsSilent()
	})
}

func (r *Registrar) acknowledge(m *message.MapNotify) {
	at := slices.IndexFunc(r.Peers, func(p *mapregister.Peer) bool { return p.Config.ID() == m.Peer })
	if at < 0 {
		r.h.Count(counter.RefusedUnknownPeer)
		return
	}
	if !r.h.MayNotify(m.From.Addr()) {
		return
	}
	key, ok := r.Peers[at].Config.KeyOf(m.KeyID)
	if !ok {
		r.h.Count(counter.RefusedUnknownKey)
		return
	}
	ack := wire.MapNotifyAck(*m.MapNotify)
	ack.Authentication = make([]byte, len(m.Authentication))
	payload, err := wire.AppendSigned(r.h.Buffer(system.UsualSignedOctets+len(ack.Records)*system.UsualRecordOctets), &ack, key.Secret)
	if err != nil {
		r.h.Count(counter.RefusedEncoding)
		return
	}
	r.h.Send(r.h.AnswerFrom(m.Local), m.From, r.h.Used(payload))
	r.h.Count(counter.MapNotifyAckSent)
	if len(m.Records) > 0 && r.h.HasNoticeLeft() {
		r.h.Say(unsolicitedNotice(m))
	}
}

// unsolicitedNotice tells what a Map-Server says about an EID-Prefix that another xTR
// of the site has changed. Nothing else follows from it.
func unsolicitedNotice(m *message.MapNotify) effect.Notice {
	n := effect.Notice{Kind: effect.NoticeMapNotifyReceived, Remote: m.From, Detail: "unasked"}
	if mapping, err := m.Records[0].Mapping(); err == nil {
		n.Prefix, n.Detail = mapping.Prefix, "unasked: "+mapping.String()
	}
	return n
}

// Acknowledges reports whether any Map-Server was asked for Map-Notifies.
func (r *Registrar) Acknowledges() bool {
	return slices.ContainsFunc(r.Peers, func(p *mapregister.Peer) bool { return p.Config.WantMapNotify })
}

// Registered reports whether all changes have arrived where Map-Notifies tell it.
func (r *Registrar) Registered() bool { return r.Sender.Awaited == 0 && !r.Busy() }

// Status yields how things stand with each Map-Server.
func (r *Registrar) Status() iter.Seq[status.MapServerStatus] {
	return func(yield func(status.MapServerStatus) bool) {
		for _, p := range r.Peers {
			if !yield(r.Sender.StatusOf(p)) {
				return
			}
		}
	}
}

// HandleTimeout sends a message again, or what of it is not acknowledged apart, or ends a withdrawal.
func (r *Registrar) HandleTimeout(id uint32) { r.forget(r.Sender.HandleTimeout(id)) }
