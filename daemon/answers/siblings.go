// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"context"
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
	"loci/daemon/eventloop"
	"loci/internal/jsondoc"
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
	answer := siblingsDocument(k.hand)
	for _, s := range k.list {
		answer.Siblings = append(answer.Siblings, siblingDocument(s))
	}
	return answer, err
}

func siblingsDocument(path control.SiblingPathStatus) api.Siblings {
	document := api.Siblings{
		Siblings: []api.Sibling{}, Reason: string(path.Why),
		Since: jsondoc.KnownTime(path.Since), UnansweredSince: jsondoc.KnownTime(path.UnansweredSince),
	}
	if path.To.IsValid() {
		document.ForwardingSibling = path.To.String()
	}
	return document
}

func siblingDocument(s control.SiblingStatus) api.Sibling {
	document := api.Sibling{
		Address: s.Address, Answers: s.Answers, HeardAt: jsondoc.KnownTime(s.HeardAt), Locators: []api.SiblingLocator{},
		CoreAskedAt: jsondoc.KnownTime(s.CoreAskedAt), CoreAnswers: s.CoreAnswers, DataAt: jsondoc.KnownTime(s.DataAt),
	}
	for _, l := range s.Locators {
		document.Locators = append(document.Locators, api.SiblingLocator{RLOC: l.RLOC, Reachable: l.Reachable})
	}
	return document
}
