// SPDX-License-Identifier: Apache-2.0

package message

// Which site a Map-Register is of (RFC 9301 s.5.6). Where it does not authenticate, the refusal names a site only by
// a key or an EID-Prefix of its own.

import (
	"fmt"
	"slices"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// triedSites bounds the sites whose keys are tried on a Map-Register that does not authenticate as one of the site of
// its first EID-Prefix: so many by its EID-Prefixes, by parts of these, and of all others. A sender may be forged,
// and each costs a hash.
const triedSites = 16

// signerOf authenticates a Map-Register, by the site of the first EID-Prefix that is of any. Whose key it is instead
// is found out only to say so.
func (k *Keyring) signerOf(b []byte, m *wire.MapRegister, mappings []lisp.Mapping) (
	site int, key settings.Key, covered wire.Coverage, refused *Refusal,
) {
	if site, refused = k.siteOf(mappings); refused == nil {
		if key, covered, refused = AuthenticateSite(&k.sites[site], b, m.KeyID, m.AlgorithmID); refused == nil {
			return site, key, covered, nil
		}
		refused.Site, refused.Prefix = k.sites[site].Name, k.firstOf(site, mappings)
	}
	for _, other := range k.candidates(m.Nonce, mappings) {
		if _, _, wrong := AuthenticateSite(&k.sites[other], b, m.KeyID, m.AlgorithmID); wrong != nil {
			continue
		}
		refused.Site, refused.KeyFits = k.sites[other].Name, true
		if refused.Reason != counter.RefusedUnknownSite {
			refused.Err = fmt.Errorf("the first EID-Prefix, %s, is not of site %s, whose key it is",
				refused.Prefix, refused.Site)
		}
		break
	}
	return 0, settings.Key{}, wire.CoverDefault, refused
}

// candidates are sites that may have sent a Map-Register: those of its EID-Prefixes and of parts of these, then some
// others, which are different ones for each nonce. A site that registers again is found so, however many there are.
func (k *Keyring) candidates(nonce uint64, mappings []lisp.Mapping) (list []int) {
	add := func(site int) {
		if !slices.Contains(list, site) {
			list = append(list, site)
		}
	}
	for i := range mappings[:min(len(mappings), triedSites)] {
		if _, owner, ok := k.Prefixes.Longest(mappings[i].Prefix); ok {
			add(owner.Site)
		}
	}
	looked := 0
	for _, owned := range k.Prefixes.Subtree(mappings[0].Prefix) {
		if looked++; looked > triedSites {
			break
		}
		add(owned.Site)
	}
	sites := uint64(len(k.sites))
	for i := range min(sites, triedSites) {
		add(int((nonce%sites*triedSites + i) % sites))
	}
	return list
}

// firstOf is the first EID-Prefix of a site; zero for none.
func (k *Keyring) firstOf(site int, mappings []lisp.Mapping) lisp.Prefix {
	for i := range mappings {
		if _, owner, ok := k.Prefixes.Longest(mappings[i].Prefix); ok && owner.Site == site {
			return mappings[i].Prefix
		}
	}
	return lisp.Prefix{}
}
