// SPDX-License-Identifier: Apache-2.0

package config

// Explicit locator paths (RFC 8060 s.4.6) as locators: one to eight hops with the bits L, P and S, under the names of
// ietf-lisp-address-types. Values with a form of their own in the file; they are comparable.

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"loci/config/codec"
	"loci/config/multipath"
	"loci/config/source"
	"loci/lisp"
)

// Hop is a router on a path.
type Hop struct {
	Address netip.Addr `key:"address" required:"true"`
	Port    uint16     `key:"port" range:"1..65535"` // of the data plane, which a NAT may have changed
	Bits    LRSBits    `key:"lrs-bits" oneof:"lookup,rloc-probe,strict"`
}

// RLOC is the hop's address and port.
func (h Hop) RLOC() lisp.RLOC { return rlocOf(h.Address, h.Port) }

// rlocOf is an RLOC, whose port counts where it is not that of the data plane.
func rlocOf(a netip.Addr, port uint16) lisp.RLOC {
	if port == dataPort {
		port = 0
	}
	return lisp.RLOCFromAddr(a).WithPort(port)
}

// RLOC is the address and port of a locator that has them.
func (l Locator) RLOC() lisp.RLOC { return rlocOf(l.Address, l.Port) }

// LRSBits are the bits L, P and S of a hop.
type LRSBits = multipath.LRSBits

// ExplicitPath is the hops of a path, none for a locator that is not one.
type ExplicitPath struct {
	hops  [lisp.MaxHops]Hop
	count int
	given bool // the key stands in the file, whatever is there
}

// Hops are the hops in order.
func (p *ExplicitPath) Hops() []Hop { return p.hops[:p.count] }

// IsZero reports whether the locator is no path.
func (p *ExplicitPath) IsZero() bool { return p.count == 0 }

// Path is the path with the bits of its hops; an error names the hop that cannot be.
func (p *ExplicitPath) Path() (path lisp.Path, bits lisp.PathBits, err error) {
	rlocs := make([]lisp.RLOC, p.count)
	for i, h := range p.Hops() {
		rlocs[i], bits[i] = h.RLOC(), lisp.HopBits(h.Bits)|lisp.HopExplicit
	}
	path, err = lisp.NewPath(rlocs...)
	return path, bits, err
}

// withoutBits is the path by its hops alone, which is what tells paths apart.
func (p ExplicitPath) withoutBits() ExplicitPath {
	for i := range p.hops {
		p.hops[i].Bits = 0
	}
	return p
}

// String is the hops with arrows.
func (p *ExplicitPath) String() string {
	words := make([]string, p.count)
	for i, h := range p.Hops() {
		words[i] = h.RLOC().String()
	}
	return strings.Join(words, " -> ")
}

// DecodeNode reads a list of hops.
func (p *ExplicitPath) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	var hops []Hop
	d.List(n, reflect.ValueOf(&hops).Elem(), `max:"8"`, path)
	p.given, p.count = true, copy(p.hops[:], hops)
}

// EncodeNode is the list of the hops, nil for a locator that is no path.
func (p ExplicitPath) EncodeNode() *source.Node {
	if p.IsZero() {
		return nil
	}
	return codec.Encode(reflect.ValueOf(p.Hops()))
}

// DecodeNode reads "192.0.2.1" or {address: 192.0.2.1, lrs-bits: [strict]}.
func (h *Hop) DecodeNode(d *codec.Decoder, n *source.Node, path string) {
	if n.Kind != source.Word {
		d.Section(n, reflect.ValueOf(h).Elem(), path)
		return
	}
	d.Word(n, reflect.ValueOf(&h.Address).Elem(), "", path)
}

// EncodeNode leaves out what the hop does not have.
func (h Hop) EncodeNode() *source.Node {
	return without(codec.EncodeSection(reflect.ValueOf(h)), map[string]bool{"port": h.Port == dataPort})
}

// validatePath checks the hops of a locator that is a path.
func validatePath(c *Config, p *ExplicitPath, at string) {
	at += ".explicit-locator-path"
	if p.count == 0 {
		c.fail(at, "explicit-locator-path: the path is empty", fmt.Sprintf("want 1 to %d hops, the last of them the ETR: explicit-locator-path: [{address: ADDRESS}]", lisp.MaxHops))
		return
	}
	lookups := 0
	for i, h := range p.Hops() {
		hop := fmt.Sprintf("%s[%d]", at, i)
		if err := h.RLOC().Valid(); err != nil {
			c.fail(hop, fmt.Sprintf("hop %d: %s", i+1, err), "want an address that other systems reach")
			return
		}
		if h.Bits&LRSBits(lisp.HopLookup) != 0 {
			lookups++
		}
		if first := slices.IndexFunc(p.Hops(), func(o Hop) bool { return o.Address == h.Address }); first < i {
			c.fail(hop, fmt.Sprintf("hop %d: %s is hop %d already", i+1, h.Address, first+1), "a path must not meet a router twice")
		}
		if own, ok := c.ownPrefixOf(h.Address); ok && h.Bits&LRSBits(lisp.HopLookup) == 0 {
			c.fail(hop, fmt.Sprintf("hop %d: %s is inside the site's own EID-Prefix %s", i+1, h.Address, own), "want an address of the core")
		}
	}
	if lookups == p.count {
		c.fail(at, "explicit-locator-path: every hop has the bit lookup: all are EIDs, and packets can be sent to none", "leave lookup out at hops that are RLOCs")
	}
}

// validatePathPlaces refuses paths and ports where they mean nothing.
func validatePathPlaces(c *Config) {
	for _, r := range c.rlocs() {
		for i, l := range c.setOf(r.RLOCs) {
			at, label := fmt.Sprintf("%s[%d]", r.path, i), source.Label(r.path)
			if r.Name != "" {
				at, label = r.path, fmt.Sprintf("%s: locator-set %s", label, r.Name)
			}
			if !l.Path.IsZero() && !r.paths {
				c.fail(at, fmt.Sprintf("%s: %s is an explicit locator path", label, l), "want plain locators here: paths are for etr.local-eids and itr.map-cache.mappings")
			}
			if l.hasPort() && !r.static {
				c.fail(at, fmt.Sprintf("%s: %s has a port", label, l), "want no port here: another router's port behind a NAT is named in itr.map-cache.mappings alone")
			}
		}
	}
}

// hasPort reports whether packets to the locator go to another port than that of the data plane.
func (l *Locator) hasPort() bool {
	return l.Port != dataPort || slices.ContainsFunc(l.Path.Hops(), func(h Hop) bool { return h.Port != dataPort })
}

// firstHop is where packets to the locator go first: the address, or the first hop of a path.
func (l *Locator) firstHop() netip.Addr {
	if !l.Path.IsZero() {
		return l.Path.hops[0].Address
	}
	return l.Address
}
