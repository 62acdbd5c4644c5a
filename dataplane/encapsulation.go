// SPDX-License-Identifier: Apache-2.0

package dataplane

// How packets to a locator are encapsulated (RFC 9300 s.5, RFC 9305). What comes in as
// LISP-GPE is taken in any case; VXLAN-GPE where a rule names it.

import (
	"fmt"
	"net/netip"
	"slices"

	"loci/lisp"
)

// MaxEncapsulations is how many rules Settings may have.
const MaxEncapsulations = 256

// Encapsulation is what stands between UDP and the inner packet.
type Encapsulation uint8

// The encapsulations.
const (
	EncapsulationLISP     Encapsulation = iota
	EncapsulationLISPGPE                // RFC 9305 s.3
	EncapsulationVXLANGPE               // UDP port 4790, the Instance-ID as VNI
)

// EncapsulationRule says how packets go to RLOCs within a prefix. The zero prefix
// is all of them.
type EncapsulationRule struct {
	RLOCs         netip.Prefix
	Encapsulation Encapsulation
}

// EncapsulationTo is what the first rule says that an RLOC is within, else LISP.
func (s *Settings) EncapsulationTo(r lisp.RLOC) Encapsulation {
	for _, rule := range s.Encapsulations {
		if !rule.RLOCs.IsValid() || rule.RLOCs.Contains(r.Addr()) {
			return rule.Encapsulation
		}
	}
	return EncapsulationLISP
}

// TakesVXLANGPE reports whether a rule names VXLAN-GPE.
func (s *Settings) TakesVXLANGPE() bool {
	return slices.ContainsFunc(s.Encapsulations, func(r EncapsulationRule) bool { return r.Encapsulation == EncapsulationVXLANGPE })
}

// CheckEncapsulations says what of the rules cannot be; ErrInvalid.
func (s *Settings) CheckEncapsulations() error {
	if len(s.Encapsulations) > MaxEncapsulations {
		return fmt.Errorf("%d rules for encapsulations, at most %d: %w", len(s.Encapsulations), MaxEncapsulations, ErrInvalid)
	}
	for _, r := range s.Encapsulations {
		if r.Encapsulation > EncapsulationVXLANGPE {
			return fmt.Errorf("encapsulation %d: %w", r.Encapsulation, ErrInvalid)
		}
	}
	return nil
}
