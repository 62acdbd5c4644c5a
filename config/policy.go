// SPDX-License-Identifier: Apache-2.0

package config

// What an operator decides beyond what RFC 9301 says: other priorities for locators
// of other sites, and a Map-Server's policy for one site. The bounds are
// the control plane's; a test in package daemon holds the two together.

import (
	"fmt"
	"net/netip"
	"time"

	"loci/config/codec"
	"loci/config/probing"
	"loci/lisp"
)

// LocatorPolicy overrides what other sites say about their locators. It fits the
// mappings within EID, all of them without one, and the locators within RLOCPrefix,
// all of them without one. What is nil is as the site has it.
type LocatorPolicy struct {
	InstanceID lisp.InstanceID `key:"instance-id"`
	EID        lisp.Prefix     `key:"eid"` // in Instance-ID 0: see Prefix
	RLOCPrefix netip.Prefix    `key:"rloc-prefix"`
	Priority   *uint8          `key:"priority"`
	Weight     *uint8          `key:"weight"`
}

// Prefix is the EID-Prefix in its Instance-ID, the zero Prefix for all EIDs.
func (p LocatorPolicy) Prefix() lisp.Prefix {
	if p.EID.IsZero() {
		return p.EID
	}
	return inInstance(p.InstanceID, p.EID)
}

// SitePolicy is what a Map-Server does for a site: who is told its mappings, for how
// long, and how much it may register.
type SitePolicy struct {
	AllowedITRs          []netip.Prefix `key:"allowed-itrs" max:"4096"` // none: all
	DeniedITRs           []netip.Prefix `key:"denied-itrs" max:"4096"`
	DenialTTLMinutes     uint32         `key:"denial-ttl" unit:"minutes" range:"1..525600"`
	TemporaryDenial      bool           `key:"temporary-denial"`
	AnswerAuthFailure    bool           `key:"answer-auth-failure"`
	ProxyReplyTTLMinutes uint32         `key:"proxy-reply-ttl" unit:"minutes" range:"0..525600"` // 0: as registered
	Registrations        int            `key:"registrations" range:"0..16777216"`                // 0: Limits.RegistrationsPerSite
	MapRegisters         *Rate          `key:"map-registers"`                                    // nil: no limit of its own
}

func (p *SitePolicy) setDefaults() { *p = SitePolicy{DenialTTLMinutes: 15} }

func validateProbing(c *Config) {
	around := probing.Surroundings{Has: c.source.Has, IsNamed: c.isNamedOwn, PrefixOf: c.ownPrefixOf}
	for _, l := range c.LocatorsOf(c.ITR.RLOCs) {
		around.RLOCs = append(around.RLOCs, l.Address)
	}
	c.ITR.RLOCProbing.Check(around, c.fail, c.warn)
}

func validateLocatorPolicies(c *Config) {
	for i, p := range c.ITR.LocatorPolicies {
		path := fmt.Sprintf("itr.locator-policies[%d]", i)
		if p.Priority == nil && p.Weight == nil {
			c.fail(path, "the policy has neither priority nor weight", "want one of them, or both")
		}
		if p.EID.IsZero() && p.InstanceID != 0 {
			c.fail(path+".instance-id", "instance-id goes with eid", "want one policy with eid: 0.0.0.0/0 and one with eid: ::/0 for all EIDs of an Instance-ID")
		}
	}
}

func validateSitePolicy(c *Config, p SitePolicy, path string) {
	if p.MapRegisters == nil {
		return
	}
	if p.MapRegisters.Rate.Count == 0 || p.MapRegisters.Burst == 0 {
		c.fail(path+".map-registers", "map-registers has no rate or no burst", "want both, as in map-registers: {rate: 10/s, burst: 100}")
	}
}

// leastQuickRegistration is "up to one every 20 seconds" (RFC 9301 s.8.2).
const leastQuickRegistration = 20 * time.Second

func validateQuickRegistration(c *Config) {
	if q := c.ETR.QuickRegistrationInterval; q > 0 && q < leastQuickRegistration {
		c.fail("etr.quick-registration-interval", fmt.Sprintf("quick-registration-interval: %s is out of range", codec.DurationText(q)), "want 20s or more (RFC 9301 s.8.2), or 0 for never")
	}
}
