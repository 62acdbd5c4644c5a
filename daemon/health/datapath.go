// SPDX-License-Identifier: Apache-2.0

package health

// Packets that are lost on the way to another site's router, though its control plane answers.

import (
	"fmt"
	"time"

	"loci/daemon/api"
	"loci/internal/jsondoc"
	"loci/lisp"
)

// DataPath is a path that loses packets, by the daemon's own checks.
type DataPath struct {
	EIDPrefix lisp.Prefix // one of the mappings by it
	RLOC      string      // of the other router
	Large     bool        // small packets pass
	Octets    int         // of the checks that are not answered
	Since     time.Time
	Towards   bool // packets still come from there
}

func (f Facts) dataPaths() (list []api.HealthProblem) {
	for _, d := range f.DataPaths {
		where := "between this router and " + d.RLOC
		if d.Towards {
			where = "towards " + d.RLOC + " (its packets still come)"
		}
		p := api.HealthProblem{Kind: "data-path-lost", Urgency: api.UrgencyCritical, Subject: d.RLOC, Since: jsondoc.KnownTime(d.Since)}
		if d.Large {
			p.Kind, p.Urgency = "path-mtu-black-hole", api.UrgencyWarning
			p.What = fmt.Sprintf("packets of %d octets are lost %s; smaller packets and control messages pass", d.Octets, where)
			p.Effect = fmt.Sprintf("large packets to %s are lost without a word: connections open, and stall", d.EIDPrefix)
			p.Remedy = "let ICMP (IPv6: Packet Too Big; IPv4: type 3 code 4) pass to the RLOCs, or lower the MTU of the core interface or of its route"
		} else {
			p.What = fmt.Sprintf("data packets are lost %s: checks of %d octets stay unanswered; control messages pass", where, d.Octets)
			p.Effect = fmt.Sprintf("packets to %s, or those that come back, are lost", d.EIDPrefix)
			p.Remedy = "let UDP port 4341 pass between the RLOCs in both directions: `loci netcheck` at both ends; `loci show counters` at the other router tells whether packets arrive there"
		}
		list = append(list, p)
	}
	if f.MoreDataPaths > 0 {
		list = append(list, api.HealthProblem{
			Kind: "data-path-lost", Urgency: api.UrgencyWarning, Subject: "data paths", What: fmt.Sprintf("%d more data paths lose packets", f.MoreDataPaths),
			Effect: "packets by them, or those that come back, are lost", Remedy: "`loci show locators` lists all",
		})
	}
	return list
}
