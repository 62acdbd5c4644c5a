// SPDX-License-Identifier: Apache-2.0

// This file listens to ICMP errors about packets that this router sent to locators (RFC 9300 s.7.2, RFC 1191, RFC 8201): what
// a path carries is obeyed at once, that a locator is unreachable is told to the control plane. Anybody can send such an
// error, so that it is believed only when it quotes a flow that has a locator by our tables, has its source port, and
// was used just now; and no path is believed to carry less than its family's minimum.

package kernel

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"loci/dataplane"
	"loci/dataplane/kernel/abi"
	"loci/forward"
	"loci/lisp"
)

const (
	// pathErrorRate bounds the work for ICMP errors, each second; as many may come at once.
	pathErrorRate = 500
	// sentWindow is how long ago a mapping may have been used for an error to be about its packets.
	sentWindow = 30 * time.Second
	// pathMTULife is after how long a path may carry more again (RFC 1191 s.6.3, RFC 8201 s.4).
	pathMTULife = 10 * time.Minute
	// pathMTUPause is how often ends of that time are looked for.
	pathMTUPause = time.Second
	// readErrorPause keeps a socket that cannot be read from taking a processor.
	readErrorPause = 100 * time.Millisecond
	// maxPathMTUs bounds the RLOCs whose paths carry less than their routes say.
	maxPathMTUs = 4096
	// unreachableInterval is the shortest time between two events about one RLOC.
	unreachableInterval = time.Second

	// A path of IPv4 is not believed to carry less (the kernel's own min_pmtu); one of IPv6 must carry smallestMTU.
	smallestIPv4MTU = 552
)

// pathMTU is what the path to an RLOC carries, and until when that is believed.
type pathMTU struct {
	octets int
	until  time.Time
}

// paths is what ICMP told. The engine's mu guards it, but for the sockets.
type paths struct {
	sockets []*icmp.PacketConn
	limit   *rate.Limiter
	told    map[lisp.RLOC]time.Time // when a locator was last told to be unreachable
}

// listenToPaths opens the sockets. Without one of them the router works, but for what it says.
func (e *Engine) listenToPaths() {
	e.paths = paths{limit: rate.NewLimiter(pathErrorRate, pathErrorRate), told: map[lisp.RLOC]time.Time{}}
	for _, network := range []string{"ip4:icmp", "ip6:ipv6-icmp"} {
		var socket *icmp.PacketConn
		err := e.space.do(func() (err error) {
			socket, err = listenICMP(network)
			return err
		})
		switch {
		case errors.Is(err, unix.EAFNOSUPPORT): // nor are there such paths
		case err != nil:
			e.log.Warn("errors about paths to locators are not heard", "network", network, "error", err)
		default:
			e.paths.sockets = append(e.paths.sockets, socket)
		}
	}
}

// listenICMP opens a socket for the errors that tell something of a path.
func listenICMP(network string) (*icmp.PacketConn, error) {
	if network == "ip4:icmp" {
		socket, err := icmp.ListenPacket(network, "0.0.0.0")
		if err != nil {
			return nil, err
		}
		var filter ipv4.ICMPFilter
		filter.SetAll(true)
		filter.Accept(ipv4.ICMPTypeDestinationUnreachable)
		filter.Accept(ipv4.ICMPTypeTimeExceeded)
		return socket, socket.IPv4PacketConn().SetICMPFilter(&filter)
	}
	socket, err := icmp.ListenPacket(network, "::")
	if err != nil {
		return nil, err
	}
	var filter ipv6.ICMPFilter
	filter.SetAll(true)
	filter.Accept(ipv6.ICMPTypeDestinationUnreachable)
	filter.Accept(ipv6.ICMPTypePacketTooBig)
	filter.Accept(ipv6.ICMPTypeTimeExceeded)
	return socket, socket.IPv6PacketConn().SetICMPFilter(&filter)
}

// startPaths begins to listen.
func (e *Engine) startPaths() {
	for _, socket := range e.paths.sockets {
		e.running.Go(func() { e.hearErrors(socket) })
	}
	e.running.Go(e.endPathMTUs)
}

func (e *Engine) closePaths() error {
	var errs []error
	for _, socket := range e.paths.sockets {
		if err := socket.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// hearErrors reads errors until the socket is closed.
func (e *Engine) hearErrors(socket *icmp.PacketConn) {
	family := uint8(4)
	if socket.IPv6PacketConn() != nil {
		family = 6
	}
	message := make([]byte, 1500)
	for {
		n, _, err := socket.ReadFrom(message)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(readErrorPause)
			continue
		}
		if !e.paths.limit.Allow() {
			continue
		}
		if about, ok := forward.ParseOuterError(message[:n], family); ok && (about.Port == forward.DataPort || about.Port == forward.VXLANGPEPort) {
			e.hearError(time.Now(), &about)
		}
	}
}

// hearError acts on an error about a packet to a locator's data port.
func (e *Engine) hearError(now time.Time, about *forward.OuterError) {
	rloc := lisp.RLOCFromAddr(about.Destination)
	e.mu.Lock()
	if !e.closed {
		e.followClock()
	}
	believed := e.maySend(now, about)
	changed, tell := false, false
	switch {
	case !believed:
		atomic.AddUint64(&e.store.words[wordPathErrorsRefused], 1)
	case about.MTU > 0:
		changed = e.tables.sets.lowerPathMTU(rloc, pathMTU{max(about.MTU, leastMTU(rloc)), now.Add(pathMTULife)})
	case about.AgainstPath():
		tell = e.paths.mayTell(now, rloc)
	}
	e.mu.Unlock()
	if changed {
		e.log.Info("the path to a locator carries less", "rloc", rloc, "octets", max(about.MTU, leastMTU(rloc)))
		e.misses.tell(dataplane.MTUChanged{RLOC: rloc, MTU: max(about.MTU, leastMTU(rloc))})
	}
	if tell {
		e.misses.tell(dataplane.LocatorUnreachable{RLOC: rloc, Type: about.Type, Code: about.Code})
	}
}

func leastMTU(rloc lisp.RLOC) int {
	if rloc.Is4() {
		return smallestIPv4MTU
	}
	return smallestMTU
}

// maySend reports whether this router may have sent the packet that an error quotes.
func (e *Engine) maySend(now time.Time, about *forward.OuterError) bool {
	if !about.Consistent || !slices.Contains(e.settings.LocalRLOCs, lisp.RLOCFromAddr(about.Source)) {
		return false
	}
	address := about.Inner.Destination
	index, ok := e.tables.lookupIndex(abi.RootMapCache, abi.Family(address), uint32(about.Instance), address.AsSlice())
	if !ok {
		return false
	}
	set := e.tables.records[index].LocatorSet
	if set == abi.NoLocatorSet {
		return false
	}
	rloc := lisp.RLOCFromAddr(about.Destination)
	if about.Port != e.dataPortTo(rloc) {
		return false
	}
	if !slices.ContainsFunc(e.tables.sets.of(set), func(l lisp.Locator) bool { return l.RLOC == rloc }) {
		return false
	}
	used := e.store.usageOf(index).nanoseconds(uint64(now.UnixNano()) - e.clock.ahead()) // the record alone does not know yet of packets that are pending
	return used != 0 && now.Sub(e.clock.fromBoot(used)) < sentWindow
}

// dataPortTo is where packets to an RLOC go.
func (e *Engine) dataPortTo(rloc lisp.RLOC) uint16 {
	if e.settings.EncapsulationTo(rloc) == dataplane.EncapsulationVXLANGPE {
		return forward.VXLANGPEPort
	}
	return forward.DataPort
}

// mayTell reports whether the last event about an RLOC is long enough ago.
func (p *paths) mayTell(now time.Time, rloc lisp.RLOC) bool {
	if last, ok := p.told[rloc]; ok && now.Sub(last) < unreachableInterval {
		return false
	}
	if len(p.told) >= maxPathMTUs {
		clear(p.told) // an event too many does no harm
	}
	p.told[rloc] = now
	return true
}

// endPathMTUs lets paths carry more again when what was told of them is old.
func (e *Engine) endPathMTUs() {
	ticker := time.NewTicker(pathMTUPause)
	defer ticker.Stop()
	for {
		select {
		case <-e.stop:
			return
		case now := <-ticker.C:
			e.mu.Lock()
			ended := e.tables.sets.endPathMTUs(now)
			e.mu.Unlock()
			for _, rloc := range ended {
				e.misses.tell(dataplane.MTUChanged{RLOC: rloc})
			}
		}
	}
}

// PathMTU implements dataplane.PathReporter.
func (e *Engine) PathMTU(rloc lisp.RLOC) (octets int, learnt bool) {
	e.mu.Lock()
	known, learnt := e.tables.sets.pathMTUs[rloc]
	e.mu.Unlock()
	route, err := e.routeMTU(rloc)
	switch {
	case err != nil:
		return 0, false
	case learnt && known.octets < route:
		return known.octets, true
	}
	return route, false
}

// routeMTU is what the route to an RLOC says.
func (e *Engine) routeMTU(rloc lisp.RLOC) (int, error) {
	routes, err := e.space.netlink.RouteGet(net.IP(rloc.Addr().AsSlice()))
	if err != nil || len(routes) == 0 {
		return 0, fmt.Errorf("route to %s: %w", rloc, err)
	}
	if routes[0].MTU > 0 {
		return routes[0].MTU, nil
	}
	link, err := e.space.netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return 0, err
	}
	return link.Attrs().MTU, nil
}

// lowerPathMTU notes that the path to an RLOC carries so many octets, and no more. It
// reports false when that is no news, or there is no room for more.
func (s *locatorSets) lowerPathMTU(rloc lisp.RLOC, mtu pathMTU) bool {
	known, ok := s.pathMTUs[rloc]
	if ok && known.octets < mtu.octets || !ok && len(s.pathMTUs) >= maxPathMTUs {
		return false
	}
	s.pathMTUs[rloc] = mtu
	s.storePathMTU(rloc, mtu.octets)
	return !ok || known.octets != mtu.octets
}

// endPathMTUs forgets what is old, and returns which RLOCs that concerns.
func (s *locatorSets) endPathMTUs(now time.Time) (ended []lisp.RLOC) {
	for rloc, known := range s.pathMTUs {
		if now.Before(known.until) {
			continue
		}
		delete(s.pathMTUs, rloc)
		s.storePathMTU(rloc, 0)
		ended = append(ended, rloc)
	}
	return ended
}

// storePathMTU writes it where programs read it: a single aligned store each.
func (s *locatorSets) storePathMTU(rloc lisp.RLOC, octets int) {
	for index := range s.byRLOC[rloc] {
		record := &s.records[index]
		for i, l := range s.uses[index].set {
			if l.RLOC == rloc {
				s.locators[int(record.First)+i].PathMtu = pathMTUField(octets)
			}
		}
	}
	s.changed.all()
}

// pathMTUField is an MTU as the record has it; there 0 stands for no limit.
func pathMTUField(octets int) uint16 { return uint16(min(octets, 1<<16-1)) }

// adoptPathMTUs takes over what an earlier process knew.
func (s *locatorSets) adoptPathMTUs(record *abi.LocatorSet) {
	for i := range record.Count {
		l := &s.locators[record.First+i]
		rloc := decodeLocator(l).RLOC
		if l.PathMtu != 0 && len(s.pathMTUs) < maxPathMTUs {
			s.pathMTUs[rloc] = pathMTU{int(l.PathMtu), time.Now().Add(pathMTULife)}
		}
	}
}
