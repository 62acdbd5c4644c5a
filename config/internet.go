// SPDX-License-Identifier: Apache-2.0

package config

// The public Internet profile (RFC 9301 s.1.1, RFC 9300 s.4.1, RFC 9302 s.8): what must not
// be used between sites that do not trust each other is refused, and so is the mapping system while the protection that
// the profile demands for it does not exist. Static mappings need none.

import "fmt"

func validatePublicInternet(c *Config) {
	if !c.PublicInternet {
		return
	}
	if c.usesMappingSystem() {
		c.fail("public-internet", "public-internet: RFC 9301 s.1.1 demands LISP-SEC (RFC 9303) over the public Internet, which this version does not have",
			"leave it out where the mapping system is trusted, or use static mappings alone (itr.map-cache.mappings)")
	}
	for _, k := range c.keys() {
		if k.Algorithm < AlgorithmHMACSHA256 {
			c.fail(k.path, fmt.Sprintf("auth-algorithm-id: %s must not be used over the public Internet (RFC 9301 s.1.1)", k.Algorithm),
				"want "+AlgorithmHMACSHA256HKDF.String())
		}
	}
	if c.ITR != nil && c.ITR.Gleaning {
		c.fail("itr.gleaning", "gleaning: must not be used over the public Internet (RFC 9300 s.9)", "leave it out, or public-internet")
	}
	if c.ETR == nil {
		return
	}
	for i, l := range c.ETR.LocalEIDs {
		if l.MapVersion != 0 {
			c.fail(fmt.Sprintf("etr.local-eids[%d].map-version", i), "map-version: Map-Versions must not be used over the public Internet (RFC 9302 s.8)", "leave it out")
		}
	}
}

// usesMappingSystem reports whether Map-Requests or Map-Registers are sent or taken.
func (c *Config) usesMappingSystem() bool {
	return c.MapServer != nil || c.MapResolver != nil || c.ITR != nil && len(c.ITR.MapResolvers) > 0 || c.ETR != nil && len(c.ETR.MapServers) > 0
}
