// SPDX-License-Identifier: Apache-2.0

package translation

// What is wrong with entries.

import (
	"fmt"
	"net/netip"
	"slices"
)

// Site is what the entries are checked against.
type Site struct {
	EIDPrefixes []netip.Prefix // of Instance-ID 0
	Interfaces  bool           // there are interfaces to the site
	Fast        string         // an interface to the site by which packets bypass the kernel's stack; may be empty
	ProxyETRs   bool           // packets to hosts outside LISP go to proxy ETRs
}

// OfEIDs reports whether the sources of a prefix are EIDs of the site.
func (s *Site) OfEIDs(p netip.Prefix) bool {
	return slices.ContainsFunc(s.EIDPrefixes, func(eids netip.Prefix) bool {
		return eids.Overlaps(p) && eids.Bits() <= p.Bits()
	})
}

// isPool reports whether a pool is inside an EID-Prefix of the site.
func (s *Site) isPool(p Pool) bool {
	return slices.ContainsFunc(s.EIDPrefixes, func(eids netip.Prefix) bool {
		return eids.Contains(p.First) && eids.Contains(p.Last)
	})
}

// Report takes what is wrong with the value at a path of the configuration.
type Report func(path, message, hint string)

// Check reports what is wrong with entries, and what is allowed but probably not meant.
func Check(entries []Entry, site Site, fail, warn Report) {
	for i, e := range entries {
		path := fmt.Sprintf("itr.lisp-nat[%d].", i)
		key, message, hint := mistake(e, &site)
		switch {
		case message != "":
			fail(path+key, key+": "+message, hint)
		case site.ProxyETRs && site.OfEIDs(e.From):
			warn(path+"from",
				fmt.Sprintf("from: packets of %s to hosts outside LISP go to proxy-etrs, untranslated",
					e.From),
				"remove proxy-etrs or the entry")
		}
		for j, other := range entries[:i] {
			if e.From.Overlaps(other.From) {
				fail(path+"from",
					fmt.Sprintf("from: %s overlaps %s of entry %d", e.From, other.From, j+1),
					"a source has one pool")
			}
			if e.Pool.overlaps(other.Pool) {
				fail(path+"pool",
					fmt.Sprintf("pool: %s overlaps %s of entry %d", e.Pool, other.Pool, j+1),
					"want addresses of its own for each entry")
			}
		}
	}
}

// mistake is the first thing that is wrong with an entry by itself; an empty message for none.
func mistake(e Entry, site *Site) (key, message, hint string) {
	from, pool := e.From.Addr(), e.Pool.First
	length, isPrefix := e.Pool.Prefix()
	switch {
	case !isUnicast(from) || e.From.Bits() == 0:
		return "from", fmt.Sprintf("%s is not a prefix of hosts of the site", e.From),
			"want private addresses or EIDs of the site"
	case from.Is4() != pool.Is4():
		return "pool", fmt.Sprintf("%s is not of the family of %s", e.Pool, e.From),
			"want addresses of the same family: a host keeps its family"
	case !isUnicast(pool) || !isUnicast(e.Pool.Last):
		return "pool", fmt.Sprintf("%s are not addresses that answers can be sent to", e.Pool),
			"want unicast addresses that are routed to this router"
	case e.Pool.overlaps(PoolOf(e.From)):
		return "pool", fmt.Sprintf("%s overlaps %s, which it stands for", e.Pool, e.From),
			"want other addresses"
	case e.Translate == Address && (!isPrefix || length.Bits() != e.From.Bits()):
		return "pool",
			fmt.Sprintf("translate: address gives each address of %s one of its own,"+
				" and %s has not as many", e.From, e.Pool),
			fmt.Sprintf("want a prefix of length %d, or translate: address-and-port", e.From.Bits())
	case !site.Interfaces:
		return "from", "no interface leads to the site", "add interfaces: {site: [NAME]}"
	}
	return site.mistake(e)
}

// mistake compares an entry with the EIDs of the site.
func (s *Site) mistake(e Entry) (key, message, hint string) {
	overlaps := func(p netip.Prefix) bool { return PoolOf(p).overlaps(e.Pool) }
	if i := slices.IndexFunc(s.EIDPrefixes, e.From.Overlaps); i >= 0 && !s.OfEIDs(e.From) {
		return "from", fmt.Sprintf("%s holds EIDs of %s and other addresses", e.From, s.EIDPrefixes[i]),
			"want an entry for the EIDs and one for the others"
	}
	i := slices.IndexFunc(s.EIDPrefixes, overlaps)
	switch {
	case i < 0:
		return "", "", ""
	case !s.isPool(e.Pool):
		return "pool", fmt.Sprintf("%s is partly inside the EID-Prefix %s", e.Pool, s.EIDPrefixes[i]),
			"want addresses inside it, or none of it"
	case s.Fast != "":
		return "pool", fmt.Sprintf("%s is inside the EID-Prefix %s: the kernel's stack must see the answers"+
				" from other sites, which bypass it at %s", e.Pool, s.EIDPrefixes[i], s.Fast),
			"set forwarding: stack there, or datapath.engine: user"
	}
	return "", "", ""
}

func isUnicast(a netip.Addr) bool {
	broadcast := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return !a.IsMulticast() && !a.IsUnspecified() && !a.IsLoopback() && !a.IsLinkLocalUnicast() && a != broadcast
}
