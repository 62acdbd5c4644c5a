// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"encoding/hex"
	"net/netip"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/internal/jsondoc"
)

// What `loci show nat` is answered.

// maxNATBindings bounds the bindings that are listed.
const maxNATBindings = 1000

// NAT answers `loci show nat`.
func (a *Answers) NAT(ctx context.Context) (api.NAT, error) {
	type known struct {
		node     *control.NAT
		bindings []control.NATBinding
		count    int
	}
	k, err := eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) known {
		list, count := node.NATBindings(maxNATBindings)
		return known{node.NAT(), list, count}
	})
	answer := natDocument(k.node)
	answer.BindingCount = k.count
	for _, b := range k.bindings {
		answer.Bindings = append(answer.Bindings, natBindingDocument(b))
	}
	return answer, err
}

func natDocument(n *control.NAT) api.NAT {
	document := api.NAT{Views: []api.NATView{}, Bindings: []api.NATBinding{}}
	if n == nil {
		return document
	}
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
	if n.RTR.IsValid() {
		document.RTR = &api.NATRTR{
			Address: n.RTR, Since: jsondoc.KnownTime(n.Since), KeepaliveSeconds: max(n.Keepalive, 0).Seconds(),
			LastKeepaliveAt: jsondoc.KnownTime(n.LastKeepaliveAt), ConfirmedAt: jsondoc.KnownTime(n.ConfirmedAt),
			Silent: n.Silent, BindingsLost: n.BindingsLost,
		}
	}
	return document
}

func natBindingDocument(b control.NATBinding) api.NATBinding {
	return api.NATBinding{
		EIDPrefix: b.Prefix, SeenAs: b.Seen.String(), Private: b.Private, MapServer: b.MapServer,
		XTRID: hex.EncodeToString(b.XTRID[:]), SiteID: b.SiteID, Since: jsondoc.KnownTime(b.Since),
		VerifiedAt: jsondoc.KnownTime(b.VerifiedAt), ExpiresAt: jsondoc.KnownTime(b.ExpiresAt), Moves: b.Moves,
	}
}
