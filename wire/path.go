// SPDX-License-Identifier: Apache-2.0

package wire

// Explicit Locator Paths as package lisp's locators, and back (RFC 8060 s.4.6). A path has one to eight hops, each an IPv4 or IPv6
// address that may be a locator, and meets none of them twice. Reserved bits are ignored, and sent as 0. A port of an RLOC is no part
// of these formats: such a locator is refused, not sent without its port.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"loci/lisp"
)

var (
	errNotSendable = errors.New("no packet can be sent to this address alone")
	errRepeated    = errors.New("this locator stands there twice")
	errTwoPaths    = errors.New("2 Explicit Locator Paths stand there: which one packets are to take is not said")
)

// PathOf is the path that packets for a locator take, with the bits of its hops: the hops of an Explicit Locator Path, which wins over
// addresses in the same AFI-List, else the one that RLOCOf has. The error says why there is none.
func PathOf(a Address) (lisp.Path, lisp.PathBits, error) {
	switch p, err := explicitIn(a); {
	case err != nil:
		return lisp.Path{}, lisp.PathBits{}, err
	case p != nil:
		return p.path()
	}
	r, ok := RLOCOf(a)
	if !ok {
		return lisp.Path{}, lisp.PathBits{}, errNotSendable
	}
	return lisp.PathTo(r), lisp.PathBits{}, r.Valid()
}

// explicitIn is the Explicit Locator Path that an address is, has in an AFI-List, or decorates; nil without one. To take an address
// beside it would bypass its hops. It errs where there are two, and where the path is of another Instance-ID or encapsulation.
func explicitIn(a Address) (path *ExplicitLocatorPathLCAF, err error) {
	switch a := a.(type) {
	case IPv4, IPv6:
	case *ExplicitLocatorPathLCAF:
		return a, nil
	case *AFIListLCAF:
		for _, entry := range a.Addresses {
			p, err := explicitIn(entry)
			switch {
			case err != nil:
				return nil, err
			case p != nil && path != nil:
				return nil, errTwoPaths
			case p != nil:
				path = p
			}
		}
	case decorator:
		if path, err = explicitIn(a.decorated()); path != nil && changesMeaning(a) {
			return nil, errNotSendable
		}
	}
	return path, err
}

func (a *ExplicitLocatorPathLCAF) path() (lisp.Path, lisp.PathBits, error) {
	var hops [lisp.MaxHops]lisp.RLOC
	var bits lisp.PathBits
	if len(a.Hops) > len(hops) {
		return lisp.Path{}, bits, fmt.Errorf("path of %d hops: want 1 to %d", len(a.Hops), lisp.MaxHops)
	}
	for i := range a.Hops {
		h := &a.Hops[i]
		switch h.Address.(type) {
		case IPv4, IPv6:
		default:
			return lisp.Path{}, bits, fmt.Errorf("hop %d: %s is not an IP address", i+1, show(h.Address))
		}
		r, ok := RLOCOf(h.Address)
		if !ok {
			return lisp.Path{}, bits, fmt.Errorf("hop %d: %s: %w", i+1, h.Address, errNotSendable)
		}
		hops[i], bits[i] = r, h.bits()
	}
	p, err := lisp.NewPath(hops[:len(a.Hops)]...)
	return p, bits, err
}

func (h *PathHop) bits() lisp.HopBits {
	bits := lisp.HopExplicit
	if h.Lookup {
		bits |= lisp.HopLookup
	}
	if h.Probe {
		bits |= lisp.HopProbe
	}
	if h.Strict {
		bits |= lisp.HopStrict
	}
	return bits
}

// isExplicit reports whether a locator goes on the wire as an Explicit Locator Path.
func isExplicit(l *lisp.Locator) bool { return l.Behind != "" || l.Bits[0] != 0 }

// pathAddress is a locator's path as an address.
func pathAddress(l *lisp.Locator) Address {
	path := l.Path()
	a := &ExplicitLocatorPathLCAF{Hops: make([]PathHop, path.Len())}
	for i := range a.Hops {
		a.Hops[i] = PathHop{
			Lookup: l.Bits.Has(i, lisp.HopLookup), Probe: l.Bits.Has(i, lisp.HopProbe), Strict: l.Bits.Has(i, lisp.HopStrict),
			Address: RLOCAddress(path.Hop(i)),
		}
	}
	return a
}

// appendPath appends pathAddress of a locator, without memory for it.
func appendPath(b []byte, l *lisp.Locator) ([]byte, error) {
	b, at := beginLCAF(b, LCAFExplicitLocatorPath, 0)
	path := l.Path()
	for i := range path.Len() {
		flags := bit16(l.Bits.Has(i, lisp.HopLookup), hopLookup) | bit16(l.Bits.Has(i, lisp.HopProbe), hopProbe) |
			bit16(l.Bits.Has(i, lisp.HopStrict), hopStrict)
		var err error
		if b, err = appendRLOC(binary.BigEndian.AppendUint16(b, flags), path.Hop(i)); err != nil {
			return b, fmt.Errorf("hop %d: %w", i+1, err)
		}
	}
	return endLCAF(b, at)
}

// appendRLOC appends RLOCAddress of an RLOC, without memory for it.
func appendRLOC(b []byte, r lisp.RLOC) ([]byte, error) {
	switch {
	case r.Port() != 0:
		return portedRLOC(r).appendTo(b)
	case r.Is4():
		return IPv4(r.Addr().As4()).appendTo(b)
	case r.Is6():
		return IPv6(r.Addr().As16()).appendTo(b)
	}
	return NoAddress{}.appendTo(b)
}

// portedRLOC is an RLOC behind a port, which no plain address can say.
type portedRLOC lisp.RLOC

// AFI is that of the address.
func (r portedRLOC) AFI() AFI { return RLOCAddress(lisp.RLOC(r).WithPort(0)).AFI() }

// String is the address and the port.
func (r portedRLOC) String() string { return lisp.RLOC(r).String() }

func (r portedRLOC) appendTo(b []byte) ([]byte, error) {
	return b, fmt.Errorf("RLOC %s: a port cannot be sent in a plain address", r)
}

// SkippedLocator is a locator of a record that Mapping leaves out.
type SkippedLocator struct {
	Address string
	Reason  string
}

// maxSkippedText bounds the words about an address.
const maxSkippedText = 128

// Skipped lists the locators that Mapping leaves out, with the reasons; at most lisp.MaxLocators of them.
func (rec *Record) Skipped() []SkippedLocator {
	var skipped []SkippedLocator
	var used []lisp.Locator
	for i := range rec.Locators {
		l, err := rec.Locators[i].locator()
		if err == nil && containsPath(used, &l) {
			err = errRepeated
		}
		if err == nil {
			used = append(used, l)
			continue
		}
		if len(skipped) < lisp.MaxLocators {
			skipped = append(skipped, SkippedLocator{Address: cut(show(rec.Locators[i].Address)), Reason: cut(err.Error())})
		}
	}
	return skipped
}

func cut(text string) string {
	if len(text) <= maxSkippedText {
		return text
	}
	return text[:maxSkippedText] + "…"
}
