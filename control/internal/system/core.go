// SPDX-License-Identifier: Apache-2.0

// Whether the core answers this host, by address family. It counts answers, and asks nothing.

package system

import (
	"net/netip"
	"slices"

	"loci/control/internal/timing"
	"loci/lisp"
)

// Families is how many address families there are.
const Families = 2

// Family is the index of an address's family.
func Family(a netip.Addr) int {
	if a.Unmap().Is4() {
		return 0
	}
	return 1
}

// CoreProof is what answers from the core show, by address family: that packets pass in both directions.
type CoreProof struct {
	since timing.Instant           // an answer to what was sent before says nothing
	At    [Families]timing.Instant // when the first answer came, 0 for not yet
}

// AwaitCore begins anew.
func (h *System) AwaitCore() { h.Core = CoreProof{since: h.Now} }

// CoreAnswered notes that what was sent to a router at that time is answered by one, itself or another. Where they
// are of two families, neither is known to pass in both directions; this host answers itself without the core.
func (h *System) CoreAnswered(asked, from netip.Addr, sentAt timing.Instant) {
	family := Family(from)
	isFirst := Family(asked) == family && sentAt >= h.Core.since && h.Core.At[family] == 0
	if isFirst && !h.isOurs(asked) && !h.isOurs(from) {
		h.Core.At[family] = h.Now
	}
}

func (h *System) isOurs(a netip.Addr) bool {
	return slices.Contains(h.RLOCs, lisp.RLOCFromAddr(a.Unmap()))
}
