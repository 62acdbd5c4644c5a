// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"encoding/hex"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/internal/jsondoc"
)

// What `loci show nat` is answered.

// maxNATBindings bounds the bindings that are listed.
const maxNATBindings = 1000

// natPage bounds what one iteration lists.
const natPage = 512

// NAT answers `loci show nat`.
func (a *Answers) NAT(ctx context.Context) (api.NAT, error) {
	answer, err := a.NATSummary(ctx)
	if err != nil {
		return answer, err
	}
	type page struct {
		list []control.NATBinding
		next uint32
		more bool
	}
	var first []control.NATBinding // in the order of EID-Prefixes
	order := func(a, b control.NATBinding) int { return a.Prefix.Compare(b.Prefix) }
	for at := (page{more: true}); at.more; {
		from := at.next
		at, err = eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) (p page) {
			p.list, p.next, p.more = node.NATBindingsPage(from, natPage)
			return p
		})
		if err != nil {
			return answer, err
		}
		first = append(first, at.list...)
		slices.SortFunc(first, order)
		first = first[:min(len(first), maxNATBindings)]
	}
	for _, b := range first {
		answer.Bindings = append(answer.Bindings, natBindingDocument(b))
	}
	answer.BindingCount = max(answer.BindingCount, len(first)) // some may be new
	return answer, nil
}

// NATSummary is how this router looks from outside, and how many bindings it has as an RTR.
func (a *Answers) NATSummary(ctx context.Context) (api.NAT, error) {
	type known struct {
		node  *control.NAT
		count int
	}
	k, err := eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) known {
		return known{node.NAT(), node.NATBindingCount()}
	})
	answer := natDocument(k.node)
	answer.BindingCount = k.count
	return answer, err
}

func natDocument(n *control.NAT) api.NAT {
	document := api.NAT{Views: []api.NATView{}, RTRs: []api.NATRTR{}, Bindings: []api.NATBinding{}}
	if n == nil {
		return document
	}
	document.OctetsSent = n.SentLastHour
	for _, v := range n.Views {
		view := api.NATView{
			MapServer: v.MapServer.String(), RLOC: v.Local, AnsweredAt: jsondoc.KnownTime(v.AnsweredAt),
			BehindNAT: v.Behind, RTRs: append([]netip.Addr{}, v.RTRs...),
		}
		if v.Seen.IsValid() {
			view.SeenAs = v.Seen.String()
		}
		document.Views = append(document.Views, view)
	}
	for _, r := range n.RTRs {
		document.RTRs = append(document.RTRs, natRTRDocument(r, n.Keepalive))
	}
	return document
}

func natRTRDocument(r control.NATRTR, keepalive time.Duration) api.NATRTR {
	return api.NATRTR{
		Address: r.Address, RLOC: r.Local, Since: jsondoc.KnownTime(r.Since), KeepaliveSeconds: max(keepalive, 0).Seconds(),
		LastKeepaliveAt: jsondoc.KnownTime(r.LastKeepaliveAt), ConfirmedAt: jsondoc.KnownTime(r.ConfirmedAt),
		Silent: r.Silent, BindingsLost: r.BindingsLost,
		OftenChangedSince: jsondoc.KnownTime(r.OftenChangedSince),
	}
}

func natBindingDocument(b control.NATBinding) api.NATBinding {
	return api.NATBinding{
		EIDPrefix: b.Prefix, SeenAs: b.Seen.String(), Private: b.Private, MapServer: b.MapServer,
		XTRID: hex.EncodeToString(b.XTRID[:]), SiteID: b.SiteID, Since: jsondoc.KnownTime(b.Since),
		VerifiedAt: jsondoc.KnownTime(b.VerifiedAt), ExpiresAt: jsondoc.KnownTime(b.ExpiresAt), Moves: b.Moves,
		OftenChangedSince: jsondoc.KnownTime(b.OftenChangedSince),
	}
}
