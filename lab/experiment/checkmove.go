// SPDX-License-Identifier: Apache-2.0

package experiment

// What must be true of the move of a row.

import (
	"fmt"
	"net/netip"
	"slices"
)

// move looks at a move, and has the rows after it find the interfaces where the move puts them.
func (c *checker) move(what string, m *move, path string) {
	what += ", move"
	far := c.mover(what, m, path)
	if far != nil {
		delete(c.interfaces[far.node], far.link) // the name is free for the other end's new place
	}
	c.at = path + ".to"
	if m.To.Node == m.Node {
		c.wrong("%s: node %s cannot be linked to itself", what, m.Node)
	}
	c.end(m.To)
	if far != nil {
		*far = m.To.place()
	}
	c.addresses(what, m, path)
	c.loss(what, m, path)
	if c.at = path; m.Within <= 0 {
		c.wrong("%s: within %v: want more than 0s", what, m.Within)
	}
}

// mover looks at the interface that moves, and returns where its other end is; nil where it has none that moves.
func (c *checker) mover(what string, m *move, path string) *place {
	c.at = path + ".node"
	if !c.node(what, m.Node) {
		return nil
	}
	c.at = path + ".interface"
	if !c.interfaces[m.Node][m.Interface] {
		c.wrong("%s: node %s has no interface %q", what, m.Node, m.Interface)
		return nil
	}
	far := c.veths.farEnd(place{m.Node, m.Interface})
	if far == nil {
		c.wrong("%s: the link of %s is emulated: its ends cannot move", what, m.Interface)
	}
	return far
}

// addresses looks at the new addresses and routes: each next hop is a neighbour on the new link.
func (c *checker) addresses(what string, m *move, path string) {
	c.at = path + ".addresses"
	if len(m.Addresses) == 0 {
		c.wrong("%s: addresses are needed", what)
	}
	for i, a := range m.Addresses {
		c.at = fmt.Sprintf("%s.addresses[%d]", path, i)
		isThere := func(b netip.Prefix) bool { return a.IsValid() && a.Masked() == b.Masked() }
		if !slices.ContainsFunc(m.To.Addresses, isThere) {
			c.wrong("%s: %v: the other end has no address of this prefix", what, a)
		}
	}
	for i, r := range m.Routes {
		c.at = fmt.Sprintf("%s.routes[%d]", path, i)
		if !r.To.IsValid() || r.To.Addr().Is4() != r.Via.Is4() {
			c.wrong("%s: a route to %v via %v: want both of one family", what, r.To, r.Via)
			continue
		}
		if !slices.ContainsFunc(m.Addresses, func(a netip.Prefix) bool { return a.Contains(r.Via) }) {
			c.wrong("%s: a route via %v: want one in a prefix of the new addresses", what, r.Via)
		}
	}
}

// loss looks at what the node loses in turn.
func (c *checker) loss(what string, m *move, path string) {
	c.at = path + ".loses"
	if m.Loses != "" && (m.Loses == m.Interface || !c.interfaces[m.Node][m.Loses]) {
		c.wrong("%s: loses %q: want another interface of node %s", what, m.Loses, m.Node)
	}
	c.at = path + ".overlap"
	if m.Overlap < 0 || m.Overlap > 0 && m.Loses == "" {
		c.wrong("%s: overlap %v: want 0s or more, and an interface that the node loses", what, m.Overlap)
	}
}
