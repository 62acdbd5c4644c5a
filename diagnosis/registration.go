// SPDX-License-Identifier: Apache-2.0

package diagnosis

// Whether this site is registered: where it is not, other sites cannot answer, whatever else works.

import (
	"slices"
	"time"

	"loci/control"
	"loci/daemon/api"
)

// expiry is how long a Map-Server keeps a registration that is not refreshed, by default (RFC 9301 s.8.2).
const expiry = 3 * time.Minute

// addRegistration says that this site is not registered, by any of its Map-Servers, or that some EID-Prefixes are not.
func addRegistration(add func(Step), servers []api.MapServer) {
	var silent []string
	var lacking []string
	for _, m := range servers {
		lost := m.LackingCount > 0 && m.State == string(control.MapServerWaiting) && (m.LastNotifyAt == nil || time.Since(*m.LastNotifyAt) >= expiry)
		switch {
		case lost:
			silent = append(silent, m.Address)
		case m.State == string(control.MapServerRegistered):
			return // one is enough to be found
		}
		for _, l := range m.Lacking {
			if text := l.EIDPrefix.String(); !lost && m.State == string(control.MapServerPartial) && !slices.Contains(lacking, text) {
				lacking = append(lacking, text)
			}
		}
	}
	switch {
	case len(servers) > 0 && len(silent) == len(servers):
		add(Step{
			Name: LegRegistration, Subject: silent[0], Outcome: OutcomeFailed, Reason: "this site is not registered: no Map-Server acknowledges its Map-Registers, and other sites cannot find its EIDs",
			Remedy: "see `loci status` here, and at the Map-Server; `loci netcheck`",
		})
	case len(lacking) > 0:
		add(Step{
			Name: LegRegistration, Subject: lacking[0], Outcome: OutcomeFailed, Reason: "this EID-Prefix is not registered: the Map-Server does not acknowledge it, and other sites cannot find its EIDs",
			Remedy: "give it to this site at the Map-Server, or take it out of etr.local-eids: `loci status`",
		})
	}
}
