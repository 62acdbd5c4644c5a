// SPDX-License-Identifier: Apache-2.0

package config

// The other systems that are named by their addresses: none of them may be this daemon,
// and each needs a socket of its family.

import (
	"fmt"
	"net/netip"
	"slices"

	"loci/config/source"
)

// namedServer is another system by its address, with the path it stands at.
type namedServer struct {
	netip.AddrPort
	path string
	// itself says what is wrong where it is this daemon; empty where that is right.
	itself, hint string
}

// servers are those of all roles.
func (c *Config) servers() (list []namedServer) {
	add := func(address netip.AddrPort, path, role string, hasRole bool) {
		s := namedServer{AddrPort: address, path: path}
		if !hasRole {
			s.itself, s.hint = "which is not "+role, "want the address of another system, or add that role to this file"
		}
		list = append(list, s)
	}
	if c.ITR != nil {
		for i, a := range c.ITR.MapResolvers {
			add(a, fmt.Sprintf("itr.map-resolvers[%d]", i), "a Map-Resolver", c.MapResolver != nil)
		}
		for i, a := range c.ITR.RLOCProbing.Peers {
			path := fmt.Sprintf("itr.rloc-probing.peers[%d]", i)
			list = append(list, namedServer{netip.AddrPortFrom(a, 0), path, "and is not probed",
				"want the RLOC of another router"})
		}
	}
	if c.ETR != nil {
		for i, m := range c.ETR.MapServers {
			add(m.Address, fmt.Sprintf("etr.map-servers[%d].ms-address", i), "a Map-Server", c.MapServer != nil)
		}
	}
	if c.MapResolver == nil {
		return list
	}
	hint := "want the address of a Map-Server"
	if c.MapServer != nil {
		hint = "remove it: map-server of this file is asked in any case"
	}
	for i, m := range c.MapResolver.MapServers {
		list = append(list, namedServer{m.Address, fmt.Sprintf("map-resolver.ms-address[%d]", i), "which would ask itself again and again", hint})
	}
	return list
}

func (s namedServer) message() string {
	return fmt.Sprintf("%s: %s is this daemon itself, %s", source.Label(s.path), peerText(s.AddrPort), s.itself)
}

func validateServers(c *Config) {
	for _, s := range c.servers() {
		validateFamily(c, s.AddrPort, s.path)
		if s.itself != "" && c.isThisDaemon(s.AddrPort, c.isNamedOwn) {
			c.fail(s.path, s.message(), s.hint)
		}
	}
}

// AsksItself tells of the servers that are this daemon, where the file alone does not show
// it: own reports whether this host has an address.
func (c *Config) AsksItself(own func(netip.Addr) bool) (list []source.Problem) {
	for _, s := range c.servers() {
		if s.itself != "" && c.isThisDaemon(s.AddrPort, own) {
			list = append(list, c.source.ProblemAt(s.path, s.message(), s.hint))
		}
	}
	return list
}

// isThisDaemon reports whether what is sent to an address comes back to our own sockets.
func (c *Config) isThisDaemon(server netip.AddrPort, own func(netip.Addr) bool) bool {
	switch a := server.Addr(); {
	case c.withPort(server).Port() != c.Control.Port:
		return false
	case len(c.Control.Addresses) > 0:
		return slices.Contains(c.Control.Addresses, a)
	default:
		return own(a)
	}
}

// isNamedOwn reports whether the file says that an address is this host's.
func (c *Config) isNamedOwn(a netip.Addr) bool {
	return a.IsLoopback() || slices.ContainsFunc(c.Interfaces.Core, func(core CoreInterface) bool { return core.Interface.Address == a })
}

// validateFamily refuses a server that no socket can send to.
func validateFamily(c *Config, server netip.AddrPort, path string) {
	is4 := server.Addr().Is4()
	if len(c.Control.Addresses) == 0 || slices.ContainsFunc(c.Control.Addresses, func(a netip.Addr) bool { return a.Is4() == is4 }) {
		return
	}
	c.fail(path, fmt.Sprintf("%s: %s cannot be reached: control.addresses has no %s address", source.Label(path), peerText(server), familyName(is4)),
		"add one there, or leave control.addresses out for all addresses of this host")
}

func familyName(is4 bool) string {
	if is4 {
		return "IPv4"
	}
	return "IPv6"
}

// validateResolverRoutes finds what two entries of the Map-Resolver both say.
func validateResolverRoutes(c *Config) {
	type question struct {
		server netip.AddrPort
		eids   string // empty for all
	}
	seen := map[question]bool{}
	ask := func(server netip.AddrPort, eids, path string) {
		q := question{c.withPort(server), eids}
		if seen[q] {
			c.fail(path, fmt.Sprintf("%s: %s is asked for %s twice", source.Label(path), peerText(server), orAll(eids)), "remove one of the two")
		}
		seen[q] = true
	}
	for i, m := range c.MapResolver.MapServers {
		path := fmt.Sprintf("map-resolver.ms-address[%d]", i)
		if len(m.EIDPrefixes) == 0 {
			ask(m.Address, "", path)
		}
		for j, e := range m.EIDPrefixes {
			ask(m.Address, e.Prefix().String(), fmt.Sprintf("%s.eid-prefixes[%d].eid", path, j))
		}
	}
}

func orAll(eids string) string {
	if eids == "" {
		return "all EIDs"
	}
	return eids
}
