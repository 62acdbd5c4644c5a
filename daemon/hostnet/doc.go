// SPDX-License-Identifier: Apache-2.0

// Package hostnet knows the network of this host as far as a configuration refers to it: interfaces, their
// addresses and gateways, and which of this router's own RLOCs can be used. It reads netlink and /proc, and changes nothing.
//
// Look takes a View, a snapshot. Watch says when it is time for the next. A Memory keeps from one View to the next
// what must not be forgotten: an address that an interface lost stays a locator, and an RLOC that came back is held
// down for a while. FilterCheck finds reverse path filters that would drop what the configuration needs.
package hostnet
