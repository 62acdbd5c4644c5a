// SPDX-License-Identifier: Apache-2.0

// Package golden reads the golden packets of testdata/packets: what a tunnel
// router makes of a packet (RFC 9300 s.4, s.5). Package forward and the programs
// in bpf/ are held against the same table. It is for tests alone and never decides
// whether a result is right.
package golden

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"

	"loci/lisp"
)

// File is where the table lies, seen from the root of the repository.
const File = "testdata/packets/golden.json"

// The offsets of the nonce in the LISP header, behind outer IPv4 and IPv6 headers.
const (
	nonceOctets = 3
	nonceInIPv4 = 20 + 8 + 1
	nonceInIPv6 = 40 + 8 + 1
)

// Table is the router that the packets come to, and the packets.
type Table struct {
	Router Router
	Cases  []Case
}

// Router is the configuration that all cases share.
type Router struct {
	LocalRLOCs  []netip.Addr  `json:"local_rlocs"`
	PathMTU     int           `json:"path_mtu"`
	Unreachable []netip.Addr  // RLOCs without a route
	Database    []lisp.Prefix // EID-prefixes of the site
	MapCache    []Mapping     `json:"map_cache"`
}

// Mapping is a map-cache entry of the router.
type Mapping struct {
	Prefix   lisp.Prefix
	Locators []Locator
	Action   lisp.Action
	Hold     bool
}

// Locator is a locator of a Mapping, reachable.
type Locator struct {
	RLOC     lisp.RLOC
	Priority uint8
	Weight   uint8
}

// Case is a packet and what becomes of it; generate.py says what the words mean.
type Case struct {
	Name         string
	Why          string
	Hook         string // site, core, local, tap, released
	Instance     lisp.InstanceID
	Segment      int // gso_size
	Marking      []string
	MissPolicy   string `json:"miss_policy"`
	Input        Hex
	Verdict      string
	Reason       string
	Output       Hex
	LargestInner int `json:"largest_inner"`
	Miss         bool
	Notes        []string
}

// Hex are octets, written as hexadecimal digits.
type Hex []byte

// UnmarshalText reads hexadecimal digits.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// Load reads the table of the repository at root.
func Load(root string) (*Table, error) {
	text, err := os.ReadFile(root + "/" + File)
	if err != nil {
		return nil, fmt.Errorf("golden packets: %w", err)
	}
	var t Table
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("golden packets in %s: %w", File, err)
	}
	return &t, nil
}

// LocatorSet makes the mapping's locators.
func (m Mapping) LocatorSet() (lisp.LocatorSet, error) {
	locators := make([]lisp.Locator, 0, len(m.Locators))
	for _, l := range m.Locators {
		locators = append(locators, lisp.Locator{RLOC: l.RLOC, Priority: l.Priority, Weight: l.Weight, Reachable: true})
	}
	return lisp.NewLocatorSet(locators...)
}

// Has reports whether the case asks for a marking.
func (c *Case) Has(marking string) bool {
	for _, m := range c.Marking {
		if m == marking {
			return true
		}
	}
	return false
}

// MaskNonce returns a copy of an encapsulated packet with the nonce zero, which is
// random in what is sent.
func MaskNonce(packet []byte) []byte {
	masked := append([]byte(nil), packet...)
	at := nonceInIPv4
	if len(masked) > 0 && masked[0]>>4 == 6 {
		at = nonceInIPv6
	}
	if len(masked) >= at+nonceOctets {
		clear(masked[at : at+nonceOctets])
	}
	return masked
}
