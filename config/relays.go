// SPDX-License-Identifier: Apache-2.0

package config

// The roles that forward for others: RTR, PITR and PETR (RFC 6832, RFC 8060 s.4.6), and LISP-NAT. Each forwards only
// what its policies name: EID-Prefixes in an Instance-ID. How an RTR and a PITR find mappings is said by the section
// itr, as in ietf-lisp-itr.

import (
	"fmt"
	"net/netip"
	"slices"

	"loci/config/mobile"
	"loci/config/multipath"
	"loci/config/source"
	"loci/config/translation"
	"loci/lisp"
)

const (
	// maxRolePrefixes is how many prefixes all policies may have together.
	maxRolePrefixes = 4096
	// leastRelayBits is below what a prefix stands for everybody's addresses: 10.0.0.0/8 and fd00::/8 are sites'
	// own.
	leastRelayBits = 8
)

// RTR configures the Re-encapsulating Tunnel Router.
type RTR struct {
	Relay              []RelayPolicy            `key:"relay" max:"1024"`
	NATTraversal       *NATRelay                `key:"nat-traversal"`
	PathIdentification multipath.Identification `key:"path-identification" oneof:"pid,eld,off"`
}

// PITR configures the Proxy Ingress Tunnel Router (RFC 6832 s.5).
type PITR struct {
	Serve []PITRPolicy `key:"serve" required:"true" max:"1024"`
}

// PETR configures the Proxy Egress Tunnel Router (RFC 6832 s.6).
type PETR struct {
	Serve []RelayPolicy `key:"serve" required:"true" max:"1024"`
}

// RelayPolicy names the EIDs of an Instance-ID that a role is for. RTR: packets to or from them; PETR: from them.
type RelayPolicy struct {
	InstanceID  lisp.InstanceID `key:"instance-id"`
	EIDPrefixes PolicyEIDs      `key:"eid-prefixes" required:"true" max:"4096"` // in Instance-ID 0
}

// PITRPolicy names the EIDs of an Instance-ID that packets are encapsulated to, and whose packets: everybody's
// without Sources.
type PITRPolicy struct {
	InstanceID  lisp.InstanceID `key:"instance-id"`
	EIDPrefixes PolicyEIDs      `key:"eid-prefixes" required:"true" max:"4096"` // in Instance-ID 0
	Sources     []netip.Prefix  `key:"sources" max:"4096"`
}

// Role is RTR, PITR or PETR by the name of its section.
type Role string

// The roles.
const (
	RoleRTR  Role = "rtr"
	RolePITR Role = "pitr"
	RolePETR Role = "petr"
)

// Policy is a policy of one of the roles.
type Policy struct {
	Role Role
	PITRPolicy
	path string
}

// Policies are those of all roles, in the order of the model.
func (c *Config) Policies() (list []Policy) {
	if c.RTR != nil {
		for i, p := range c.RTR.Relay {
			list = append(list, Policy{RoleRTR, PITRPolicy{p.InstanceID, p.EIDPrefixes, nil}, fmt.Sprintf("rtr.relay[%d]", i)})
		}
	}
	if c.PITR != nil {
		for i, p := range c.PITR.Serve {
			list = append(list, Policy{RolePITR, p, fmt.Sprintf("pitr.serve[%d]", i)})
		}
	}
	if c.PETR != nil {
		for i, p := range c.PETR.Serve {
			list = append(list, Policy{RolePETR, PITRPolicy{p.InstanceID, p.EIDPrefixes, nil}, fmt.Sprintf("petr.serve[%d]", i)})
		}
	}
	return list
}

// relays reports whether this router forwards for others.
func (c *Config) relays() bool { return c.RTR != nil || c.PITR != nil || c.PETR != nil }

// resolvesForOthers reports whether a role beside the ITR looks mappings up.
func (c *Config) resolvesForOthers() bool { return c.RTR != nil || c.PITR != nil }

// EncapsulatesForSite reports whether this router is an ITR: the section itr alone does not make it one where it says
// how an RTR or a PITR finds mappings, and no EID is this site's.
func (c *Config) EncapsulatesForSite() bool {
	return c.ITR != nil && (c.ETR != nil || !c.resolvesForOthers())
}

func validateRelays(c *Config) {
	warnOfStackAtPITR(c)
	for _, role := range []struct {
		name Role
		on   bool
	}{{RoleRTR, c.RTR != nil}, {RolePITR, c.PITR != nil}} {
		if role.on && c.ITR == nil {
			c.fail(string(role.name), fmt.Sprintf("%s has no mappings to send packets by", role.name),
				"add itr: {map-resolvers: [ADDRESS]}, or itr.map-cache.mappings: that section is for an ITR, an RTR and a PITR alike")
		}
	}
	type subject struct {
		role     Role
		instance lisp.InstanceID
	}
	seen, prefixes := map[subject]bool{}, 0
	for _, p := range c.Policies() {
		if at := (subject{p.Role, p.InstanceID}); seen[at] {
			c.fail(p.path+".instance-id", fmt.Sprintf("instance-id: %s has an entry for Instance-ID %s already", p.Role, p.InstanceID), "put all prefixes of an Instance-ID into one entry")
		} else {
			seen[at] = true
		}
		prefixes += len(p.EIDPrefixes) + len(p.Sources)
		validatePolicy(c, p)
	}
	if prefixes > maxRolePrefixes {
		c.fail(c.Policies()[0].path, fmt.Sprintf("%d prefixes in rtr, pitr and petr", prefixes), fmt.Sprintf("want at most %d together", maxRolePrefixes))
	}
}

func validatePolicy(c *Config, p Policy) {
	for i, e := range p.EIDPrefixes {
		path := fmt.Sprintf("%s.eid-prefixes[%d]", p.path, i)
		if !e.EID().IsIP() {
			c.fail(path, fmt.Sprintf("eid-prefixes: %s: packets of such EIDs are not forwarded", e), "want IPv4 and IPv6 prefixes")
			continue
		}
		for j, other := range p.EIDPrefixes {
			switch {
			case j < i && other == e:
				c.fail(path, fmt.Sprintf("eid-prefixes: %s stands here twice", e), "remove one of the two")
			case other != e && other.Covers(e):
				c.warn(path, fmt.Sprintf("eid-prefixes: %s is inside %s of the same entry", e, other), "the wider one alone means the same")
			}
		}
		validateOwnPolicy(c, p, e, path)
		warnOfOpenRelay(c, p, e, path)
	}
	if at, twice := firstTwice(p.Sources); twice {
		c.fail(fmt.Sprintf("%s.sources[%d]", p.path, at), fmt.Sprintf("sources: %s stands here twice", p.Sources[at]), "remove one of the two")
	}
	warnOfForgottenSources(c, p)
}

// validateOwnPolicy compares a prefix with this site's EIDs, which always come first.
func validateOwnPolicy(c *Config, p Policy, e lisp.Prefix, path string) {
	if c.ETR == nil {
		return
	}
	own, ok := c.own.covering(inInstance(p.InstanceID, e))
	if !ok {
		return
	}
	message := fmt.Sprintf("eid-prefixes: %s is inside this site's EID-Prefix %s", e, c.ETR.LocalEIDs[own].Prefix())
	if p.Role == RolePITR {
		c.warn(path, message, "packets to it go to the site as they are: the entry does nothing there")
		return
	}
	c.fail(path, message, fmt.Sprintf("want prefixes of other sites: what is this site's is etr's, not %s's", p.Role))
}

// warnOfStackAtPITR warns of interfaces whose packets the host's IP forwarding gets first: behind it those of EIDs
// alone are encapsulated.
func warnOfStackAtPITR(c *Config) {
	for i, site := range c.Interfaces.Site {
		if c.PITR != nil && site.Forwarding == ForwardingStack {
			c.warn(fmt.Sprintf("interfaces.site[%d].forwarding", i), "forwarding: stack hides the packets of hosts outside LISP from the PITR: those that come in there leave natively",
				"use fast there, or list it under core")
		}
	}
}

// warnOfOpenRelay warns of a policy by which everybody's packets are forwarded.
func warnOfOpenRelay(c *Config, p Policy, e lisp.Prefix, path string) {
	limited := len(p.Sources) > 0 && !slices.ContainsFunc(p.Sources, func(s netip.Prefix) bool { return s.Bits() < leastRelayBits })
	if e.Bits() >= leastRelayBits || limited {
		return
	}
	c.warn(path, fmt.Sprintf("eid-prefixes: %s makes this router an open relay: %s", e, map[Role]string{
		RoleRTR:  "it relays packets of anybody to anybody",
		RolePITR: "it encapsulates packets of anybody",
		RolePETR: "it forwards packets of any source, forged ones too",
	}[p.Role]), map[Role]string{
		RoleRTR:  "name the EID-Prefixes of the sites that it relays for",
		RolePITR: "name the EID-Prefixes of the sites that it serves, or limit sources",
		RolePETR: "name the EID-Prefixes of the sites that it serves",
	}[p.Role])
}

// warnOfForgottenSources warns of EIDs of a family of which no source is allowed.
func warnOfForgottenSources(c *Config, p Policy) {
	if len(p.Sources) == 0 {
		return
	}
	var named families
	for _, s := range p.Sources {
		named.add(s.Addr().Is4())
	}
	for i, e := range p.EIDPrefixes {
		if is4 := e.Kind() == lisp.EIDIPv4; e.EID().IsIP() && (is4 && !named.ipv4 || !is4 && !named.ipv6) {
			c.warn(p.path+".sources", fmt.Sprintf("%s: no %s prefix stands here, so that no packet to %s is encapsulated",
				source.Label(p.path+".sources"), familyName(is4), p.EIDPrefixes[i]), "add sources of that family, or remove the EID-Prefix")
			return
		}
	}
}

// validateMobileNode compares the mobile node with the roles.
func validateMobileNode(c *Config) {
	if c.MobileNode == nil {
		return
	}
	c.MobileNode.Check(mobile.Surroundings{
		ITR: c.ITR != nil, EIDPrefixes: c.ETR.EIDPrefixes(), SourceRoutes: c.Datapath.SourceRoutes,
		ProxyETRs:   c.ITR != nil && len(c.setOf(c.ITR.ProxyETRs)) > 0,
		AlwaysByRTR: c.ETR != nil && c.ETR.NATTraversal.RTR == RTRAlways,
	}, c.fail, c.warn)
}

// translatedSite is what LISP-NAT is checked against.
func translatedSite(interfaces []SiteInterface, etr *ETR, engine EngineChoice) translation.Site {
	site := translation.Site{Interfaces: len(interfaces) > 0, EIDPrefixes: etr.EIDPrefixes()}
	for _, i := range interfaces {
		if i.Forwarding == ForwardingFast && engine != EngineUser {
			site.Fast = i.Interface.String()
		}
	}
	return site
}

// EIDPrefixes are the IP prefixes of this site in Instance-ID 0, whose packets have the host's routing table.
func (e *ETR) EIDPrefixes() (list []netip.Prefix) {
	for i := 0; e != nil && i < len(e.LocalEIDs); i++ {
		if l := e.LocalEIDs[i]; l.InstanceID == 0 && l.EID.EID().IsIP() {
			list = append(list, l.EID.Netip())
		}
	}
	return list
}
