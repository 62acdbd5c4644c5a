// SPDX-License-Identifier: Apache-2.0

package settings

// What a configuration must fulfil before a Node takes it: what would break the
// protocol, or contradicts itself. Messages name the value and what is wanted.
// Nothing here knows files, lines or keys: package config does.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/lisp"
	"loci/wire"
)

// Validate says everything that is wrong with a configuration; nil when New and
// Configure will take it.
func (c Config) Validate() error {
	c = c.WithDefaults()
	errs := []error{validRLOCs(c.LocalRLOCs), c.Limits.validate(), c.validRoles(), c.NATRelay.validate(&c)}
	if c.ITR != nil {
		errs = append(errs, c.ITR.validate())
	}
	if c.ETR != nil {
		errs = append(errs, c.ETR.validate())
	}
	if c.ITR != nil && c.ETR != nil {
		errs = append(errs, reachableWithoutLISP(c.ITR.MapResolvers, c.ETR.Database))
	}
	if c.MapServer != nil {
		errs = append(errs, c.MapServer.validate(), validRTRs(c.MapServer.RTRs, c.ControlPort))
	}
	if c.MapResolver != nil {
		errs = append(errs, c.MapResolver.validate())
	}
	return errors.Join(errs...)
}

func validRLOCs(rlocs []lisp.RLOC) error {
	var errs []error
	seen := make(map[lisp.RLOC]bool)
	for _, r := range rlocs {
		switch err := r.Valid(); {
		case err != nil:
			errs = append(errs, fmt.Errorf("local RLOC: %w", err))
		case r.Addr().IsMulticast():
			errs = append(errs, fmt.Errorf("local RLOC %s is a multicast address", r))
		case r.Port() != 0:
			errs = append(errs, fmt.Errorf("local RLOC %s has a port", r))
		case seen[r]:
			errs = append(errs, fmt.Errorf("local RLOC %s stands there twice", r))
		}
		seen[r] = true
	}
	return errors.Join(errs...)
}

// reachableWithoutLISP: resolving a Map-Resolver's address must not need a
// Map-Resolver (RFC 9301 s.8.1).
func reachableWithoutLISP(resolvers []netip.AddrPort, database []DatabaseMapping) error {
	var errs []error
	for _, a := range resolvers {
		for _, d := range database {
			if d.Prefix.Contains(0, lisp.EIDFromAddr(a.Addr())) {
				errs = append(errs, fmt.Errorf("Map-Resolver %s is inside EID-Prefix %s: it must be an RLOC", a.Addr(), d.Prefix))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *ITRConfig) validate() error {
	var errs []error
	for _, a := range c.MapResolvers {
		errs = append(errs, validServer("Map-Resolver", a))
	}
	if len(c.StaticMappings) > 0 {
		seen := make(map[lisp.Prefix]bool)
		for _, m := range c.StaticMappings {
			errs = append(errs, validPrefix("static mapping", m.Prefix, seen), validLocators(m.Prefix, m.Locators, m.Version))
		}
	}
	errs = append(errs, c.RLOCProbing.validate(), validPeers(c.ProbedPeers))
	errs = append(errs, validProxyETRs(c.ProxyETRs))
	for i := range c.LocatorPolicies {
		errs = append(errs, c.LocatorPolicies[i].validate())
	}
	if c.UnlimitedTTL < 0 {
		errs = append(errs, fmt.Errorf("lifetime %s of mappings without a TTL is negative", c.UnlimitedTTL))
	}
	return errors.Join(errs...)
}

// validPeers are RLOCs that probes can be sent to, each once.
func validPeers(peers []lisp.RLOC) error {
	if len(peers) > MaxProbedPeers {
		return fmt.Errorf("%d peers are probed: want at most %d", len(peers), MaxProbedPeers)
	}
	var errs []error
	for i, r := range peers {
		switch err := r.Valid(); {
		case err != nil:
			errs = append(errs, fmt.Errorf("peer: %w", err))
		case r.Addr().IsMulticast() || r.Port() != 0:
			errs = append(errs, fmt.Errorf("peer %s is a multicast address or has a port", r))
		case slices.Contains(peers[:i], r):
			errs = append(errs, fmt.Errorf("peer %s stands there twice", r))
		}
	}
	return errors.Join(errs...)
}

func validProxyETRs(set lisp.LocatorSet) error {
	_, err := lisp.NewLocatorSet(set...)
	errs := []error{err}
	for _, l := range set {
		errs = append(errs, l.RLOC.Valid())
		if l.RLOC.Addr().IsMulticast() {
			errs = append(errs, errors.New("a multicast address"))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("proxy ETRs: %w", err)
	}
	return nil
}

// What RLOC-probing may be told: probes more often than a hundred times a second, or
// an answer awaited for longer than the interval, are mistakes.
const (
	minProbeInterval = 10 * time.Millisecond
	maxProbeInterval = 24 * time.Hour
	maxProbeRetries  = 100
)

func (c ProbingConfig) validate() error {
	switch {
	case c.Interval < minProbeInterval || c.Interval > maxProbeInterval:
		return fmt.Errorf("RLOC-probing interval %s: want %s to %s", c.Interval, minProbeInterval, maxProbeInterval)
	case c.RetriesInterval < minProbeInterval || c.RetriesInterval > c.Interval:
		return fmt.Errorf("RLOC-probing retries interval %s: want %s to the interval, %s", c.RetriesInterval, minProbeInterval, c.Interval)
	case c.Retries > maxProbeRetries:
		return fmt.Errorf("RLOC-probing retries %d: want at most %d", c.Retries, maxProbeRetries)
	}
	return nil
}

func (c *ETRConfig) validate() error {
	var errs []error
	peers := make(map[PeerID]bool)
	for _, p := range c.MapServers {
		errs = append(errs, validServer("Map-Server", p.Address), validKeys(fmt.Sprintf("Map-Server %s", p.Address), p.keys()))
		if peers[p.ID()] {
			errs = append(errs, fmt.Errorf("Map-Server %s stands there twice for one site", p.Address))
		}
		peers[p.ID()] = true
		if p.RegistrationInterval < time.Second {
			errs = append(errs, fmt.Errorf("Map-Server %s: registration interval %s: want a second or more", p.Address, p.RegistrationInterval))
		}
	}
	if q := c.QuickRegistrationInterval; q > 0 && q < minQuickRegistrationInterval {
		errs = append(errs, fmt.Errorf("quick registration interval %s: want %s or more (RFC 9301 s.8.2)", q, minQuickRegistrationInterval))
	}
	errs = append(errs, validSiblings(c.Siblings), c.NAT.validate())
	seen := make(map[lisp.Prefix]bool)
	for _, d := range c.Database {
		errs = append(errs, validPrefix("Database", d.Prefix, seen), validLocators(d.Prefix, d.Locators, d.Version), withoutPorts(d.Prefix, d.Locators))
	}
	return errors.Join(errs...)
}

func (c *MapServerConfig) validate() error {
	var errs []error
	names := make(map[string]bool)
	seen := make(map[lisp.Prefix]bool)
	for _, s := range c.Sites {
		if s.Name == "" || names[s.Name] {
			errs = append(errs, fmt.Errorf("site %q: want a name, and each name once", s.Name))
		}
		names[s.Name] = true
		errs = append(errs, s.validKeys(), s.Policy.validate(s.Name))
		if len(s.Prefixes) == 0 {
			errs = append(errs, fmt.Errorf("site %s has no EID-Prefix", s.Name))
		}
		for _, p := range s.Prefixes {
			errs = append(errs, validPrefix("site "+s.Name, p.Prefix, seen))
		}
	}
	if c.RegistrationTimeout < time.Second {
		errs = append(errs, fmt.Errorf("registration timeout %s: want a second or more", c.RegistrationTimeout))
	}
	return errors.Join(errs...)
}

func (s *Site) validKeys() error {
	if len(s.Keys) == 0 {
		return fmt.Errorf("site %s has no key", s.Name)
	}
	return validKeys("site "+s.Name, s.Keys)
}

func validKeys(of string, keys []Key) error {
	var errs []error
	ids := make(map[uint8]bool)
	for _, k := range keys {
		errs = append(errs, validKey(of, k))
		if ids[k.ID] {
			errs = append(errs, fmt.Errorf("%s has two keys with ID %d", of, k.ID))
		}
		ids[k.ID] = true
	}
	return errors.Join(errs...)
}

func (c *MapResolverConfig) validate() error {
	var errs []error
	for _, r := range c.MapServers {
		errs = append(errs, validServer("Map-Server of the Map-Resolver", r.Address))
		seen := make(map[lisp.Prefix]bool)
		for _, p := range r.Prefixes {
			errs = append(errs, validPrefix(fmt.Sprintf("Map-Server %s", r.Address), p, seen))
		}
	}
	return errors.Join(errs...)
}

func validServer(what string, a netip.AddrPort) error {
	switch {
	case !a.Addr().IsValid():
		return fmt.Errorf("%s has no address", what)
	case a.Addr().IsUnspecified() || a.Addr().IsMulticast():
		return fmt.Errorf("%s %s: want the address of one system", what, a.Addr())
	}
	return nil
}

func validKey(of string, k Key) error {
	switch {
	case len(k.Secret) == 0:
		return fmt.Errorf("%s: key %d is empty", of, k.ID)
	case wire.FullMACOctets(k.Algorithm) == 0:
		return fmt.Errorf("%s: key %d has algorithm %d, want 1, 2 or 3", of, k.ID, k.Algorithm)
	}
	return nil
}

func validPrefix(of string, p lisp.Prefix, seen map[lisp.Prefix]bool) error {
	switch {
	case p.Kind() == lisp.EIDNone:
		return fmt.Errorf("%s: an EID-Prefix is missing", of)
	case seen[p]:
		return fmt.Errorf("%s: EID-Prefix %s stands there twice", of, p)
	case p.Instance() > lisp.MaxInstanceID:
		return fmt.Errorf("%s: EID-Prefix %s: want an Instance-ID up to %d", of, p, lisp.MaxInstanceID)
	}
	seen[p] = true
	return nil
}

func validLocators(p lisp.Prefix, set lisp.LocatorSet, version uint16) error {
	var errs []error
	if _, err := lisp.NewLocatorSet(set...); err != nil {
		errs = append(errs, fmt.Errorf("EID-Prefix %s: %w", p, err))
	}
	for _, l := range set {
		errs = append(errs, validLocator(p, &l))
	}
	if version > lisp.MaxMapVersion {
		errs = append(errs, fmt.Errorf("EID-Prefix %s: Map-Version %d: want at most %d", p, version, lisp.MaxMapVersion))
	}
	return errors.Join(errs...)
}

func validLocator(p lisp.Prefix, l *lisp.Locator) error {
	if err := l.Path().Valid(); err != nil {
		return fmt.Errorf("EID-Prefix %s: %w", p, err)
	}
	lookups := 0
	for i, hop := range l.Path().Hops() {
		switch {
		case hop.Addr().IsMulticast() && l.Behind != "":
			return fmt.Errorf("EID-Prefix %s: locator %s: hop %d is a multicast address", p, l.Path(), i+1)
		case l.Bits.Has(i, lisp.HopLookup):
			lookups++
		}
	}
	if lookups == l.Path().Len() {
		return fmt.Errorf("EID-Prefix %s: locator %s: every hop has the bit lookup: one must be an RLOC", p, l.Path())
	}
	return nil
}

// withoutPorts: a port is told by no address that is registered.
func withoutPorts(p lisp.Prefix, set lisp.LocatorSet) error {
	for _, l := range set {
		for _, hop := range l.Path().Hops() {
			if hop.Port() != 0 {
				return fmt.Errorf("EID-Prefix %s: locator %s: a port cannot be registered", p, l.Path())
			}
		}
	}
	return nil
}

func (l Limits) validate() error {
	var errs []error
	for _, r := range l.rates() {
		errs = append(errs, r.Validate())
	}
	for _, n := range l.sizes() {
		if *n < 1 {
			errs = append(errs, fmt.Errorf("limit %d: want 1 or more", *n))
		}
	}
	return errors.Join(errs...)
}
