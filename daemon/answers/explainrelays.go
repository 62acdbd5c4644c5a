// SPDX-License-Identifier: Apache-2.0

package answers

// What an RTR, a PITR or a PETR would do with packets to a destination, by its policy (RFC 6832, RFC 8060 s.4.6). An own EID comes
// before all of them.

import (
	"loci/daemon/api"
	"loci/dataplane"
)

// explainRelays says of each role of this router whether it takes the packets. Where none does, nothing else is to be said.
func (x *explainer) explainRelays() {
	if x.answer.Outcome != "" || !x.query.EID.IsIP() {
		return
	}
	rtr := x.explainRegistered() || x.explainRole(dataplane.RoleRTR, x.explainRTR)
	pitr := x.explainRole(dataplane.RolePITR, x.explainPITR)
	petr := x.explainRole(dataplane.RolePETR, x.explainPETR)
	switch {
	case x.fromSite || rtr || pitr || len(x.answer.Roles) == 0: // no role in this Instance-ID
	case petr:
		x.answer.Outcome = api.OutcomeNative
	case !x.query.From.IsZero():
		x.answer.Outcome = api.OutcomeNotInPolicy
		x.say("so a packet from %s is dropped as not-in-policy where it comes from the core, and goes its plain way where it comes from a host", x.query.From)
	}
}

// explainRegistered says that a router behind a NAT has registered destination or source by this RTR.
func (x *explainer) explainRegistered() (takes bool) {
	const by = "a router behind a NAT has registered the %s by this RTR (`loci show nat`)"
	switch {
	case x.entry != nil && x.entry.Registered:
		x.say("rtr: packets to it that come from the core are relayed: "+by, "destination")
	case x.from != nil && x.from.Registered:
		x.say("rtr: a packet from %s that comes from the core is relayed: "+by, x.query.From, "source")
	default:
		return false
	}
	x.answer.Roles = append(x.answer.Roles, api.ExplainedRole{Role: dataplane.RoleRTR.String(), Takes: true})
	return true
}

// explainRole notes whether a role that this router has takes the packets.
func (x *explainer) explainRole(role dataplane.Role, explain func(*dataplane.RolePolicy) bool) bool {
	p := x.settings.PolicyOf(role, x.query.InstanceID)
	if p == nil {
		return false
	}
	takes := explain(p)
	x.answer.Roles = append(x.answer.Roles, api.ExplainedRole{Role: role.String(), Takes: takes})
	return takes
}

// coversSource reports whether a policy names the source of the flow, if one was named.
func (x *explainer) coversSource(p *dataplane.RolePolicy) bool {
	return x.query.From.IsIP() && p.Covers(x.query.From.Addr())
}

func (x *explainer) explainRTR(p *dataplane.RolePolicy) (takes bool) {
	switch {
	case p.Covers(x.query.EID.Addr()):
		x.say("rtr: packets to it that come from the core are relayed: the policy names the destination")
		return true
	case x.coversSource(p):
		x.say("rtr: a packet from %s that comes from the core is relayed: the policy names the source", x.query.From)
		return true
	case x.query.From.IsZero():
		x.say("rtr: the policy does not name it: packets to it that come from the core are relayed from EIDs of the policy alone")
		return true
	}
	x.say("rtr: a packet from %s is not relayed: the policy names neither source nor destination", x.query.From)
	return false
}

func (x *explainer) explainPITR(p *dataplane.RolePolicy) (takes bool) {
	switch {
	case !p.Covers(x.query.EID.Addr()):
		x.say("pitr: packets of hosts outside LISP to it go their plain way: the policy does not name it")
		return false
	case x.query.From.IsIP() && !p.AllowsSource(x.query.From.Addr()):
		x.say("pitr: a packet from %s goes its plain way: sources does not name it", x.query.From)
		return false
	case len(p.Sources) > 0 && x.query.From.IsZero():
		x.say("pitr: packets of hosts outside LISP to it are encapsulated, if sources names the host")
	default:
		x.say("pitr: packets of hosts outside LISP to it are encapsulated: the policy names it")
	}
	return true
}

func (x *explainer) explainPETR(p *dataplane.RolePolicy) (takes bool) {
	switch {
	case x.coversSource(p):
		x.say("petr: a packet from %s that comes from the core is forwarded natively, unless an RTR relays it: the policy names the source", x.query.From)
		return true
	case x.query.From.IsZero():
		x.say("petr: packets to it that come from the core are forwarded natively from EIDs of the policy alone, unless an RTR relays them")
		return true
	}
	x.say("petr: a packet from %s is not forwarded: the policy does not name the source", x.query.From)
	return false
}
