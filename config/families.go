// SPDX-License-Identifier: Apache-2.0

package config

// The address families of what belongs together: locators of other sites and own RLOCs,
// access lists and the site's EIDs. Where interfaces give the RLOCs, the host knows.

import (
	"fmt"
	"net/netip"
	"slices"

	"loci/config/source"
	"loci/lisp"
)

// families are the address families that something has, or may have.
type families struct{ ipv4, ipv6 bool }

func (f families) both() bool { return f.ipv4 && f.ipv6 }

func (f families) has(a netip.Addr) bool { return a.Is4() && f.ipv4 || a.Is6() && f.ipv6 }

// missing names the family that is not there.
func (f families) missing() string { return familyName(!f.ipv4) }

func (f *families) add(is4 bool) {
	f.ipv4, f.ipv6 = f.ipv4 || is4, f.ipv6 || !is4
}

// ownFamilies are the families that RLOCs of this router may have.
func (c *Config) ownFamilies() (own families) {
	sets := []RLOCs{{}}
	if c.ITR != nil {
		sets = append(sets, c.ITR.RLOCs)
	}
	if c.ETR != nil {
		for _, l := range c.ETR.LocalEIDs {
			sets = append(sets, l.RLOCs)
		}
	}
	for _, set := range sets {
		for _, l := range c.LocatorsOf(set) {
			switch {
			case !l.Path.IsZero():
				own.add(l.Path.hops[l.Path.count-1].Address.Is4())
			case l.Address.IsValid():
				own.add(l.Address.Is4())
			case l.AddressFamily != FamilyBoth:
				own.add(l.AddressFamily == FamilyIPv4)
			default:
				return families{true, true}
			}
		}
	}
	return own
}

// warnOfUnreachableFamilies warns of locators of other systems that no own RLOC can send to.
func warnOfUnreachableFamilies(c *Config) {
	own := c.ownFamilies()
	if own.both() || own == (families{}) {
		return
	}
	for _, r := range c.rlocs() {
		set := c.setOf(r.RLOCs)
		if r.remote && len(set) > 0 && !slices.ContainsFunc(set, func(l Locator) bool { return own.has(l.firstHop()) || l.Interface != "" }) {
			c.warn(r.path, fmt.Sprintf("%s: every locator is %s, but no RLOC of this router is", source.Label(r.path), own.missing()),
				"packets to them are dropped: add a locator of the other family here, or an RLOC of this one")
			continue
		}
		for i, l := range set {
			if r.remote && !l.Path.IsZero() && !own.has(l.firstHop()) {
				c.warn(r.path, fmt.Sprintf("%s: locator %d, the path %s, begins with %s, but no RLOC of this router is", source.Label(r.path), i+1, l, own.missing()),
					"packets cannot be sent to its first hop: want a path that begins in a family of this router")
			}
		}
	}
}

// warnOfForgottenFamilies warns of a list that allows EIDs of one family and so drops the
// other, which the site has as well.
func warnOfForgottenFamilies(c *Config, l AccessList, path string) {
	if c.ETR == nil || len(l.Allow) == 0 || l.Address != l.siteAddress() {
		return
	}
	var named families
	for _, p := range slices.Concat(l.Allow, l.Deny) { // what is denied was thought of
		named.add(p.Addr().Is4())
	}
	for _, e := range c.ETR.LocalEIDs {
		if is4 := e.EID.Kind() == lisp.EIDIPv4; e.InstanceID == l.InstanceID && e.EID.EID().IsIP() && (is4 && !named.ipv4 || !is4 && !named.ipv6) {
			c.warn(path+".allow", fmt.Sprintf("allow: no %s prefix stands here, so that every packet of %s is dropped", familyName(is4), e.EID), "add what of it is allowed, or deny it to say so")
			return
		}
	}
}

// siteAddress is the address of a list's packets that is an EID of this site.
func (l AccessList) siteAddress() ListAddress {
	if l.Packets == ListEncapsulated {
		return ListInnerSource
	}
	return ListInnerDestination
}
