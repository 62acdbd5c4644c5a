// SPDX-License-Identifier: Apache-2.0

package lispnat

// What is to be translated, and by which packets' properties it is recognised.

import (
	"net/netip"
	"slices"

	"loci/config"
	"loci/config/translation"
	"loci/dataplane"
)

// mark is what the kernel's data plane sets in the mark of a packet that it leaves to the stack because of a negative
// mapping. The first chain of the table takes it away: no rule and no route of others sees it.
const mark = dataplane.NativeMark

// zone is the zone of connection tracking of EIDs' sessions (s.7.1). In user space packets pass connection tracking
// twice, with the kernel's data plane possibly: before and after the mapping is known. The second pass is the one that
// counts.
const zone = 0x4341

// Spec is what a table is made from.
type Spec struct {
	Entries     []Entry
	Sites       []string // interfaces to the site
	LISP        string   // the LISP interface
	Marked      bool     // mark is on packets to hosts outside LISP; else they come in by the LISP interface
	ControlPort uint16
	RLOCs       []netip.Addr // of this router
}

// Entry is one of the configuration.
type Entry struct {
	translation.Entry
	EIDs bool // the sources are EIDs: their packets are translated only to hosts outside LISP
}

// SpecOf is what a configuration asks for; nil for nothing. marked says that the kernel's data plane forwards.
func SpecOf(c *config.Config, marked bool) *Spec {
	if c.ITR == nil || len(c.ITR.LISPNAT) == 0 {
		return nil
	}
	site := translation.Site{EIDPrefixes: c.ETR.EIDPrefixes()}
	s := &Spec{LISP: c.Datapath.Interface, Marked: marked, ControlPort: c.Control.Port}
	for _, e := range c.ITR.LISPNAT {
		s.Entries = append(s.Entries, Entry{e, site.OfEIDs(e.From)})
	}
	return s
}

func (s *Spec) equal(other *Spec) bool {
	if s == nil || other == nil {
		return s == other
	}
	return slices.Equal(s.Entries, other.Entries) && slices.Equal(s.Sites, other.Sites) && s.LISP == other.LISP &&
		s.Marked == other.Marked && s.ControlPort == other.ControlPort && slices.Equal(s.RLOCs, other.RLOCs)
}

// unusable finds an RLOC of this router in a pool where it cannot be: in that of EIDs, whose packets have a zone that
// the router's own have not, and in user space, where packets from an RLOC count as the router's own.
func (s *Spec) unusable() (rloc netip.Addr, found bool) {
	for _, e := range s.Entries {
		for _, rloc := range s.RLOCs {
			if e.Pool.Contains(rloc) && (e.EIDs || !s.Marked) {
				return rloc, true
			}
		}
	}
	return netip.Addr{}, false
}

// tableName names the table beside a LISP interface: several routers may share a host.
func tableName(lispInterface string) string { return "lisp-nat-" + lispInterface }

// MarksNative reports whether a configuration has packets translated that negative mappings leave to the stack.
func MarksNative(c *config.Config) bool {
	s := SpecOf(c, true)
	return s != nil && slices.ContainsFunc(s.Entries, func(e Entry) bool { return e.EIDs })
}
