// SPDX-License-Identifier: Apache-2.0

package control

import "loci/lisp"

// What data packets say about the locators of a mapping (RFC 9300 s.10).

// trusts reports whether what only trusted networks may use is believed.
func (r *itr) trusts() bool { return !r.config.PublicInternet }

// handleStatusBits takes over the Locator-Status-Bits of a data packet.
func (r *itr) handleStatusBits(s StatusBits) {
	_, e, ok := r.cache.get(s.Prefix)
	if !ok || e.gleaned || !r.trusts() { // the bits are by the places of a locator-set, which a gleaned mapping has not
		r.h.count(RefusedHint)
		return
	}
	for i, l := range e.mapping.Locators[:min(len(e.mapping.Locators), s.Count, lisp.MaxLocators)] {
		r.prober.setStatusBit(l.RLOC, s.Prefix, s.Bits>>i&1 == 1)
	}
}
