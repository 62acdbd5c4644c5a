// SPDX-License-Identifier: Apache-2.0

// Package probing is the section itr.rloc-probing: whether and how often the RLOCs of other routers are asked whether
// they answer (RFC 9301 s.7.1). It reads no file.
package probing

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/config/codec"
	"loci/lisp"
)

// RLOCProbing tests whether the locators of the map-cache, and peers, answer.
type RLOCProbing struct {
	Enabled         bool          `key:"enabled"`
	Interval        time.Duration `key:"interval" unit:"seconds" range:"10ms..24h"`
	Retries         int           `key:"retries" range:"0..100"`
	RetriesInterval time.Duration `key:"retries-interval" unit:"seconds" range:"10ms..24h"`
	// AcceptNonAuthoritative takes an answer without A bit, against RFC 9301 s.5.4, as a sign that the probed RLOC
	// answers.
	AcceptNonAuthoritative bool `key:"accept-non-authoritative"`
	// Peers are RLOCs that are probed though no mapping names them.
	Peers []netip.Addr `key:"peers" max:"64"`
}

// SetDefaults sets what a section has that says nothing.
func (r *RLOCProbing) SetDefaults() {
	*r = RLOCProbing{Enabled: true, Interval: 10 * time.Second, Retries: 3, RetriesInterval: time.Second}
}

// Surroundings are the rest of a configuration.
type Surroundings struct {
	Has func(path string) bool // the file has a value there
	// the file says that an address is this host's: refused elsewhere
	IsNamed  func(netip.Addr) bool
	PrefixOf func(netip.Addr) (own lisp.Prefix, ok bool) // the site's own EID-Prefix that has an address
	RLOCs    []netip.Addr                                // of this router, by itr.itr-rlocs
}

// Report takes what is wrong with the value at a path of the configuration.
type Report func(path, message, hint string)

const section = "itr.rloc-probing."

// Check fits the default of retries-interval to a short interval, and reports what is wrong.
func (r *RLOCProbing) Check(s Surroundings, fail, warn Report) {
	const path = section + "retries-interval"
	switch given := s.Has(path); {
	case r.RetriesInterval <= r.Interval:
	case given:
		fail(path, fmt.Sprintf("retries-interval: %s is longer than interval, %s", codec.DurationText(r.RetriesInterval), codec.DurationText(r.Interval)), "want at most the interval")
	default:
		r.RetriesInterval = r.Interval
	}
	for i, a := range r.Peers {
		if message, hint := s.mistake(a, r.Peers[:i]); message != "" {
			fail(fmt.Sprintf("%speers[%d]", section, i), message, hint)
		}
	}
	if len(r.Peers) > 0 && !r.Enabled {
		warn(section+"peers", "peers are not probed: itr.rloc-probing.enabled is false",
			"remove enabled: false, or peers")
	}
}

// mistake is what is wrong with a peer, behind others: it is no RLOC of another router.
func (s *Surroundings) mistake(a netip.Addr, before []netip.Addr) (message, hint string) {
	own, isEID := s.PrefixOf(a)
	switch err := lisp.RLOCFromAddr(a).Valid(); {
	case s.IsNamed(a):
		return "", ""
	case err != nil:
		return err.Error(), "want an address that other systems reach"
	case a.IsMulticast():
		return fmt.Sprintf("peers: %s is a multicast address", a), "want the RLOC of one router"
	case isEID:
		return fmt.Sprintf("peers: %s is inside the site's own EID-Prefix %s", a, own),
			"want an address of the core"
	case slices.Contains(before, a):
		return fmt.Sprintf("peers: %s stands there twice", a), "remove one of the two"
	case slices.Contains(s.RLOCs, a):
		return fmt.Sprintf("peers: %s is an RLOC of this router, by itr.itr-rlocs", a),
			"want the RLOC of another router"
	}
	return "", ""
}
