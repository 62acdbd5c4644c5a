// SPDX-License-Identifier: Apache-2.0

package user

// What the kernel says of datagrams that left: that it refused one, or that ICMP told something of it (RFC 9300 s.7.2).

import (
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/user/underlay"
	"loci/lisp"
)

// unreachableInterval is the shortest time between two events about one RLOC.
const unreachableInterval = time.Second

// refused is for a datagram that the kernel did not send. The packets in it are lost; the next ones of the flow are told
// what fits, or that there is no route.
func (e *Engine) refused(to netip.AddrPort, err error) {
	e.sendErrors.Add(1)
	if errors.Is(err, unix.EMSGSIZE) || errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EINVAL) {
		e.paths.forget(to.Addr())
		e.generation.Add(1)
	}
}

// pathError is for an ICMP error about a datagram of ours: the kernel has held its ports against those of the socket.
func (e *Engine) pathError(p underlay.PathError) {
	inUse, changed := e.paths.askAnew(p.To.Addr())
	if !inUse {
		return // nothing was sent there lately
	}
	if changed { // or errors that come often would cost all flows their entries
		e.generation.Add(1)
	}
	rloc := lisp.RLOCFromAddr(p.To.Addr())
	if p.Unreachable() && e.toldUnreachable(rloc) {
		e.model.Raise(dataplane.LocatorUnreachable{RLOC: rloc, Type: p.Type, Code: p.Code})
	}
	e.tellChanges()
}

// toldUnreachable reports whether an RLOC is due to be told about.
func (e *Engine) toldUnreachable(rloc lisp.RLOC) bool {
	e.telling.Lock()
	defer e.telling.Unlock()
	if time.Since(e.told[rloc]) < unreachableInterval {
		return false
	}
	if len(e.told) >= maxPaths {
		clear(e.told)
	}
	e.told[rloc] = time.Now()
	return true
}

// tellChanges tells of the paths that carry something else than before.
func (e *Engine) tellChanges() {
	for _, c := range e.paths.takeChanges() {
		e.model.Raise(dataplane.MTUChanged{RLOC: c.rloc, MTU: c.mtu})
	}
}
