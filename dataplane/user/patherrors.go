// SPDX-License-Identifier: Apache-2.0

package user

// What the kernel says of datagrams that left: that it refused one, or that ICMP told something of it (RFC 9300
// s.7.2).

import (
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/user/underlay"
	"loci/lisp"
	"loci/wire"
)

// unreachableInterval is the shortest time between two events about one RLOC.
const unreachableInterval = time.Second

// againPackets bounds the packets that wait to be treated again.
const againPackets = 256

// again is a packet that was encapsulated, and refused.
type again struct {
	packet   []byte // the inner one
	instance lisp.InstanceID
	relayed  bool
}

// refused is for a datagram or a train that the kernel did not send, and reports whether its path carries something
// else than was known. Then the next packets of its flows are told what fits, or that there is no route.
func (e *Engine) refused(r underlay.Refused) (changed bool) {
	e.sendErrors.Add(uint64(len(r.Datagrams())))
	if !r.IsTooLong() && !errors.Is(r.Err, unix.ENETUNREACH) && !errors.Is(r.Err, unix.EHOSTUNREACH) {
		return false
	}
	_, changed = e.paths.askAnew(r.To.Addr())
	return changed
}

// refusedByCache is refused for what the caches said. Packets that do not fit a path any more, or left together where
// they have to leave alone, are treated again, by the model.
func (e *Engine) refusedByCache(r underlay.Refused) {
	e.refused(r)
	if r.IsUncut() {
		e.uncut.Do(func() {
			e.log.Warn("the kernel cuts no datagrams for this interface, which computes no checksums: TCP to the core is slower", "rloc", r.To.Addr())
		})
	}
	if r.IsTooLong() || r.IsUncut() {
		e.keep(r)
	}
}

// refusedByModel is refused for what the model said, by what it last knew of the path. Where the kernel says the same
// of the path again, the model would say the same of the packet.
func (e *Engine) refusedByModel(r underlay.Refused) {
	if e.refused(r) && r.IsTooLong() {
		e.keep(r)
	}
}

// keep has the model treat the packets of what was refused again.
func (e *Engine) keep(r underlay.Refused) {
	for _, d := range r.Datagrams() {
		if len(d) < wire.DataHeaderOctets {
			continue
		}
		a := again{packet: d[wire.DataHeaderOctets:], relayed: r.Relayed}
		if d[0]&flagInstance != 0 {
			a.instance = lisp.InstanceID(binary.BigEndian.Uint32(d[4:]) >> 8)
		}
		select {
		case e.again <- a:
		default: // it is lost, and counted as refused
		}
	}
}

// flagInstance of a data header says that an Instance-ID is there.
const flagInstance = 0x08

// treatAgain has the model treat packets that were refused.
func (e *Engine) treatAgain() {
	for {
		select {
		case a := <-e.again:
			e.model.SendAgain(a.instance, a.relayed, a.packet)
			e.tellChanges()
		case <-e.stop:
			return
		}
	}
}

// pathError is for an ICMP error about a datagram of ours: the kernel has held its ports against those of the socket.
// Of one that receives as well it has not done so with the port that the datagram went to.
func (e *Engine) pathError(p underlay.PathError) {
	rloc := lisp.RLOCFromAddr(p.To.Addr())
	if p.Ported && !e.paths.isKnown(rloc, p.To.Port()) {
		return
	}
	if inUse, _ := e.paths.askAnew(p.To.Addr()); !inUse {
		return // nothing was sent there lately
	}
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
