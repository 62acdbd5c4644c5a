// SPDX-License-Identifier: Apache-2.0

// This file says whether the host's IP forwarding sees the packets of an interface.
// It forwards nothing itself.

package dataplane

import "fmt"

// Forwarding says whether the host's own IP forwarding sees the packets that an
// engine carries between site and core. Engines that have no host to ask ignore it.
type Forwarding uint8

// The ways of forwarding. Fast sends packets on at once. Stack lets IP forwarding have
// the inner packets, before encapsulation those that come in by the interface and after
// decapsulation those that come in or leave by it, so that filters, connection tracking
// and policy routing of the host apply to them.
const (
	ForwardingFast Forwarding = iota
	ForwardingStack
)

var forwardingNames = [...]string{ForwardingFast: "fast", ForwardingStack: "stack"}

// String names the way of forwarding as configuration does.
func (f Forwarding) String() string {
	if int(f) < len(forwardingNames) {
		return forwardingNames[f]
	}
	return fmt.Sprintf("forwarding %d", uint8(f))
}
