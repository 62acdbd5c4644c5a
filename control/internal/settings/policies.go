// SPDX-License-Identifier: Apache-2.0

package settings

// Local policy of the ITR: other priorities and weights than the remote site's for
// some of its locators. The map-cache keeps what the site said, the data plane gets
// what the policy makes of it. It adds no locator.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"loci/lisp"
)

// LocatorPolicy overrides what mappings say about locators. Of several that fit a
// locator the first counts.
type LocatorPolicy struct {
	EIDs     lisp.Prefix  // of the mappings; the zero Prefix is all of them
	RLOCs    netip.Prefix // the zero Prefix is all of them
	Priority *uint8       // nil keeps the site's; 255 never uses the locator
	Weight   *uint8       // nil keeps the site's
}

func (p *LocatorPolicy) validate() error {
	switch {
	case p.Priority == nil && p.Weight == nil:
		return errors.New("locator policy without priority and weight")
	case p.RLOCs.IsValid() && p.RLOCs != p.RLOCs.Masked():
		return fmt.Errorf("locator policy for RLOCs %s: bits are set behind the prefix length", p.RLOCs)
	case !p.EIDs.IsZero() && p.EIDs.Kind() == lisp.EIDNone:
		return errors.New("locator policy for an EID-Prefix of an Instance-ID alone")
	}
	return nil
}

// Fits reports whether the policy is about an RLOC of mappings for these EIDs.
func (p *LocatorPolicy) Fits(eids lisp.Prefix, r lisp.RLOC) bool {
	return (p.EIDs.IsZero() || p.EIDs.Covers(eids)) && (!p.RLOCs.IsValid() || p.RLOCs.Contains(r.Addr()))
}

// WithPolicies is the mapping as this ITR uses it.
func WithPolicies(m lisp.Mapping, policies []LocatorPolicy) lisp.Mapping {
	if len(policies) == 0 || m.Negative() {
		return m
	}
	m.Locators = slices.Clone(m.Locators)
	for i := range m.Locators {
		l := &m.Locators[i]
		at := slices.IndexFunc(policies, func(p LocatorPolicy) bool { return p.Fits(m.Prefix, l.RLOC) })
		if at < 0 {
			continue
		}
		if p := policies[at].Priority; p != nil {
			l.Priority = *p
		}
		if w := policies[at].Weight; w != nil {
			l.Weight = *w
		}
	}
	return m
}
