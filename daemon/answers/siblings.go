// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/internal/jsondoc"
	"slices"
	"time"
)

// What `loci show siblings` is answered.

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
