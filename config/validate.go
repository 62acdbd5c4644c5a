// SPDX-License-Identifier: Apache-2.0

package config

// What the values mean together: roles have what they need, names are known,
// nothing is said twice. Every problem points at the value that is to change, for the
// checks here and for the daemon.

import (
	"loci/config/source"
)

func (c *Config) validate() {
	if c.ETR != nil {
		c.own = newOwnEIDs(c.ETR.LocalEIDs)
		defer func() { c.own = ownEIDs{} }()
	}
	validateRoles(c)
	validatePublicInternet(c)
	validateInterfaces(c)
	validateLocatorSets(c)
	validateKeys(c)
	validateITR(c)
	validateETR(c)
	validateMapServer(c)
	validateMapResolver(c)
	validateRelays(c)
	validateNAT(c)
	validateMobileNode(c)
	validatePathIdentification(c)
	validateLists(c)
	validatePaths(c)
	validateLocalAddresses(c)
	validateServers(c)
	validateGluedPorts(c)
	validateMetrics(c)
	warnOfKnownXTRID(c)
}

func validateRoles(c *Config) {
	switch {
	case !c.UsesDataPlane() && c.MapServer == nil && c.MapResolver == nil:
		c.fail("", "no role is configured", "add itr, etr, rtr, pitr, petr, map-server or map-resolver")
	case !c.UsesDataPlane() && len(c.Interfaces.Site)+len(c.Interfaces.Core) > 0:
		c.warn("interfaces", "interfaces: no role is configured that forwards packets", "a Map-Server and a Map-Resolver need no interfaces: want itr, etr, rtr, pitr or petr with them")
	}
	if c.RouterID != nil && c.ETR == nil {
		c.warn("lisp-router-id", "lisp-router-id: no etr is configured", "only Map-Registers carry it")
	}
}

func (c *Config) fail(path, message, hint string) { c.source.Fail(path, message, hint) }

func (c *Config) warn(path, message, hint string) { c.source.Warn(path, message, hint) }

// Position is where a value stands, or the nearest section around it where the
// file left the value to its default. The path is given by keys and indexes:
// Position("etr", "local-eids", 0, "eid").
func (c *Config) Position(path ...any) source.Position {
	return c.source.PositionOf(source.PathOf(path))
}

// Problem tells about a value that turned out wrong later, as an error with the
// position of the value: an interface that does not exist, for example. The
// message says what is wrong and what to do; the path is that of Position.
func (c *Config) Problem(message string, path ...any) source.Problem {
	return c.source.ProblemAt(source.PathOf(path), message, "")
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
