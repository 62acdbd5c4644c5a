// SPDX-License-Identifier: Apache-2.0

package lisp

// Path: the hops that packets take to a locator (RFC 8060 s.4.6, Explicit Locator Path). A plain RLOC is the path of one hop.
// The hops are a locator's identity; their bits L, P and S are attributes.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
)

// MaxHops is how many hops a path may have.
const MaxHops = 8

// Path identifies a locator by its hops. It is comparable.
type Path struct {
	RLOC   RLOC // the first hop
	Behind Hops // the hops behind it, none for a plain RLOC
}

// Hops are up to MaxHops - 1 hops behind the first one of a path, in order. They are comparable; the zero value is no hop. Of
// each hop it holds the family, the port and the address.
type Hops string

const hopOctets = 1 + 2 + 16

// PathTo is the path of one hop.
func PathTo(r RLOC) Path { return Path{RLOC: r} }

// NewPath makes a path of its hops, of which the first is sent to first. It refuses what Path.Valid refuses.
func NewPath(hops ...RLOC) (Path, error) {
	if len(hops) == 0 || len(hops) > MaxHops {
		return Path{}, fmt.Errorf("path of %d hops: want 1 to %d", len(hops), MaxHops)
	}
	p := Path{RLOC: hops[0], Behind: hopsOf(hops[1:])}
	return p, p.Valid()
}

func hopsOf(hops []RLOC) Hops {
	b := make([]byte, 0, len(hops)*hopOctets)
	for _, r := range hops {
		b = append(binary.BigEndian.AppendUint16(append(b, r.family), r.port), r.raw[:]...)
	}
	return Hops(b)
}

// Len is how many hops there are.
func (h Hops) Len() int { return len(h) / hopOctets }

// At is one of the hops, counted from 0.
func (h Hops) At(i int) RLOC {
	octets := h[i*hopOctets:][:hopOctets]
	return RLOC{family: octets[0], port: uint16(octets[1])<<8 | uint16(octets[2]), raw: [16]byte([]byte(octets[3:]))}
}

// Len is how many hops the path has, 1 for a plain RLOC.
func (p Path) Len() int { return 1 + p.Behind.Len() }

// Hop is one of the path's hops, counted from 0.
func (p Path) Hop(i int) RLOC {
	if i == 0 {
		return p.RLOC
	}
	return p.Behind.At(i - 1)
}

// Hops are all hops of the path, in order.
func (p Path) Hops() []RLOC {
	hops := make([]RLOC, p.Len())
	for i := range hops {
		hops[i] = p.Hop(i)
	}
	return hops
}

// Last is the last hop of the path: the RLOC of the ETR.
func (p Path) Last() RLOC { return p.Hop(p.Behind.Len()) }

// Index is the place of the hop with an address, whatever its port, or -1.
func (p Path) Index(r RLOC) int {
	for i := range p.Len() {
		if p.Hop(i).Addr() == r.Addr() {
			return i
		}
	}
	return -1
}

// IsPlain reports whether the path has one hop.
func (p Path) IsPlain() bool { return p.Behind == "" }

// IsZero reports whether there is no hop at all.
func (p Path) IsZero() bool { return p == Path{} }

// Valid says why no packet can take the path: a hop that cannot be a locator, one that it meets twice, or too many.
func (p Path) Valid() error {
	if len(p.Behind)%hopOctets != 0 || p.Len() > MaxHops {
		return fmt.Errorf("path of %d hops: want 1 to %d", p.Len(), MaxHops)
	}
	for i := range p.Len() {
		if err := p.Hop(i).Valid(); err != nil {
			return fmt.Errorf("hop %d: %w", i+1, err)
		}
		if at := p.Index(p.Hop(i)); at != i {
			return fmt.Errorf("hop %d: %s is hop %d already: a path must not meet a router twice", i+1, p.Hop(i), at+1)
		}
	}
	return nil
}

// Compare orders paths by their hops, each as RFC 9301 s.5.5 orders locators; a path comes before the longer ones that begin
// with it.
func (p Path) Compare(o Path) int {
	return cmp.Or(p.RLOC.Compare(o.RLOC), strings.Compare(string(p.Behind), string(o.Behind)))
}

// String is the hops with arrows; a plain RLOC is itself.
func (p Path) String() string {
	if p.IsPlain() {
		return p.RLOC.String()
	}
	texts := make([]string, p.Len())
	for i := range texts {
		texts[i] = p.Hop(i).String()
	}
	return strings.Join(texts, " -> ")
}

// HopBits are what an explicit locator path says of one hop (RFC 8060 s.4.6).
type HopBits uint8

// The bits.
const (
	HopStrict HopBits = 1 << iota // S: the hop must not be skipped
	HopProbe                      // P: RLOC-probes may be sent to it directly
	HopLookup                     // L: the hop is an EID, to be looked up
	// HopExplicit says that the hop came in an explicit locator path, which tells one of a single hop from a plain RLOC.
	HopExplicit
)

// PathBits are the bits of a path's hops.
type PathBits [MaxHops]HopBits

// Has reports whether a hop has all of those bits.
func (b *PathBits) Has(hop int, bits HopBits) bool { return b[hop]&bits == bits }
