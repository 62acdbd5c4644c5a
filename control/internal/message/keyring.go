// SPDX-License-Identifier: Apache-2.0

package message

// Keyring: the part of the configuration that is needed to parse and to
// authenticate (RFC 9301 s.5.6, s.5.7, s.9), immutable, so that this runs outside
// the goroutine that owns the Node.

import (
	"net/netip"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/control/internal/table"
	"loci/lisp"
	"loci/wire"
)

// Keyring is what Inspect needs of a configuration. It never changes.
type Keyring struct {
	parser      wire.Parser
	controlPort uint16
	itr         bool
	etr         bool
	relay       bool // RTR or PETR, which answer RLOC-probes
	mapServer   bool
	mapResolver bool
	sites       []settings.Site
	Prefixes    table.Prefixes[OwnedPrefix]
	peers       []settings.MapServerPeer
	natRelay    *settings.NATRelay // of an RTR of nodes behind NATs, nil otherwise
}

// OwnedPrefix is an EID-Prefix of the Map-Server's configuration.
type OwnedPrefix struct {
	Prefix        lisp.Prefix
	Site          int // index in Keyring.sites
	MoreSpecifics bool
	Wide          bool // another one is more specific
}

// NewKeyring makes the snapshot of a configuration.
func NewKeyring(c settings.Config) *Keyring {
	k := &Keyring{
		parser:      wire.Parser{AcceptZeroInnerChecksum: c.AcceptZeroInnerChecksum, KeepAddresses: true},
		controlPort: c.ControlPort,
		itr:         c.ITR != nil,
		etr:         c.ETR != nil,
		relay:       len(c.Roles) > 0 || c.NATRelay != nil,
		mapServer:   c.MapServer != nil,
		mapResolver: c.MapResolver != nil,
		natRelay:    c.NATRelay,
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
			k.Prefixes.Insert(p.Prefix, OwnedPrefix{Prefix: p.Prefix, Site: i, MoreSpecifics: p.AcceptMoreSpecifics})
		}
	}
	k.widen()
	return k
}

// widen marks the EID-Prefixes that cover others. In their order each comes right after those
// that cover it.
func (k *Keyring) widen() {
	var around, wide []OwnedPrefix
	for p, owned := range k.Prefixes.All() {
		for len(around) > 0 && !around[len(around)-1].Prefix.Covers(p) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 {
			wide = append(wide, around[len(around)-1])
		}
		around = append(around, owned)
	}
	for _, owned := range wide {
		owned.Wide = true
		k.Prefixes.Insert(owned.Prefix, owned)
	}
}

// siteOf is the site of the first mapping that is of any.
func (k *Keyring) siteOf(mappings []lisp.Mapping) (int, *Refusal) {
	for i := range mappings {
		if _, owner, ok := k.Prefixes.Longest(mappings[i].Prefix); ok {
			return owner.Site, nil
		}
	}
	refused := Refuse(counter.RefusedUnknownSite, "EID-Prefix %s belongs to no site", mappings[0].Prefix)
	refused.Prefix = mappings[0].Prefix
	return 0, refused
}

// mayRegister says what stands against a site's registering an EID-Prefix.
func (k *Keyring) mayRegister(site int, p lisp.Prefix) *Refusal {
	match, owner, ok := k.Prefixes.Longest(p)
	switch {
	case !ok || owner.Site != site:
		return Refuse(counter.RefusedPrefixOutsideSite, "EID-Prefix %s is not of site %s", p, k.sites[site].Name)
	case match != p && !owner.MoreSpecifics:
		return Refuse(counter.RefusedMoreSpecific, "EID-Prefix %s is more specific than %s, which site %s must register as it is",
			p, match, k.sites[site].Name)
	}
	return nil
}

// AuthenticateSite checks a message's authentication data with the site's key, and says
// what they cover.
func AuthenticateSite(site *settings.Site, b []byte, keyID, algorithm uint8) (settings.Key, wire.Coverage, *Refusal) {
	for _, key := range site.Keys {
		if key.ID == keyID {
			covered, refused := authenticate(key, b, algorithm)
			return key, covered, refused
		}
	}
	return settings.Key{}, wire.CoverDefault, Refuse(counter.RefusedUnknownKey, "site %s has no key %d", site.Name, keyID)
}

// authenticatePeer finds the Map-Server that a Map-Notify is from: the one with
// that address, or, because a Map-Server may answer from another of its addresses,
// any whose key fits.
func (k *Keyring) authenticatePeer(from netip.Addr, b []byte, keyID, algorithm uint8) (settings.PeerID, *Refusal) {
	var refused *Refusal
	for _, sameAddress := range []bool{true, false} {
		for i := range k.peers {
			p := &k.peers[i]
			key, known := p.KeyOf(keyID)
			if (p.Address.Addr() == from) != sameAddress || !known {
				continue
			}
			if _, refused = authenticate(key, b, algorithm); refused == nil {
				return p.ID(), nil
			}
		}
	}
	if refused == nil {
		refused = Refuse(counter.RefusedUnknownPeer, "no Map-Server at %s is configured, and none has key %d", from, keyID)
	}
	return settings.PeerID{}, refused
}

// authenticate insists on the key's own algorithm: who may choose another could
// choose a weaker one.
func authenticate(key settings.Key, b []byte, algorithm uint8) (wire.Coverage, *Refusal) {
	if algorithm != key.Algorithm {
		return wire.CoverDefault, Refuse(counter.RefusedAlgorithm, "algorithm %d, key %d is for algorithm %d", algorithm, key.ID, key.Algorithm)
	}
	covered, err := wire.VerifiedCoverage(b, key.Secret)
	if err != nil {
		return covered, Refuse(counter.RefusedAuthentication, "key %d: %w: the secrets differ, or the message was changed on its way", key.ID, err)
	}
	return covered, nil
}
