// SPDX-License-Identifier: Apache-2.0

package user

// What the kernel says of datagrams that left: that it refused one, or that ICMP told something of it (RFC 9300
// s.7.2).

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/model"
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

// pathErrors judges them: what a path carries is asked anew, packets are treated again, and events report what
// changed. It is called on the goroutines that send and receive; one of its own treats packets again.
type pathErrors struct {
	log   *slog.Logger
	model model.Hosted
	paths *paths

	refusals atomic.Uint64 // datagrams that the kernel refused
	again    chan again    // of these, what is to be treated again
	uncut    sync.Once     // tells that an interface is why trains are not cut

	telling sync.Mutex
	told    map[lisp.RLOC]time.Time // when a locator was last reported to be unreachable; guarded by telling
}

func newPathErrors(log *slog.Logger, paths *paths) *pathErrors {
	return &pathErrors{log: log, paths: paths, again: make(chan again, againPackets), told: map[lisp.RLOC]time.Time{}}
}

// refused is for a datagram or a train that the kernel did not send, and reports whether its path carries something
// else than was known. Then the next packets of its flows are told what fits, or that there is no route.
func (x *pathErrors) refused(r underlay.Refused) (changed bool) {
	x.refusals.Add(uint64(len(r.Datagrams())))
	if !r.IsTooLong() && !errors.Is(r.Err, unix.ENETUNREACH) && !errors.Is(r.Err, unix.EHOSTUNREACH) {
		return false
	}
	_, changed = x.paths.askAnew(r.To.Addr())
	return changed
}

// refusedByCache is refused for what the caches said. Packets that do not fit a path any more, or left together where
// they have to leave alone, are treated again, by the model.
func (x *pathErrors) refusedByCache(r underlay.Refused) {
	x.refused(r)
	if r.IsUncut() {
		x.uncut.Do(func() {
			x.log.Warn("the kernel cuts no datagrams for this interface, which computes no checksums: TCP to the core is slower", "rloc", r.To.Addr())
		})
	}
	if r.IsTooLong() || r.IsUncut() {
		x.keep(r)
	}
}

// refusedByModel is refused for what the model said, by what it last knew of the path. Where the kernel says the same
// of the path again, the model would say the same of the packet.
func (x *pathErrors) refusedByModel(r underlay.Refused) {
	if x.refused(r) && r.IsTooLong() {
		x.keep(r)
	}
}

// keep has the model treat the packets of what was refused again.
func (x *pathErrors) keep(r underlay.Refused) {
	for _, d := range r.Datagrams() {
		if len(d) < wire.DataHeaderOctets {
			continue
		}
		a := again{packet: d[wire.DataHeaderOctets:], relayed: r.Relayed}
		if d[0]&flagInstance != 0 {
			a.instance = lisp.InstanceID(binary.BigEndian.Uint32(d[4:]) >> 8)
		}
		select {
		case x.again <- a:
		default: // it is lost, and counted as refused
		}
	}
}

// flagInstance of a data header says that an Instance-ID is there.
const flagInstance = 0x08

// treatAgain has the model treat packets that were refused.
func (x *pathErrors) treatAgain(stop <-chan struct{}) {
	for {
		select {
		case a := <-x.again:
			x.model.SendAgain(a.instance, a.relayed, a.packet)
			x.tellChanges()
		case <-stop:
			return
		}
	}
}

// pathError is for an ICMP error about a datagram of ours: the kernel has held its ports against those of the socket.
// Of one that receives as well it has not done so with the port that the datagram went to.
func (x *pathErrors) pathError(p underlay.PathError) {
	rloc := lisp.RLOCFromAddr(p.To.Addr())
	if p.Ported && !x.paths.isKnown(rloc, p.To.Port()) {
		return
	}
	if inUse, _ := x.paths.askAnew(p.To.Addr()); !inUse {
		return // nothing was sent there lately
	}
	if p.Unreachable() && x.toldUnreachable(rloc) {
		x.model.Raise(dataplane.LocatorUnreachable{RLOC: rloc, Type: p.Type, Code: p.Code})
	}
	x.tellChanges()
}

// toldUnreachable reports whether an RLOC is due to be told about.
func (x *pathErrors) toldUnreachable(rloc lisp.RLOC) bool {
	x.telling.Lock()
	defer x.telling.Unlock()
	if time.Since(x.told[rloc]) < unreachableInterval {
		return false
	}
	if len(x.told) >= maxPaths {
		clear(x.told)
	}
	x.told[rloc] = time.Now()
	return true
}

// tellChanges tells of the paths that carry something else than before.
func (x *pathErrors) tellChanges() {
	for _, c := range x.paths.takeChanges() {
		x.model.Raise(dataplane.MTUChanged{RLOC: c.rloc, MTU: c.mtu})
	}
}
