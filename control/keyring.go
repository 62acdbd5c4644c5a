// SPDX-License-Identifier: Apache-2.0

package control

// Keyring: the part of the configuration that is needed to parse and to
// authenticate (RFC 9301 s.5.6, s.5.7, s.9), immutable, so that this runs outside
// the goroutine that owns the Node.

import (
	"fmt"
	"net/netip"

	"loci/lisp"
	"loci/wire"
)

// Keyring is what Inspect needs of a configuration. It never changes.
type Keyring struct {
	parser      wire.Parser
	controlPort uint16
	itr         bool
	etr         bool
	mapServer   bool
	mapResolver bool
	sites       []Site
	prefixes    prefixTable[ownedPrefix]
	peers       []MapServerPeer
}

// ownedPrefix is an EID-Prefix of the Map-Server's configuration.
type ownedPrefix struct {
	prefix        lisp.Prefix
	site          int // index in Keyring.sites
	moreSpecifics bool
	wide          bool // another one is more specific
}

// newKeyring makes the snapshot of a configuration.
func newKeyring(c Config) *Keyring {
	k := &Keyring{
		parser:      wire.Parser{AcceptZeroInnerChecksum: c.AcceptZeroInnerChecksum},
		controlPort: c.ControlPort,
		itr:         c.ITR != nil,
		etr:         c.ETR != nil,
		mapServer:   c.MapServer != nil,
		mapResolver: c.MapResolver != nil,
	}
	if c.ETR != nil {
		k.peers = c.ETR.MapServers
	}
	if c.MapServer == nil {
		return k
	}
	k.sites = c.MapServer.Sites
	for i, s := range k.sites {
		for _, p := range s.Prefixes {
			k.prefixes.insert(p.Prefix, ownedPrefix{prefix: p.Prefix, site: i, moreSpecifics: p.AcceptMoreSpecifics})
		}
	}
	k.widen()
	return k
}

// widen marks the EID-Prefixes that cover others. In their order each comes right after those
// that cover it.
func (k *Keyring) widen() {
	var around, wide []ownedPrefix
	for p, owned := range k.prefixes.all() {
		for len(around) > 0 && !around[len(around)-1].prefix.Covers(p) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 {
			wide = append(wide, around[len(around)-1])
		}
		around = append(around, owned)
	}
	for _, owned := range wide {
		owned.wide = true
		k.prefixes.insert(owned.prefix, owned)
	}
}

// siteOf is the site of the first mapping that is of any.
func (k *Keyring) siteOf(mappings []lisp.Mapping) (int, *Refusal) {
	for i := range mappings {
		if _, owner, ok := k.prefixes.longest(mappings[i].Prefix); ok {
			return owner.site, nil
		}
	}
	refused := refuse(RefusedUnknownSite, "EID-Prefix %s belongs to no site", mappings[0].Prefix)
	refused.prefix = mappings[0].Prefix
	return 0, refused
}

// mayRegister says what stands against a site's registering an EID-Prefix.
func (k *Keyring) mayRegister(site int, p lisp.Prefix) *Refusal {
	match, owner, ok := k.prefixes.longest(p)
	switch {
	case !ok || owner.site != site:
		return refuse(RefusedPrefixOutsideSite, "EID-Prefix %s is not of site %s", p, k.sites[site].Name)
	case match != p && !owner.moreSpecifics:
		return refuse(RefusedMoreSpecific, "EID-Prefix %s is more specific than %s, which site %s must register as it is",
			p, match, k.sites[site].Name)
	}
	return nil
}

// authenticateSite checks a message's authentication data with the site's key, and says
// what they cover.
func authenticateSite(site *Site, b []byte, keyID, algorithm uint8) (Key, wire.Coverage, *Refusal) {
	for _, key := range site.Keys {
		if key.ID == keyID {
			covered, refused := authenticate(key, b, algorithm)
			return key, covered, refused
		}
	}
	return Key{}, wire.CoverDefault, refuse(RefusedUnknownKey, "site %s has no key %d", site.Name, keyID)
}

// authenticatePeer finds the Map-Server that a Map-Notify is from: the one with
// that address, or, because a Map-Server may answer from another of its addresses,
// any whose key fits.
func (k *Keyring) authenticatePeer(from netip.Addr, b []byte, keyID, algorithm uint8) (peerID, *Refusal) {
	var refused *Refusal
	for _, sameAddress := range []bool{true, false} {
		for i := range k.peers {
			p := &k.peers[i]
			key, known := p.keyOf(keyID)
			if (p.Address.Addr() == from) != sameAddress || !known {
				continue
			}
			if _, refused = authenticate(key, b, algorithm); refused == nil {
				return p.id(), nil
			}
		}
	}
	if refused == nil {
		refused = refuse(RefusedUnknownPeer, "no Map-Server at %s is configured, and none has key %d", from, keyID)
	}
	return peerID{}, refused
}

// authenticate insists on the key's own algorithm: who may choose another could
// choose a weaker one.
func authenticate(key Key, b []byte, algorithm uint8) (wire.Coverage, *Refusal) {
	if algorithm != key.Algorithm {
		return wire.CoverDefault, refuse(RefusedAlgorithm, "algorithm %d, key %d is for algorithm %d", algorithm, key.ID, key.Algorithm)
	}
	covered, err := wire.VerifiedCoverage(b, key.Secret)
	if err != nil {
		return covered, refuse(RefusedAuthentication, "key %d: %w: the secrets differ, or the message was changed on its way", key.ID, err)
	}
	return covered, nil
}

// refuse makes a Refusal.
func refuse(reason Counter, format string, arguments ...any) *Refusal {
	return &Refusal{Reason: reason, Err: fmt.Errorf(format, arguments...)}
}
