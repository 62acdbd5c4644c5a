// SPDX-License-Identifier: Apache-2.0

package config

// What the values mean together: roles have what they need, names are known,
// nothing is said twice. Every problem points at the value that is to change.

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
	validateLists(c)
	validatePaths(c)
	validateLocalAddresses(c)
	validateServers(c)
	validateGluedPorts(c)
	warnOfKnownXTRID(c)
}

func validateRoles(c *Config) {
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
