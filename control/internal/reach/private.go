// SPDX-License-Identifier: Apache-2.0

package reach

// Private RLOCs beside RTRs (draft-farinacci-lisp-lispers-net-nat s.10): the site is in our own network, or another one
// that has the same addresses. So such a locator is unconfirmed until its ETR answers an RLOC-probe about the EID-Prefix,
// and packets go to the RTRs.

import (
	"slices"

	"loci/control/internal/effect"
	"loci/lisp"
)

// isDoubted reports whether an RLOC of a mapping may be another host's.
func isDoubted(m *lisp.Mapping, r lisp.RLOC) bool {
	return r.IsPrivate() && slices.ContainsFunc(m.Locators, func(l lisp.Locator) bool {
		return l.Priority == lisp.PriorityRTR && l.Usable() && l.RLOC != r
	})
}

// doubt has packets sent to other locators, as long as there are any.
func (t *Table) doubt(l *Locator, reason effect.LocatorReason) {
	if l.doubted {
		t.Set(l, effect.LocatorUnconfirmed, reason)
	}
}

// isNew reports whether a doubted locator has not been up yet: one answer is enough.
func (l *Locator) isNew() bool { return l.doubted && l.downAt == 0 }

// speaksFor reports whether an answer has the mapping of an EID-Prefix, or of a part of it.
func speaksFor(mappings []lisp.Mapping, p lisp.Prefix) bool {
	return slices.ContainsFunc(mappings, func(m lisp.Mapping) bool {
		return !m.Negative() && (m.Prefix.Covers(p) || p.Covers(m.Prefix))
	})
}
