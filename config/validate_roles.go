// SPDX-License-Identifier: Apache-2.0

package config

// The checks of the four roles: the EID-Prefixes, keys and peers of each.

import (
	"fmt"
	"net/netip"
	"slices"

	"loci/config/codec"
	"loci/config/source"
	"loci/config/translation"
	"loci/lisp"
)

// shortKeyOctets is below what takes long to guess; RFC 9301 s.5.6 sets no limit.
const shortKeyOctets = 8

func validateKeys(c *Config) {
	for _, k := range c.keys() {
		switch {
		case k.Value.IsZero() && k.File == "":
			c.fail(k.path, "the key has no value", "want auth-key-value or auth-key-file")
		case k.File != "" && c.literal(k.path):
			c.fail(k.path, "the key has both auth-key-value and auth-key-file", "want one of them")
		case !k.Value.IsZero() && len(k.Value.value) < shortKeyOctets:
			c.warn(k.path, fmt.Sprintf("the key has %d octets only", len(k.Value.value)), "8 can be guessed, 32 random ones cannot: openssl rand -hex 32")
		default:
			warnOfKey(c, k)
		}
	}
}

// literal reports whether the file itself gives the key's value.
func (c *Config) literal(path string) bool {
	return c.source.Has(path + "." + source.SecretKey)
}

const noResolver, addResolver = "itr has no Map-Resolver to ask", "add map-resolvers: [ADDRESS], or map-cache.mappings"

// NeedsResolver is the problem of an ITR that has no mappings, for a process with the control plane; nil for none.
func (c *Config) NeedsResolver() error {
	if c.ITR == nil || len(c.ITR.MapResolvers) > 0 || c.MapResolver != nil || len(c.ITR.MapCache.Mappings) > 0 {
		return nil
	}
	return c.Problem(noResolver+": "+addResolver+", or run with --planes data", "itr")
}

func validateITR(c *Config) {
	if c.ITR == nil {
		return
	}
	itr := c.ITR
	if c.ETR == nil && !c.resolvesForOthers() {
		c.warn("itr", "itr knows no EID-Prefix of this site", "only packets from this site's EIDs are encapsulated: add etr: {local-eids: [{eid: PREFIX}]}; without map-servers nothing is registered")
	}
	if len(itr.MapResolvers) == 0 && c.MapResolver == nil && len(itr.MapCache.Mappings) == 0 {
		if c.Datapath.MappingSocket == nil && c.Datapath.Lispers == nil {
			c.fail("itr", noResolver, addResolver)
		} else {
			c.warn("itr", noResolver, "this file is for `loci run --planes data` alone")
		}
	}
	validatePeers(c, itr.MapResolvers, "itr.map-resolvers[%d]")
	validateRemoteLocators(c, itr.ProxyETRs, "itr.proxy-etrs")
	warnOfUnreachableFamilies(c)
	validateProbing(c)
	validateLocatorPolicies(c)
	validateMisses(c)
	site := translatedSite(c.Interfaces.Site, c.ETR, c.Datapath.Engine)
	site.ProxyETRs = len(c.setOf(itr.ProxyETRs)) > 0
	translation.Check(itr.LISPNAT, site, c.fail, c.warn)
	if itr.Wait.PacketsPerDestination > itr.Wait.Packets {
		c.fail("itr.wait.packets-per-destination", "packets-per-destination is more than packets", "want at most what may wait in all")
	}
	if n := len(itr.MapCache.Mappings); n > itr.MapCache.Limit {
		c.fail("itr.map-cache.limit", fmt.Sprintf("limit: %d is less than the static mappings, %d", itr.MapCache.Limit, n), "want room for those and for what is asked for")
	}
	seen := map[lisp.Prefix]bool{}
	for i, m := range itr.MapCache.Mappings {
		path := fmt.Sprintf("itr.map-cache.mappings[%d]", i)
		validateStatic(c, m, path)
		if seen[m.Prefix()] {
			c.fail(path+".eid", fmt.Sprintf("eid: %s stands in mappings twice", m.Prefix()), "remove one of the two")
		}
		seen[m.Prefix()] = true
	}
}

func validateStatic(c *Config, m StaticMapping, path string) {
	positive := m.RLOCs.Name != "" || len(m.RLOCs.Locators) > 0
	switch {
	case positive && m.Action != nil:
		c.fail(path+".map-reply-action", "map-reply-action: the mapping has locators, which come first", "want either rlocs or map-reply-action")
	case !positive && m.Action == nil:
		c.fail(path, "the mapping has neither rlocs nor map-reply-action", "want one of them")
	}
	validateRemoteLocators(c, m.RLOCs, path+".rlocs")
	validateStaticPlace(c, m, path)
}

// leastOwnBits is what tells the EID-Prefix of a site from one that stands for all others.
const leastOwnBits = 8

// validateStaticPlace compares a static mapping with this site's EIDs and with its own RLOCs.
func validateStaticPlace(c *Config, m StaticMapping, path string) {
	if c.ETR != nil {
		switch own, ok := c.own.covering(m.Prefix()); {
		case !ok:
		case c.ETR.LocalEIDs[own].Prefix() == m.Prefix():
			c.fail(fmt.Sprintf("etr.local-eids[%d].eid", own), fmt.Sprintf("eid: %s is in itr.map-cache.mappings as well", m.Prefix()), "an EID-Prefix is this site's or another's")
		default:
			c.fail(path+".eid", fmt.Sprintf("eid: %s is inside this site's EID-Prefix %s: the mapping would never be used", m.Prefix(), c.ETR.LocalEIDs[own].Prefix()),
				"packets to it stay in the site: want an EID-Prefix of another site, or narrow local-eids")
		}
	}
	for i, l := range m.RLOCs.Locators {
		if l.Address.IsValid() && m.InstanceID == 0 && m.EID.Bits() >= leastOwnBits && m.EID.Contains(0, lisp.EIDFromAddr(l.Address)) {
			c.warn(fmt.Sprintf("%s.rlocs[%d].address", path, i), fmt.Sprintf("address: RLOC %s is inside the EID-Prefix %s that it is for", l.Address, m.EID), "want the address of the other site's router in the core")
		}
	}
}

// validateRemoteLocators refuses interfaces where locators are other systems'.
func validateRemoteLocators(c *Config, r RLOCs, path string) {
	for i, l := range c.setOf(r) {
		if l.Interface != "" {
			c.fail(fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("%s: %s is an interface of this host", source.Label(path), l), "want the addresses of the other site's routers")
		}
	}
}

// setOf is the locators that a section itself names.
func (c *Config) setOf(r RLOCs) []Locator {
	if r.Name != "" {
		return c.LocatorSets[r.Name]
	}
	return r.Locators
}

// validatePeers checks addresses of other systems; the path has a %d.
func validatePeers(c *Config, peers []netip.AddrPort, path string) {
	seen := map[netip.AddrPort]bool{}
	for i, peer := range peers {
		at := fmt.Sprintf(path, i)
		if full := c.withPort(peer); seen[full] {
			c.fail(at, fmt.Sprintf("%s: %s stands here twice", source.Label(at), peerText(peer)), "remove one of the two")
		} else {
			seen[full] = true
		}
		validatePeer(c, peer, at)
	}
}

func validatePeer(c *Config, peer netip.AddrPort, at string) {
	if own, ok := c.ownPrefixOf(peer.Addr()); ok {
		c.fail(at, fmt.Sprintf("%s: %s is inside the site's own EID-Prefix %s", source.Label(at), peerText(peer), own), "want an RLOC: the mapping system must be reached without LISP")
	}
}

// peerText is the address, with the port where the file gives one.
func peerText(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}

func validateETR(c *Config) {
	if c.ETR == nil {
		return
	}
	validateMapServers(c)
	validateMerging(c)
	validateQuickRegistration(c)
	validateSiblings(c)
	if len(c.ETR.LocalEIDs) == 0 {
		c.fail("etr", "etr has no EID-Prefix of this site", "add local-eids: [{eid: PREFIX}]")
	}
	if len(c.ETR.MapServers) == 0 && c.ITR == nil {
		c.warn("etr", "etr registers nowhere", "other sites cannot find this one: add map-servers")
	}
	seen := map[lisp.Prefix]bool{}
	for i, l := range c.ETR.LocalEIDs {
		path := fmt.Sprintf("etr.local-eids[%d]", i)
		if seen[l.Prefix()] {
			c.fail(path+".eid", fmt.Sprintf("eid: %s stands in local-eids twice", l.Prefix()), "remove one of the two")
		}
		seen[l.Prefix()] = true
		validateLocalEID(c, l, path)
		validateSiteName(c, l.Site, path+".site", "map-servers", func() bool {
			return slices.ContainsFunc(c.ETR.MapServers, func(m MapServerRef) bool { return m.Site == l.Site })
		})
	}
	validateInstances(c)
	validateOwnLocators(c)
}

func validateMapServers(c *Config) {
	bySite := map[string]bool{}
	for i, m := range c.ETR.MapServers {
		path := fmt.Sprintf("etr.map-servers[%d]", i)
		validatePeer(c, m.Address, path+".ms-address")
		validateRegistration(c, m, path)
		identity := m.Site + " " + c.withPort(m.Address).String()
		if bySite[identity] {
			c.fail(path+".ms-address", fmt.Sprintf("ms-address: %s stands here twice for one site", peerText(m.Address)), "remove one of the two, or give each its site")
		}
		bySite[identity] = true
		validateKeyIDs(c, m.Keys, path, "Map-Server")
		validateSiteName(c, m.Site, path+".site", "local-eids", func() bool {
			return slices.ContainsFunc(c.ETR.LocalEIDs, func(l LocalEID) bool { return l.Site == m.Site })
		})
	}
}

// validateSiteName warns of an EID-Prefix or a Map-Server whose site the other list lacks.
func validateSiteName(c *Config, site, path, others string, has func() bool) {
	switch {
	case site != "" && !codec.ValidName(site):
		c.fail(path, fmt.Sprintf("site: %q is not a name", site), codec.NameHint)
	case site != "" && !has():
		c.warn(path, fmt.Sprintf("site: nothing in %s is of site %s", others, site), "EID-Prefixes are registered with the Map-Servers that name the same site")
	}
}

// unforwarded are the EIDs whose packets forward.RoutableUnicast refuses.
var unforwarded = []lisp.Prefix{
	lisp.MustParsePrefix("0.0.0.0/8"), lisp.MustParsePrefix("127.0.0.0/8"), lisp.MustParsePrefix("169.254.0.0/16"), lisp.MustParsePrefix("224.0.0.0/3"),
	lisp.MustParsePrefix("::/127"), lisp.MustParsePrefix("fe80::/10"), lisp.MustParsePrefix("ff00::/8"),
}

func validateLocalEID(c *Config, l LocalEID, path string) {
	if l.EID.Bits() == 0 {
		c.fail(path+".eid", fmt.Sprintf("eid: %s covers every EID", l.EID), "want the prefix of this site alone")
	}
	if kind := l.EID.Kind(); kind != lisp.EIDIPv4 && kind != lisp.EIDIPv6 {
		c.warn(path+".eid", fmt.Sprintf("eid: %s is registered, but packets of such EIDs are not forwarded", l.EID), "the data plane forwards IPv4 and IPv6")
	} else if slices.ContainsFunc(unforwarded, func(p lisp.Prefix) bool { return p.Covers(l.EID) }) {
		c.warn(path+".eid", fmt.Sprintf("eid: %s is registered, but packets of such EIDs are not forwarded", l.EID),
			"the data plane forwards unicast packets of more than local scope")
	}
}

// validateInstances compares the Instance-IDs of site interfaces and EIDs.
func validateInstances(c *Config) {
	instances := map[lisp.InstanceID]bool{}
	for _, site := range c.Interfaces.Site {
		instances[site.InstanceID] = true
	}
	for i, l := range c.ETR.LocalEIDs {
		if len(c.Interfaces.Site) > 0 && !instances[l.InstanceID] {
			path := fmt.Sprintf("etr.local-eids[%d]", i)
			c.warn(path, fmt.Sprintf("no site interface has the Instance-ID %s of %s", l.InstanceID, l.EID), "give it to one: site: [{interface: NAME, instance-id: "+l.InstanceID.String()+"}]")
		}
	}
}

// validateOwnLocators refuses locators that only LISP could reach: an RLOC inside
// the site's own EID-Prefix would be encapsulated towards itself.
func validateOwnLocators(c *Config) {
	checked := map[string]bool{}
	for _, r := range c.rlocs() {
		path := r.path
		if r.Name != "" {
			path = source.Join("locator-sets", r.Name)
		}
		if checked[path] {
			continue
		}
		checked[path] = true
		for i, l := range c.setOf(r.RLOCs) {
			if own, ok := c.ownPrefixOf(l.Address); ok && l.Address.IsValid() {
				c.fail(fmt.Sprintf("%s[%d].address", path, i), fmt.Sprintf("RLOC %s is inside the site's own EID-Prefix %s", l.Address, own), "want an address of the core")
			}
		}
	}
	for i, core := range c.Interfaces.Core {
		if own, ok := c.ownPrefixOf(core.Interface.Address); ok && core.Interface.Address.IsValid() {
			c.fail(fmt.Sprintf("interfaces.core[%d]", i), fmt.Sprintf("core interface %s is inside the site's own EID-Prefix %s", core.Interface, own), "want an address of the core")
		}
	}
}

func validateMapServer(c *Config) {
	if c.MapServer == nil {
		return
	}
	if len(c.MapServer.Sites) == 0 {
		c.warn("map-server", "map-server has no sites", "no ETR can register: add sites")
	}
	validateExpiry(c)
	names, ids, keys := map[string]bool{}, map[uint64]bool{}, map[Secret]string{}
	for i, s := range c.MapServer.Sites {
		path := fmt.Sprintf("map-server.sites[%d]", i)
		switch {
		case s.Name == "" && s.SiteID == 0:
			c.fail(path, "the site has neither name nor site-id", "want one of them, to tell it from others")
		case names[s.Label()]:
			c.fail(path, fmt.Sprintf("site %s stands here twice", s.Label()), "give the second one another name, or add its prefixes to the first")
		case s.SiteID != 0 && ids[s.SiteID]:
			c.fail(path+".site-id", fmt.Sprintf("site-id: %d is the one of an earlier site", s.SiteID), "want another")
		}
		names[s.Label()], ids[s.SiteID] = true, true
		validateSiteKeys(c, s, path, keys)
		validateSitePolicy(c, s.Policy, path+".policy")
	}
	validateSitePrefixes(c)
}

// Label names the site in messages: its name, or "site-ID".
func (s Site) Label() string {
	if s.Name != "" {
		return s.Name
	}
	return fmt.Sprintf("site-%d", s.SiteID)
}

// validateSiteKeys checks that keys can be told apart, and that no two sites share
// one: a pre-shared key MUST be unique per site (RFC 9301 s.5.6).
func validateSiteKeys(c *Config, s Site, path string, owners map[Secret]string) {
	validateKeyIDs(c, s.Keys, path, "site")
	for i, k := range s.Keys {
		at := fmt.Sprintf("%s.authentication-keys[%d]", path, i)
		owner, shared := owners[k.Value]
		if shared && owner != s.Label() && !k.Value.IsZero() {
			c.warn(at, fmt.Sprintf("sites %s and %s have the same key", owner, s.Label()), "each could register as the other: RFC 9301 s.5.6 demands a key for each site")
		}
		owners[k.Value] = s.Label()
	}
}

func validateKeyIDs(c *Config, keys []Key, path, of string) {
	ids := map[uint8]bool{}
	for i, k := range keys {
		if ids[k.ID] {
			c.fail(fmt.Sprintf("%s.authentication-keys[%d]", path, i), fmt.Sprintf("two keys of the %s have auth-key-id %d", of, k.ID), "give each its own: a message names its key by it")
		}
		ids[k.ID] = true
	}
}

// placedPrefix is an EID-Prefix of a site with the path it stands at.
type placedPrefix struct {
	EIDPrefix
	site int
	path string
}

// validateSitePrefixes finds EID-Prefixes that more than one site could register.
// In order of address and length, those that cover a prefix are a stack.
func validateSitePrefixes(c *Config) {
	var list, covering []placedPrefix
	for i, s := range c.MapServer.Sites {
		for j, p := range s.EIDPrefixes {
			list = append(list, placedPrefix{p, i, fmt.Sprintf("map-server.sites[%d].eid-prefixes[%d].eid", i, j)})
		}
	}
	slices.SortStableFunc(list, func(a, b placedPrefix) int { return a.Prefix().Compare(b.Prefix()) })
	for _, p := range list {
		for len(covering) > 0 && !covering[len(covering)-1].Prefix().Covers(p.Prefix()) {
			covering = covering[:len(covering)-1]
		}
		if len(covering) > 0 {
			validateOverlap(c, covering[len(covering)-1], p)
		}
		covering = append(covering, p)
	}
}

func validateOverlap(c *Config, outer, inner placedPrefix) {
	owner := c.MapServer.Sites[outer.site].Label()
	switch {
	case outer.Prefix() == inner.Prefix():
		c.fail(inner.path, fmt.Sprintf("eid: %s is a prefix of site %s already", inner.Prefix(), owner), "one site registers an EID-Prefix")
	case outer.site != inner.site && outer.MoreSpecificsAccepted:
		c.fail(inner.path, fmt.Sprintf("eid: %s is inside %s, of which site %s may register more-specifics", inner.Prefix(), outer.Prefix(), owner), "both sites could register it: narrow one prefix, or switch more-specifics-accepted off")
	case outer.site != inner.site:
		c.warn(inner.path, fmt.Sprintf("eid: %s is inside %s of site %s", inner.Prefix(), outer.Prefix(), owner), "the more specific prefix wins")
	}
}

func validateMapResolver(c *Config) {
	if c.MapResolver == nil {
		return
	}
	if len(c.MapResolver.MapServers) == 0 && c.MapServer == nil {
		c.fail("map-resolver", "map-resolver has no Map-Server to ask", "add ms-address: [ADDRESS], or map-server to this file")
	}
	validateResolverRoutes(c)
	for i, m := range c.MapResolver.MapServers {
		path := fmt.Sprintf("map-resolver.ms-address[%d]", i)
		if own, ok := c.ownPrefixOf(m.Address.Addr()); ok {
			c.fail(path, fmt.Sprintf("ms-address: %s is inside the site's own EID-Prefix %s", peerText(m.Address), own), "want an RLOC: the mapping system must be reached without LISP")
		}
	}
}
