// SPDX-License-Identifier: Apache-2.0

package control

// The ETR's Database: the EID-Prefixes of this site (RFC 9301 s.5.5). A table.

import (
	"slices"

	"loci/lisp"
)

// database holds the configured mappings by EID-Prefix.
type database struct {
	index prefixTable[DatabaseMapping]
}

func newDatabase(mappings []DatabaseMapping) *database {
	d := &database{}
	for _, m := range mappings {
		d.index.insert(m.Prefix, m)
	}
	return d
}

// longest returns the most specific EID-Prefix that covers p.
func (d *database) longest(p lisp.Prefix) (lisp.Prefix, bool) {
	match, _, ok := d.index.longest(p)
	return match, ok
}

// ofSite keeps the mappings of one site's EID-Prefixes. The list is left as it is.
func (d *database) ofSite(all []lisp.Mapping, site string) []lisp.Mapping {
	return slices.DeleteFunc(slices.Clone(all), func(m lisp.Mapping) bool {
		own, ok := d.index.get(m.Prefix)
		return !ok || own.Site != site
	})
}

// mapping is what the ETR says about an EID-Prefix of its own.
func (m DatabaseMapping) mapping() lisp.Mapping {
	return lisp.Mapping{
		Prefix: m.Prefix, Locators: m.Locators, TTLMinutes: m.TTLMinutes,
		Authoritative: true, Version: m.Version,
	}
}

func (m DatabaseMapping) equal(o DatabaseMapping) bool { return m.mapping().Equal(o.mapping()) }

// withLocalBits sets L on the locators that are our own and clears it on the
// others (RFC 9301 s.5.4).
func withLocalBits(set lisp.LocatorSet, own []lisp.RLOC) lisp.LocatorSet {
	return appendWithLocalBits(nil, set, own)
}

// appendWithLocalBits is withLocalBits in the room given.
func appendWithLocalBits(room, set lisp.LocatorSet, own []lisp.RLOC) lisp.LocatorSet {
	marked := append(room, set...)
	for i := range marked {
		marked[i].Local = slices.Contains(own, marked[i].RLOC)
	}
	return marked
}
