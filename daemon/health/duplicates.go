// SPDX-License-Identifier: Apache-2.0

package health

// EID-Prefixes of this router that another one registers too.

import (
	"fmt"

	"loci/daemon/api"
)

func (f Facts) duplicates() (list []api.HealthProblem) {
	const remedy = "take it out of etr.local-eids at the router that should not have it; if both are of one site, list each other in etr.siblings, or set `merge-request: true` and a lisp-router-id at both"
	for _, d := range f.Duplicates {
		since := d.Since
		list = append(list, api.HealthProblem{
			Kind: "duplicate-eid", Urgency: api.UrgencyWarning, Subject: d.Prefix.String(), Since: &since,
			What:   fmt.Sprintf("another router has %s too: %s answers with its RLOC %s, and with none of this router", d.Prefix, d.From.Addr(), d.RLOC),
			Effect: "packets of other sites go to that router, always or in turn", Remedy: remedy,
		})
	}
	if f.MoreDuplicates > 0 {
		list = append(list, api.HealthProblem{
			Kind: "duplicate-eid", Urgency: api.UrgencyWarning, Subject: "EID-Prefixes", What: fmt.Sprintf("another router has %d more EID-Prefixes of this one", f.MoreDuplicates),
			Effect: "packets of other sites go to that router, always or in turn", Remedy: remedy,
		})
	}
	return list
}
