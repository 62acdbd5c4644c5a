// SPDX-License-Identifier: Apache-2.0

package network

// A core that loses control messages and carries data packets: what a filter of UDP port 4342 does. Links inside a site are
// not part of the core.

import (
	"net/netip"
	"slices"
)

// ControlCut is where control messages are lost: everywhere, or those to or from one router, or both.
type ControlCut[R any] struct {
	At            *Station[R] // nil: everywhere
	Towards, From bool        // it
}

// CutControl loses control messages until mend is called.
func (n *Network[R]) CutControl(c ControlCut[R]) (mend func()) {
	cut := &c
	n.controlCuts = append(n.controlCuts, cut)
	return func() {
		n.controlCuts = slices.DeleteFunc(n.controlCuts, func(other *ControlCut[R]) bool { return other == cut })
	}
}

// losesControl reports whether a control message to a station is lost.
func (n *Network[R]) losesControl(from netip.Addr, to *Station[R]) bool {
	return slices.ContainsFunc(n.controlCuts, func(c *ControlCut[R]) bool {
		return c.At == nil || c.Towards && c.At == to || c.From && c.At == n.Owner(from)
	})
}
