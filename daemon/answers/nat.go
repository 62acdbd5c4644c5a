// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// What `loci show nat` is answered.

// maxNATBindings bounds the bindings that are listed, and the hosts.
const maxNATBindings = 1000

// natPage bounds what one iteration lists.
const natPage = 512

// NAT answers `loci show nat`.
func (a *Answers) NAT(ctx context.Context) (api.NAT, error) {
	answer, err := a.NATSummary(ctx)
	if err != nil {
		return answer, err
	}
	bindings, err := firstNAT(ctx, a, (*control.Node).NATBindingsPage, func(a, b control.NATBinding) int {
		return cmp.Or(a.Prefix.Compare(b.Prefix), bytes.Compare(a.XTRID[:], b.XTRID[:]))
	})
	if err != nil {
		return answer, err
	}
	hosts, err := firstNAT(ctx, a, (*control.Node).NATHostsPage, control.NATHost.Compare)
	for _, b := range bindings {
		answer.Bindings = append(answer.Bindings, natBindingDocument(b))
	}
	for _, h := range hosts {
		answer.Hosts = append(answer.Hosts, natHostDocument(h))
	}
	answer.BindingCount = max(answer.BindingCount, len(bindings)) // some may be new
	answer.HostCount = max(answer.HostCount, len(hosts))
	return answer, err
}

// firstNAT are the first of a table, in that order.
func firstNAT[T any](ctx context.Context, a *Answers, list func(*control.Node, uint32, int) ([]T, uint32, bool), order func(a, b T) int) (first []T, err error) {
	type page struct {
		list []T
		next uint32
		more bool
	}
	for at := (page{more: true}); at.more; {
		from := at.next
		at, err = eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) (p page) {
			p.list, p.next, p.more = list(node, from, natPage)
			return p
		})
		if err != nil {
			return nil, err
		}
		first = append(first, at.list...)
		slices.SortFunc(first, order)
		first = first[:min(len(first), maxNATBindings)]
	}
	return first, nil
}

// NATSummary is how this router looks from outside, and how many bindings it has as an RTR.
func (a *Answers) NATSummary(ctx context.Context) (api.NAT, error) {
	type known struct {
		node         *control.NAT
		count, hosts int
	}
	k, err := eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) known {
		return known{node.NAT(), node.NATBindingCount(), node.NATHostCount()}
	})
	answer := natDocument(k.node)
	answer.BindingCount, answer.HostCount = k.count, k.hosts
	return answer, err
}

func natDocument(n *control.NAT) api.NAT {
	document := api.NAT{Views: []api.NATView{}, RTRs: []api.NATRTR{}, Unasked: []lisp.RLOC{}, Bindings: []api.NATBinding{}, Hosts: []api.NATHost{}}
	if n == nil {
		return document
	}
	document.OctetsSent = n.SentLastHour
	document.Unasked = append(document.Unasked, n.Unasked...)
	for _, v := range n.Views {
		view := api.NATView{
			Protocol: v.Protocol.String(), OftenChangedSince: jsondoc.KnownTime(v.OftenChangedSince),
			MapServer: v.MapServer.String(), RLOC: v.Local, AnsweredAt: jsondoc.KnownTime(v.AnsweredAt),
			BehindNAT: v.Behind, RTRs: append([]netip.Addr{}, v.RTRs...),
		}
		if v.Seen.IsValid() {
			view.SeenAs = v.Seen.String()
		}
		if v.NAT64.IsValid() {
			view.NAT64Prefix = v.NAT64.String()
		}
		document.Views = append(document.Views, view)
	}
	for _, r := range n.RTRs {
		document.RTRs = append(document.RTRs, natRTRDocument(r, n.Keepalive))
	}
	return document
}

func natRTRDocument(r control.NATRTR, keepalive time.Duration) api.NATRTR {
	document := api.NATRTR{
		Protocol: r.Protocol.String(), Address: r.Address, RLOC: r.Local, Since: jsondoc.KnownTime(r.Since),
		KeepaliveSeconds: max(keepalive, 0).Seconds(),
		LastKeepaliveAt:  jsondoc.KnownTime(r.LastKeepaliveAt), ConfirmedAt: jsondoc.KnownTime(r.ConfirmedAt),
		Silent: r.Silent, BindingsLost: r.BindingsLost,
		OftenChangedSince: jsondoc.KnownTime(r.OftenChangedSince),
	}
	if r.IPv4.IsValid() {
		document.IPv4 = &r.IPv4
	}
	return document
}

func natBindingDocument(b control.NATBinding) api.NATBinding {
	return api.NATBinding{
		Protocol: api.NATProtocolErmagan, EIDPrefix: b.Prefix, RLOCs: natRLOCs(b.RLOCs), MapServer: b.MapServer,
		XTRID: hex.EncodeToString(b.XTRID[:]), SiteID: b.SiteID, Since: jsondoc.KnownTime(b.Since),
		VerifiedAt: jsondoc.KnownTime(b.VerifiedAt), ExpiresAt: jsondoc.KnownTime(b.ExpiresAt), Moves: b.Moves,
		Silent: b.Silent, OftenChangedSince: jsondoc.KnownTime(b.OftenChangedSince),
	}
}

func natRLOCs(list []control.NATRLOC) []api.NATRLOC {
	rlocs := []api.NATRLOC{}
	for _, w := range list {
		rlocs = append(rlocs, api.NATRLOC{SeenAs: w.Seen.String(), Private: w.Private, Priority: w.Priority, Weight: w.Weight})
	}
	return rlocs
}

func natHostDocument(h control.NATHost) api.NATHost {
	return api.NATHost{
		Protocol: api.NATProtocolSimple, OftenChangedSince: jsondoc.KnownTime(h.OftenChangedSince),
		Name: h.Name, SeenAs: seenAs(h.Seen), Since: jsondoc.KnownTime(h.Since),
		HeardAt:   jsondoc.KnownTime(h.HeardAt),
		ExpiresAt: jsondoc.KnownTime(h.ExpiresAt), Moves: h.Moves, Mappings: h.Mappings,
	}
}

// seenAs is an address and port, only the address where no port is known.
func seenAs(seen netip.AddrPort) string {
	if seen.Port() == 0 {
		return seen.Addr().String()
	}
	return seen.String()
}
