// SPDX-License-Identifier: Apache-2.0

package sites

// Which site owns which EIDs.

import (
	"slices"

	"loci/lisp"
)

// owners are the EID-Prefixes of all sites.
type owners struct {
	prefixes map[lisp.Prefix]*SitePrefix
	lengths  map[lisp.EIDKind][]int // of EID-Prefixes, longest first
	perSpace map[lisp.InstanceID]int
}

func newOwners() owners {
	return owners{
		prefixes: map[lisp.Prefix]*SitePrefix{}, lengths: map[lisp.EIDKind][]int{}, perSpace: map[lisp.InstanceID]int{},
	}
}

// sitesIn numbers the sites of an Instance-ID.
func (o *owners) sitesIn(id lisp.InstanceID) int {
	o.perSpace[id]++
	return o.perSpace[id]
}

// own makes an EID-Prefix a site's.
func (o *owners) own(p *SitePrefix) {
	o.prefixes[p.Prefix] = p
	kind := p.Prefix.Kind()
	if !slices.Contains(o.lengths[kind], p.Prefix.Bits()) {
		o.lengths[kind] = append(o.lengths[kind], p.Prefix.Bits())
		slices.SortFunc(o.lengths[kind], func(a, b int) int { return b - a })
	}
}

// Exactly is a site's EID-Prefix that is the same as p.
func (o *owners) Exactly(p lisp.Prefix) (*SitePrefix, bool) {
	owner, ok := o.prefixes[p]
	return owner, ok
}

// Longest is the longest EID-Prefix of a site that covers p.
func (o *owners) Longest(p lisp.Prefix) (*SitePrefix, bool) {
	for _, bits := range o.lengths[p.Kind()] {
		if bits > p.Bits() {
			continue
		}
		covering, err := lisp.PrefixFrom(p.Instance(), p.EID(), bits)
		if owner, ok := o.prefixes[covering]; ok && err == nil {
			return owner, true
		}
	}
	return nil, false
}
