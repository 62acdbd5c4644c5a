// SPDX-License-Identifier: Apache-2.0

package answers

// What the control socket tells about this host: interfaces, own RLOCs, what it waits
// for, and what of the host's settings is in the way.

import (
	"context"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/internal/jsondoc"
)

// Interfaces answers `loci show interfaces`.
func (a *Answers) Interfaces(context.Context) (api.Interfaces, error) {
	p := a.State.InForce()
	answer := api.Interfaces{Interfaces: []api.InterfaceState{}, RLOCs: []api.OwnRLOC{}, Waiting: p.Waiting()}
	for _, i := range a.describeInterfaces(p.Interfaces) {
		link, present := p.Host.Link(i.Name)
		answer.Interfaces = append(answer.Interfaces, api.InterfaceState{
			Interface: i,
			Present:   present, Up: link.Up, Addresses: link.Addresses, Gateways: link.Gateways,
		})
	}
	for _, own := range p.Own {
		state := control.LocatorDown
		if own.Up {
			state = control.LocatorUp
		}
		answer.RLOCs = append(answer.RLOCs, api.OwnRLOC{
			RLOC: own.RLOC, Interface: own.Link, State: string(state), Reason: string(own.Reason), ChangedAt: own.ChangedAt,
		})
	}
	return answer, nil
}

// Siblings answers `loci show siblings`.
func (a *Answers) Siblings(ctx context.Context) (api.Siblings, error) {
	type known struct {
		list []control.SiblingStatus
		hand control.SiblingPathStatus
	}
	k, err := eventloop.Ask(ctx, a.Loop, func(node *control.Node, _ time.Time) known {
		return known{slices.Collect(node.Siblings()), node.SiblingPath()}
	})
	answer := api.Siblings{Siblings: []api.Sibling{}, Reason: string(k.hand.Why), Since: jsondoc.KnownTime(k.hand.Since), UnansweredSince: jsondoc.KnownTime(k.hand.UnansweredSince)}
	if k.hand.To.IsValid() {
		answer.ForwardingSibling = k.hand.To.String()
	}
	for _, s := range k.list {
		document := api.Sibling{
			Address: s.Address, Answers: s.Answers, HeardAt: jsondoc.KnownTime(s.HeardAt), Locators: []api.SiblingLocator{},
			CoreAskedAt: jsondoc.KnownTime(s.CoreAskedAt), CoreAnswers: s.CoreAnswers, DataAt: jsondoc.KnownTime(s.DataAt),
		}
		for _, l := range s.Locators {
			document.Locators = append(document.Locators, api.SiblingLocator{RLOC: l.RLOC, Reachable: l.Reachable})
		}
		answer.Siblings = append(answer.Siblings, document)
	}
	return answer, err
}
