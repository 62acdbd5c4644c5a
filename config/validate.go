// SPDX-License-Identifier: Apache-2.0

package config

// What the values mean together: roles have what they need, names are known,
// nothing is said twice. Every problem points at the value that is to change.

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"loci/lisp"
)

func (c *Config) validate() {
	if c.ETR != nil {
		c.own = newOwnEIDs(c.ETR.LocalEIDs)
		defer func() { c.own = ownEIDs{} }()
	}
	c.validateRoles()
	c.validatePublicInternet()
	c.validateInterfaces()
	c.validateLocatorSets()
	c.validateKeys()
	c.validateITR()
	c.validateETR()
	c.validateMapServer()
	c.validateMapResolver()
	c.validateLists()
	c.validatePaths()
	c.validateLocalAddresses()
	c.validateServers()
	c.validateGluedPorts()
	c.warnOfKnownXTRID()
}

func (c *Config) fail(path, message, hint string) { c.source.fail(path, message, hint) }
func (c *Config) warn(path, message, hint string) { c.source.warn(path, message, hint) }

func (c *Config) validateRoles() {
	switch {
	case c.ITR == nil && c.ETR == nil && c.MapServer == nil && c.MapResolver == nil:
		c.fail("", "no role is configured", "add itr, etr, map-server or map-resolver")
	case !c.UsesDataPlane() && len(c.Interfaces.Site)+len(c.Interfaces.Core) > 0:
		c.warn("interfaces", "interfaces: neither itr nor etr is configured", "a Map-Server and a Map-Resolver need no interfaces")
	}
	if c.RouterID != nil && c.ETR == nil {
		c.warn("lisp-router-id", "lisp-router-id: no etr is configured", "only Map-Registers carry it")
	}
}

func (c *Config) validateInterfaces() {
	if c.UsesDataPlane() && len(c.Interfaces.Core) == 0 {
		path, role := "etr", "etr"
		if c.ITR != nil {
			path, role = "itr", "itr"
		}
		c.fail(path, role+" needs an interface towards the core", "add interfaces: {core: [NAME]}")
	}
	if c.ITR != nil && len(c.Interfaces.Site) == 0 {
		c.warn("itr", "no interface leads to the site", "only this host's own packets are encapsulated; add interfaces: {site: [NAME]}")
	}
	seen := map[SiteInterface]string{}
	for i, site := range c.Interfaces.Site {
		path := fmt.Sprintf("interfaces.site[%d]", i)
		c.validateInterface(seen, SiteInterface{Interface: site.Interface, VLAN: site.VLAN}, path)
		c.validateVLAN(site, path)
	}
	for i, core := range c.Interfaces.Core {
		c.validateInterface(seen, SiteInterface{Interface: core.Interface}, fmt.Sprintf("interfaces.core[%d]", i))
	}
	c.validateStack()
}

// validateInterface knows an interface by its name and VLAN.
func (c *Config) validateInterface(seen map[SiteInterface]string, ref SiteInterface, path string) {
	if ref.Interface.Name == loopback || ref.Interface.Address.IsLoopback() {
		hint := "name the interface that leads to the hosts"
		if label(path) == "core" {
			hint = "name the interface that leads to the core; give an RLOC that stands at lo by rlocs and itr-rlocs: [{interface: lo}]"
		}
		c.fail(path, fmt.Sprintf("%s: %s is the loopback interface: no other system is behind it", label(path), ref), hint)
	}
	if ref.Interface.Name == c.Datapath.Interface {
		c.fail(path, fmt.Sprintf("%s is the interface that Loci makes itself", ref), "name another here, or change datapath.interface")
	}
	if first, twice := seen[ref]; twice {
		side, hint := label(first), "an interface leads either to the site or to the core"
		if side == label(path) {
			hint = "name each interface once there, and each VLAN of it"
		}
		c.fail(path, fmt.Sprintf("interface %s is in %s already", ref, side), hint)
		return
	}
	seen[ref] = path
}

func (c *Config) validateLocatorSets() {
	used := map[string]bool{}
	for _, r := range c.rlocs() {
		used[r.Name] = true
		if r.Name != "" {
			c.validateSetName(r)
		}
		if len(r.Locators) > 0 {
			c.validateLocators(r.Locators, r.path)
		}
	}
	for _, name := range sortedKeys(c.LocatorSets) {
		path := join("locator-sets", name)
		c.validateLocators(c.LocatorSets[name], path)
		if !used[name] {
			c.warn(path, fmt.Sprintf("locator-set %s is not used", name), "name it by rlocs, or remove it")
		}
	}
}

// placedRLOCs is a locator-set with the path it stands at.
type placedRLOCs struct {
	RLOCs
	path   string
	remote bool // of another site: interfaces make no sense
}

// rlocs lists every place where a locator-set is named or written out.
func (c *Config) rlocs() []placedRLOCs {
	var list []placedRLOCs
	if c.ITR != nil {
		list = append(list, placedRLOCs{RLOCs: c.ITR.RLOCs, path: "itr.itr-rlocs"}, placedRLOCs{c.ITR.ProxyETRs, "itr.proxy-etrs", true})
		for i, m := range c.ITR.MapCache.Mappings {
			list = append(list, placedRLOCs{m.RLOCs, fmt.Sprintf("itr.map-cache.mappings[%d].rlocs", i), true})
		}
	}
	if c.ETR != nil {
		for i, l := range c.ETR.LocalEIDs {
			list = append(list, placedRLOCs{RLOCs: l.RLOCs, path: fmt.Sprintf("etr.local-eids[%d].rlocs", i)})
		}
	}
	return list
}

func (c *Config) validateSetName(r placedRLOCs) {
	if _, ok := c.LocatorSets[r.Name]; ok {
		return
	}
	names := sortedKeys(c.LocatorSets)
	hint := "add it to locator-sets"
	if near := nearest(r.Name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	c.fail(r.path, fmt.Sprintf("%s: there is no locator-set %q", label(r.path), r.Name), hint)
}

func (c *Config) validateLocators(list []Locator, path string) {
	switch {
	case len(list) == 0:
		c.fail(path, label(path)+": the locator-set is empty", "want at least one locator")
	case len(list) > lisp.MaxLocators:
		c.fail(path, fmt.Sprintf("%s: %d locators", label(path), len(list)), fmt.Sprintf("want at most %d: a mapping holds no more", lisp.MaxLocators))
	}
	seen := map[Locator]bool{}
	for i, l := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		c.validateLocator(l, at)
		identity := Locator{Interface: l.Interface, Address: l.Address, AddressFamily: l.AddressFamily}
		if seen[identity] {
			c.fail(at, fmt.Sprintf("locator %s stands twice in one set", l), "remove one of the two")
		}
		seen[identity] = true
	}
	c.warnOfUnusedLocators(list, path)
}

// warnOfUnusedLocators warns of sets that other routers cannot use, or not by weight.
func (c *Config) warnOfUnusedLocators(list []Locator, path string) {
	isUsed := func(l Locator) bool { return l.Priority != lisp.PriorityUnused && l.Reachable }
	switch best := bestOf(list, isUsed); {
	case len(list) == 0:
	case slices.ContainsFunc(list, isUsed):
		if !slices.ContainsFunc(list, func(l Locator) bool { return isUsed(l) && l.Priority == best && l.Weight > 0 }) {
			c.warn(path, fmt.Sprintf("%s: all locators of the best priority, %d, have weight 0", label(path), best),
				"weight 0 switches nothing off: the senders choose how to share (RFC 9300 s.9). Want a weight above 0, or priority 255 to switch a locator off")
		}
	case !slices.ContainsFunc(list, func(l Locator) bool { return l.Priority != lisp.PriorityUnused }):
		c.warn(path, label(path)+": every locator has priority 255", "that priority is never used for unicast packets: nobody reaches these EIDs")
	default:
		c.warn(path, label(path)+": every locator has priority 255 or reachable: false", "neither is used for unicast packets: nobody reaches these EIDs")
	}
}

// bestOf is the lowest priority of those that count, PriorityUnused without one.
func bestOf(list []Locator, counts func(Locator) bool) uint8 {
	best := uint8(lisp.PriorityUnused)
	for _, l := range list {
		if counts(l) {
			best = min(best, l.Priority)
		}
	}
	return best
}

func (c *Config) validateLocator(l Locator, path string) {
	switch {
	case l.Interface == "" && !l.Address.IsValid():
		c.fail(path, "the locator has neither interface nor address", "want one of them")
	case l.Interface != "" && l.Address.IsValid():
		c.fail(path, "the locator has both interface and address", "want one of them")
	case l.Interface != "":
		c.validateLocatorInterface(l.Interface, path+".interface")
	default:
		if err := lisp.RLOCFromAddr(l.Address).Valid(); err != nil {
			c.fail(path+".address", err.Error(), "want an address that other systems reach")
		}
		if l.AddressFamily != FamilyBoth {
			c.fail(path+".address-family", "address-family goes with interface, not with address", "remove it: the address has one family")
		}
	}
}

// validateLocatorInterface warns of a locator at which no LISP packet is taken.
func (c *Config) validateLocatorInterface(name, path string) {
	if err := validInterfaceName(name); err != nil {
		message, hint := splitError(err)
		c.fail(path, "interface: "+message, hint)
		return
	}
	if name == loopback {
		return // its addresses are reached by the core interfaces
	}
	for _, core := range c.Interfaces.Core {
		if core.Interface.Name == name || core.Interface.Address.IsValid() { // whose address it is, the host knows
			return
		}
	}
	c.warn(path, fmt.Sprintf("interface: %s is not among the core interfaces", name), "packets that arrive there are not decapsulated: add it to interfaces: {core: [...]}")
}

// String is the interface or the address.
func (l Locator) String() string {
	if l.Address.IsValid() {
		return l.Address.String()
	}
	return l.Interface
}

func (c *Config) validateLispers() {
	l := c.Datapath.Lispers
	if l == nil {
		return
	}
	if !filepath.IsAbs(l.Directory) {
		c.fail("datapath.lispers.directory", fmt.Sprintf("directory: %q is not an absolute path", l.Directory), "want a path that begins with /")
	}
	if l.NoLocators != nil && *l.NoLocators != lisp.ActionDrop && *l.NoLocators != lisp.ActionNativelyForward {
		c.fail("datapath.lispers.no-locators", fmt.Sprintf("no-locators: %s is not a choice here", l.NoLocators), "want drop or natively-forward")
	}
}

// validateDataHeader refuses what must not be used outside of trusted networks.
func (c *Config) validateDataHeader() {
	h := c.Datapath.DataHeader
	for _, feature := range []struct {
		key, section string
		on           bool
	}{
		{"locator-status-bits", "RFC 9300 s.10", h.StatusBits},
		{"map-versions", "RFC 9302 s.8", h.MapVersions},
		{"echo-nonce", "RFC 9300 s.10.1", h.EchoNonce},
	} {
		if feature.on && c.PublicInternet {
			c.fail("datapath.data-header."+feature.key, feature.key+": must not be used over the public Internet ("+feature.section+")",
				"leave it out, or public-internet")
		}
	}
}

// validateMergedBits warns of EID-Prefixes that are merged with what other xTRs register, but list own locators alone, while
// Locator-Status-Bits are sent: those go by place in the merged set, which this router does not know (RFC 9300 s.10).
func (c *Config) validateMergedBits() {
	if c.ETR == nil || !c.Datapath.DataHeader.StatusBits {
		return
	}
	for i, m := range c.ETR.MapServers {
		at := slices.IndexFunc(c.ETR.LocalEIDs, func(l LocalEID) bool { return l.Site == m.Site && !namesAnother(c.LocatorsOf(l.RLOCs)) })
		if m.MergeRequest && at >= 0 {
			c.warn(fmt.Sprintf("etr.map-servers[%d].merge-request", i), fmt.Sprintf(
				"merge-request: %s lists locators of this router alone, and locator-status-bits go by place: its bits mean other locators of the merged set",
				c.ETR.LocalEIDs[at].Prefix()), "list there the locators of all xTRs of the site, at each of them, or leave out one of the two keys")
		}
	}
}

// namesAnother reports whether one of these may be another xTR's locator: those of an interface are our own, and so is a single one.
func namesAnother(locators []Locator) bool {
	return len(locators) > 1 && slices.ContainsFunc(locators, func(l Locator) bool { return l.Interface == "" })
}

func (c *Config) validateMappingSocket() {
	m := c.Datapath.MappingSocket
	if m == nil {
		return
	}
	if !filepath.IsAbs(m.Path) {
		c.fail("datapath.mapping-socket.path", fmt.Sprintf("path: %q is not an absolute path", m.Path), "want a path that begins with /")
	}
	if len(m.Path) > maxSocketPath {
		c.fail("datapath.mapping-socket.path", fmt.Sprintf("path: the path has %d octets", len(m.Path)), fmt.Sprintf("Linux allows %d for a socket", maxSocketPath))
	}
	if m.Path == c.Control.Socket {
		c.fail("datapath.mapping-socket.path", fmt.Sprintf("path: %s is the control socket", m.Path), "give each a path of its own")
	}
}

func (c *Config) validatePaths() {
	for _, p := range []struct{ path, value string }{
		{"control.socket", c.Control.Socket},
		{"datapath.pin-directory", c.Datapath.PinDirectory},
	} {
		if !filepath.IsAbs(p.value) {
			c.fail(p.path, fmt.Sprintf("%s: %q is not an absolute path", label(p.path), p.value), "want a path that begins with /")
		}
	}
	if d := c.StateDirectory(); d != "" && !filepath.IsAbs(d) {
		c.fail("map-server.state-directory", fmt.Sprintf("state-directory: %q is not an absolute path", d), "want a path that begins with /")
	}
	if f := c.NonceFile(); f != "" && !filepath.IsAbs(f) {
		c.fail("etr.nonce-file", fmt.Sprintf("nonce-file: %q is not an absolute path", f), "want a path that begins with /")
	}
	c.validateMappingSocket()
	c.validateLispers()
	c.validateDataHeader()
	c.validateMergedBits()
	if len(c.Control.Socket) > maxSocketPath {
		c.fail("control.socket", fmt.Sprintf("socket: the path has %d octets", len(c.Control.Socket)), fmt.Sprintf("Linux allows %d for a socket", maxSocketPath))
	}
	if err := validInterfaceName(c.Datapath.Interface); err != nil {
		message, hint := splitError(err)
		c.fail("datapath.interface", "interface: "+message, hint)
	}
	if c.Datapath.Interface == loopback {
		c.fail("datapath.interface", "interface: lo is the loopback interface of the system", "want a name that no interface has, loci0 for example")
	}
	c.validatePins()
	c.validateRouting()
	if c.Control.Port == dataPort {
		c.fail("control.port", "port: 4341 is the port of the data plane", "the control plane's is 4342")
	}
}

const (
	// maxSocketPath is sun_path of Linux without the final NUL.
	maxSocketPath = 107
	dataPort      = 4341
	// loopback is the interface that every network namespace has.
	loopback = "lo"
	// defaultControlPort is the port of control messages (RFC 9301 s.4).
	defaultControlPort = 4342
	// mainRulePriority is the kernel's rule "from all lookup main".
	mainRulePriority = 32766
)

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// reservedTables are default, main and local.
var reservedTables = []uint32{253, 254, 255}

func (c *Config) validateLocalAddresses() {
	for i, a := range c.Control.Addresses {
		if a.IsMulticast() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.Zone() != "" || a == broadcast {
			c.fail(fmt.Sprintf("control.addresses[%d]", i), fmt.Sprintf("addresses: %s is not an address to listen at", a), "want addresses of this host; leave the key out for all")
		}
	}
	if at, twice := firstTwice(c.Control.Addresses); twice {
		c.fail(fmt.Sprintf("control.addresses[%d]", at), fmt.Sprintf("addresses: %s stands here twice", c.Control.Addresses[at]), "remove one of the two")
	}
}

// firstTwice finds the first item that stood before.
func firstTwice[T comparable](list []T) (int, bool) {
	seen := make(map[T]bool, len(list))
	for i, item := range list {
		if seen[item] {
			return i, true
		}
		seen[item] = true
	}
	return 0, false
}

// withPort is a server's address with the port that is meant.
func (c *Config) withPort(a netip.AddrPort) netip.AddrPort {
	if a.Port() != 0 {
		return a
	}
	return netip.AddrPortFrom(a.Addr(), c.Control.Port)
}

func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
