// SPDX-License-Identifier: Apache-2.0

package underlay

// Sockets bound to interfaces, for destinations whose routes lead into the TUN: what is sent by them does not come
// back by it. To bind a socket that is not bound yet takes no privilege (socket(7), SO_BINDTODEVICE; Linux 5.7).

import (
	"errors"
	"maps"
	"net/netip"
)

const (
	// boundSockets is how many sockets of each family an interface has.
	boundSockets = 4
	// maxBound bounds the addresses, and maxLinks the interfaces. Where one more comes, all others are forgotten:
	// who still sends to them binds them again.
	maxBound, maxLinks = 1 << 14, 16
)

// bindings say by which interfaces datagrams leave, and from which source ports. They never change.
type bindings struct {
	links   map[netip.Addr]int
	sockets map[int]sockets
	fixed   map[fixedAt]sockets
}

// IsBound reports whether datagrams to an address leave by that interface; 0 is for any.
func (p *Pool) IsBound(to netip.Addr, link int) bool { return p.bound.Load().links[to] == link }

// Bind has datagrams to an address leave by an interface, which is named by its index; 0 is for any. It opens sockets
// in the calling thread's network namespace, and closes those of interfaces that no address leaves by any more. After
// an error it is as it was.
func (p *Pool) Bind(to netip.Addr, link int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.IsBound(to, link) {
		return nil
	}
	before := p.bound.Load()
	fresh := &bindings{links: maps.Clone(before.links), sockets: maps.Clone(before.sockets), fixed: maps.Clone(before.fixed)}
	delete(fresh.links, to)
	if link != 0 {
		if err := p.add(fresh, to, link); err != nil {
			return err
		}
	}
	unused := fresh.dropUnused()
	p.bound.Store(fresh)
	for _, s := range unused {
		_ = s.close()
	}
	return nil
}

// add binds an address to an interface, and opens its sockets.
func (p *Pool) add(b *bindings, to netip.Addr, link int) error {
	_, opened := b.sockets[link]
	if len(b.links) >= maxBound || !opened && len(b.sockets) >= maxLinks {
		clear(b.links)
	}
	b.links[to] = link
	if opened {
		return nil
	}
	fresh, err := openSockets(boundSockets, link)
	if err != nil {
		return err
	}
	ported, err := fixAll(b.ports(), link)
	if err != nil {
		return errors.Join(err, fresh.close())
	}
	b.sockets[link] = fresh
	maps.Copy(b.fixed, ported)
	p.listen(fresh)
	return nil
}

// dropUnused takes out the sockets of interfaces that no address leaves by.
func (b *bindings) dropUnused() (unused []sockets) {
	used := map[int]bool{}
	for _, link := range b.links {
		used[link] = true
	}
	for link, s := range b.sockets {
		if !used[link] {
			delete(b.sockets, link)
			unused = append(unused, s)
		}
	}
	for at, s := range b.fixed {
		if at.link != 0 && !used[at.link] {
			delete(b.fixed, at)
			unused = append(unused, s)
		}
	}
	return unused
}
