// SPDX-License-Identifier: Apache-2.0

// Package natbox is a NAT of a simulated run (RFC 4787): it translates the source of UDP packets that leave its
// inside, and lets those back in that its bindings are for. It may forget its bindings, give them other ports, and
// get other addresses. It carries nothing, and knows a host by its private address only: who gets an address that
// another host had gets its packets.
package natbox

import (
	"net/netip"
	"slices"
	"time"

	"loci/sim/internal/virtual"
)

// Ports is how a NAT chooses the port of a binding.
type Ports uint8

// The ways to choose: the port of the host while it is free, the next one, or a random one.
const (
	KeepPort Ports = iota
	NextPort
	RandomPort
)

// firstPort is the least port that is given out, but for those that are kept.
const firstPort = 1024

// Settings are how a NAT behaves.
type Settings struct {
	Public []netip.Addr // its addresses outside, of one family
	Ports  Ports
	// PerRemote makes a binding for each remote address and port, which nothing else reaches; else a host's port
	// has one binding, which any remote address reaches.
	PerRemote bool
	Idle      time.Duration // a binding that no packet used for so long ends
	OutOnly   bool          // and only packets that leave count
}

// Box is a NAT with its bindings.
type Box struct {
	Settings
	next      uint16
	byInside  map[inside]*binding
	byOutside map[outside]*binding
}

// inside is what a binding is for. remote is zero unless bindings are for each remote address.
type inside struct{ local, remote netip.AddrPort }

// outside is where packets to it come to.
type outside struct{ public, remote netip.AddrPort }

type binding struct {
	local, public, remote netip.AddrPort
	usedAt                time.Duration
}

// New makes a NAT without bindings.
func New(s Settings) *Box {
	b := &Box{Settings: s, next: firstPort}
	b.Forget()
	return b
}

// Forget ends all bindings.
func (b *Box) Forget() { b.byInside, b.byOutside = map[inside]*binding{}, map[outside]*binding{} }

// remote is that of a binding's keys.
func (b *Box) remote(remote netip.AddrPort) netip.AddrPort {
	if b.PerRemote {
		return remote
	}
	return netip.AddrPort{}
}

// Out is the source that a packet of an inside host has outside; false when no port is left.
func (b *Box) Out(now time.Duration, local, remote netip.AddrPort, r virtual.Random) (public netip.AddrPort, ok bool) {
	key := inside{local, b.remote(remote)}
	n := b.byInside[key]
	if n != nil && b.isOver(n, now) {
		b.end(n)
		n = nil
	}
	if n == nil {
		if n = b.bind(now, key, r); n == nil {
			return netip.AddrPort{}, false
		}
	}
	n.usedAt = now
	return n.public, true
}

// In is the inside host that a packet from outside is for, and the port there; false when no binding is.
func (b *Box) In(now time.Duration, public, remote netip.AddrPort) (local netip.AddrPort, ok bool) {
	n := b.byOutside[outside{public, b.remote(remote)}]
	if n == nil {
		return netip.AddrPort{}, false
	}
	if b.isOver(n, now) {
		b.end(n)
		return netip.AddrPort{}, false
	}
	if !b.OutOnly {
		n.usedAt = now
	}
	return n.local, true
}

// Rewrite gives every binding another port, and another one of the addresses where there are several. Packets to the
// old ones reach nothing.
func (b *Box) Rewrite(now time.Duration, r virtual.Random) {
	var all []*binding
	for _, n := range b.byInside {
		all = append(all, n)
	}
	slices.SortFunc(all, func(x, y *binding) int {
		if c := x.local.Compare(y.local); c != 0 {
			return c
		}
		return x.remote.Compare(y.remote)
	})
	before := b.Ports
	b.Forget()
	for b.Ports = RandomPort; len(all) > 0; all = all[1:] {
		if n := all[0]; !b.isOver(n, now) {
			b.bind(n.usedAt, inside{n.local, n.remote}, r)
		}
	}
	b.Ports = before
}

// Bindings counts those of a private address to a remote one that are in force, one for each remote port.
func (b *Box) Bindings(now time.Duration, local, remote netip.Addr) (count int) {
	for _, n := range b.byInside {
		if n.local.Addr() == local && (n.remote.Addr() == remote || !b.PerRemote) && !b.isOver(n, now) {
			count++
		}
	}
	return count
}

func (b *Box) isOver(n *binding, now time.Duration) bool { return now-n.usedAt >= b.Idle }

func (b *Box) end(n *binding) {
	delete(b.byInside, inside{n.local, n.remote})
	delete(b.byOutside, outside{n.public, n.remote})
}

// bind makes a binding, at a port that no other one has; nil when none is left.
func (b *Box) bind(now time.Duration, key inside, r virtual.Random) *binding {
	public, ok := b.choose(now, key, r)
	if !ok {
		return nil
	}
	n := &binding{local: key.local, public: public, remote: key.remote, usedAt: now}
	b.byInside[key], b.byOutside[outside{public, key.remote}] = n, n
	return n
}

// choose finds a port: where the one that it wants is taken the next one that is free.
func (b *Box) choose(now time.Duration, key inside, r virtual.Random) (public netip.AddrPort, ok bool) {
	a := b.Public[0]
	if len(b.Public) > 1 {
		a = virtual.Pick(r, b.Public)
	}
	if public = netip.AddrPortFrom(a, key.local.Port()); b.Ports == KeepPort && b.isFree(now, public, key.remote) {
		return public, true
	}
	if b.Ports == RandomPort {
		b.next = firstPort + uint16(r.IntN(1<<16-firstPort))
	}
	for range 1<<16 - firstPort {
		if b.next++; b.next < firstPort {
			b.next = firstPort
		}
		if public = netip.AddrPortFrom(a, b.next); b.isFree(now, public, key.remote) {
			return public, true
		}
	}
	return netip.AddrPort{}, false
}

// isFree reports whether no binding that is in force has a port.
func (b *Box) isFree(now time.Duration, public, remote netip.AddrPort) bool {
	n := b.byOutside[outside{public, remote}]
	if n != nil && b.isOver(n, now) {
		b.end(n)
		n = nil
	}
	return n == nil
}
