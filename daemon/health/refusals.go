// SPDX-License-Identifier: Apache-2.0

package health

// What a Map-Server refuses. Senders of Map-Registers can be forged: a warning needs a key that fits, or the address
// of an ETR that registered before.

import (
	"fmt"

	"loci/control"
	"loci/daemon/api"
)

func (f Facts) refusals() (list []api.HealthProblem) {
	for _, r := range f.Refused {
		if r.KeyFits {
			list = append(list, refusedPrefix(r))
		} else {
			list = append(list, f.refusedETR(r))
		}
	}
	if o := f.RefusedOthers; o.Count > 0 {
		since := o.Since
		list = append(list, api.HealthProblem{
			Kind: "registration-refused", Urgency: api.UrgencyNotice, Subject: "Map-Registers", Since: &since,
			What:   fmt.Sprintf("%d Map-Registers of unknown senders were refused, the last one from %s: %s", o.Count, o.From, o.Detail),
			Effect: "what they register is not in force; anybody may have sent them",
			Remedy: "if a site of yours cannot register, compare its key, Key ID, algorithm and EID-Prefixes with map-server.sites",
		})
	}
	return list
}

// remediesOfRecord are what to do about a record that was refused, by its reason; each names a key of the
// configuration.
var remediesOfRecord = map[string]string{
	"more-specific": "set `more-specifics-accepted: true` on that EID-Prefix in map-server.sites, or register it as it is configured here",
	"site-table":    "raise max-registrations of the site, or register fewer EID-Prefixes",
}

// refusedPrefix is of a site that has the key.
func refusedPrefix(r control.RefusedRegistration) api.HealthProblem {
	since := r.Since
	p := api.HealthProblem{
		Kind: "registration-refused", Urgency: api.UrgencyWarning, Subject: r.Prefix.String(), Since: &since,
		What:   fmt.Sprintf("site %s registers %s from %s, which is refused: %s", r.Site, r.Prefix, r.From.Addr(), r.Detail),
		Effect: "other sites cannot find its EIDs by this registration; the key is right",
		Remedy: "give that EID-Prefix to the site in map-server.sites, or take it out of etr.local-eids at the site",
	}
	if remedy, ok := remediesOfRecord[r.Reason]; ok {
		p.Remedy = remedy
	}
	return p
}

// refusedETR is one that registered within a day, and of which nothing was taken since.
func (f Facts) refusedETR(r control.RefusedRegistration) api.HealthProblem {
	since := r.Since
	p := api.HealthProblem{
		Kind: "registration-refused", Urgency: api.UrgencyWarning, Subject: r.From.Addr().String(), Since: &since,
		What:   fmt.Sprintf("%d Map-Registers from %s, which has registered before, were refused and none was taken since %s: %s", r.Count, r.From.Addr(), f.clock(r.Since), r.Detail),
		Effect: "its registrations expire, and then other sites cannot find its EIDs",
		Remedy: "compare key, Key ID and algorithm at both ends",
	}
	if r.Site != "" {
		p.What = "site " + r.Site + ": " + p.What
	}
	if r.Reason == "replay" {
		p.Remedy = "its clock went back: set it right, or give it etr.nonce-file; `accept-any-nonce: true` of its site in map-server.sites takes any nonce, and replays too"
	}
	return p
}

// translated are registrations that came through a NAT.
func (f Facts) translated() (list []api.HealthProblem) {
	for _, r := range f.Translated {
		since := r.FirstRegisteredAt
		list = append(list, api.HealthProblem{
			Kind: "registration-behind-nat", Urgency: api.UrgencyWarning, Subject: r.Prefix.String(), Since: &since,
			What:   fmt.Sprintf("%s of site %s comes from %s, and all its RLOCs are private: a NAT is likely between", r.Prefix, r.Site, r.From.Addr()),
			Effect: "other sites send to RLOCs that they cannot reach",
			Remedy: "offer that router an RTR in map-server.rtrs, or give one of its core interfaces an address that other sites reach",
		})
	}
	return list
}
