// SPDX-License-Identifier: Apache-2.0

package config

// This site's EID-Prefixes by what they cover, so that a file with tens of thousands of
// them and of static mappings is checked in a time that grows with its length.

import (
	"math"
	"net/netip"

	"loci/lisp"
)

// ownEIDs finds the EID-Prefixes of this site that cover others, but for those that cover
// every EID, which are refused by themselves.
type ownEIDs struct {
	index   map[lisp.Prefix]int // in etr.local-eids, the first of equal ones
	lengths []int               // mask lengths that there are, the longest first
}

func newOwnEIDs(list []LocalEID) ownEIDs {
	own := ownEIDs{index: make(map[lisp.Prefix]int, len(list))}
	var there [math.MaxUint8 + 1]bool
	for i, l := range list {
		if _, twice := own.index[l.Prefix()]; !twice {
			own.index[l.Prefix()] = i
		}
		there[l.EID.Bits()] = true
	}
	for bits := len(there) - 1; bits > 0; bits-- {
		if there[bits] {
			own.lengths = append(own.lengths, bits)
		}
	}
	return own
}

// covering is the longest that covers a prefix, by its index in etr.local-eids.
func (o ownEIDs) covering(p lisp.Prefix) (index int, ok bool) {
	for _, bits := range o.lengths {
		if bits > p.Bits() {
			continue
		}
		wider, err := lisp.PrefixFrom(p.Instance(), p.EID(), bits)
		if index, ok = o.index[wider]; ok && err == nil {
			return index, true
		}
	}
	return 0, false
}

// ownPrefixOf finds the EID-Prefix of this site that covers an address. Other
// Instance-IDs than 0 may use the numbers of the core: they are apart from it.
func (c *Config) ownPrefixOf(a netip.Addr) (lisp.Prefix, bool) {
	if c.ETR == nil || !a.IsValid() {
		return lisp.Prefix{}, false
	}
	i, ok := c.own.covering(lisp.HostPrefix(0, lisp.EIDFromAddr(a)))
	if !ok {
		return lisp.Prefix{}, false
	}
	return c.ETR.LocalEIDs[i].EID, true
}
