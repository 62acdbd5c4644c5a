// SPDX-License-Identifier: Apache-2.0

package server

// What the metrics of a locator tell of its path: MTU and nonces, as the engine's
// events told them last, and for a locator of this system the MTU of its interface, as
// OpenLISP keeps it. Nothing here decides anything.

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"

	"loci/dataplane"
	"loci/lisp"
	"loci/mapsock"
)

// maxPaths bounds what is kept; beyond it all is forgotten, and told anew.
const maxPaths = 1 << 14

// path is what is known of the way to an RLOC.
type path struct {
	mtu            uint32
	sent, received uint32
	nonces         bool
}

// paths is what is known of paths. It has a lock of its own: a dump takes it for every
// entry, and no caller of note must wait for that.
type paths struct {
	mu    sync.Mutex
	known map[lisp.RLOC]path
	any   atomic.Bool // something is known
}

// note keeps what an event tells of a path.
func (p *paths) note(event dataplane.Event) {
	var rloc lisp.RLOC
	switch e := event.(type) {
	case dataplane.MTUChanged:
		rloc = e.RLOC
	case dataplane.NonceMismatch:
		rloc = e.RLOC
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.known[rloc]
	switch e := event.(type) {
	case dataplane.MTUChanged:
		known.mtu = uint32(max(e.MTU, 0))
	case dataplane.NonceMismatch:
		known.sent, known.received, known.nonces = e.Sent, e.Received, true
	}
	if p.known == nil || len(p.known) >= maxPaths {
		p.known = map[lisp.RLOC]path{}
	}
	p.known[rloc] = known
	p.any.Store(true)
}

// describe puts what is known of paths into the metrics of a message's locators.
func (p *paths) describe(m *mapsock.Message) {
	if !p.any.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range m.Locators {
		l := &m.Locators[i]
		known, ok := p.known[l.RLOC]
		if !ok {
			continue
		}
		l.MTU = known.mtu
		l.TxNonce, l.RxNonce, l.HasTxNonce, l.HasRxNonce = known.sent, known.received, known.nonces, known.nonces
	}
}

// interfaceMTUs are those of this system's interfaces by their addresses.
func interfaceMTUs() map[netip.Addr]uint32 {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil // then they are not known
	}
	found := map[netip.Addr]uint32{}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				found[prefix.Addr().Unmap().WithZone("")] = uint32(i.MTU)
			}
		}
	}
	return found
}

// describeInterfaces gives a message's own locators the MTU of their interfaces.
func describeInterfaces(m *mapsock.Message, mtus map[netip.Addr]uint32) {
	for i := range m.Locators {
		if l := &m.Locators[i]; l.Interface {
			l.MTU = mtus[l.RLOC.Addr()]
		}
	}
}
