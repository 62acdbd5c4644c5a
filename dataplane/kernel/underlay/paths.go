// SPDX-License-Identifier: Apache-2.0

// This file listens to ICMP errors about packets that this router sent to locators (RFC 9300 s.7.2, RFC 1191, RFC 8201): what
// a path carries is obeyed at once, that a locator is unreachable is told to the control plane. Anybody can send such an
// error, so that it is believed only when it quotes a flow that has a locator by our tables, has its source port, and
// was used just now; and no path is believed to carry less than its family's minimum.

package underlay

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/time/rate"

	"loci/dataplane"
	"loci/dataplane/kernel/netspace"
	"loci/forward"
	"loci/lisp"
)

const (
	// pathErrorRate bounds the work for ICMP errors, each second; as many may come at once.
	pathErrorRate = 500
	// pathMTUPause is how often ends of that time are looked for.
	pathMTUPause = time.Second
	// readErrorPause keeps a socket that cannot be read from taking a processor.
	readErrorPause = 100 * time.Millisecond
	// maxTold bounds the RLOCs of which it is known when they were told about.
	maxTold = 4096
	// unreachableInterval is the shortest time between two events about one RLOC.
	unreachableInterval = time.Second

	// A path of IPv4 is not believed to carry less (the kernel's own min_pmtu); one of IPv6 must carry smallestMTU.
	smallestIPv4MTU = 552
)

// SmallestMTU is what IPv6 asks of any link (RFC 8200 s.5).
const SmallestMTU = 1280

// PathTables is what is asked about the packets that errors quote.
type PathTables interface {
	// MaySend reports whether this router may have sent the packet that an error quotes.
	MaySend(now time.Time, about *forward.OuterError) bool
	// LowerPathMTU notes what the path to an RLOC carries; false when that is no news.
	LowerPathMTU(rloc lisp.RLOC, octets int, now time.Time) bool
	// EndPathMTUs lets paths carry more again when what was told of them is old.
	EndPathMTUs(now time.Time) []lisp.RLOC
}

// PathParts are what a path listener is made of.
type PathParts struct {
	Log     *slog.Logger
	Space   *netspace.Space
	Tables  PathTables
	Tell    func(dataplane.Event)
	Refused *uint64 // errors about packets that this router did not send
}

// Paths listens to ICMP errors.
type Paths struct {
	PathParts
	sockets []*icmp.PacketConn
	limit   *rate.Limiter
	running sync.WaitGroup

	mu   sync.Mutex
	told map[lisp.RLOC]time.Time // when a locator was last told to be unreachable
}

// NewPaths opens the sockets. Without one of them the router works, but for what it says.
func NewPaths(parts PathParts) *Paths {
	p := &Paths{PathParts: parts, limit: rate.NewLimiter(pathErrorRate, pathErrorRate), told: map[lisp.RLOC]time.Time{}}
	for _, network := range []string{"ip4:icmp", "ip6:ipv6-icmp"} {
		var socket *icmp.PacketConn
		err := p.Space.Do(func() (err error) {
			socket, err = listenICMP(network)
			return err
		})
		if err != nil {
			p.Log.Warn("errors about paths to locators are not heard", "network", network, "error", err)
			continue
		}
		p.sockets = append(p.sockets, socket)
	}
	return p
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

// Start begins to listen, until stop.
func (p *Paths) Start(stop <-chan struct{}) {
	for _, socket := range p.sockets {
		p.running.Go(func() { p.hearErrors(socket) })
	}
	p.running.Go(func() { p.endPathMTUs(stop) })
}

// Close ends listening; stop must be closed before.
func (p *Paths) Close() error {
	var errs []error
	for _, socket := range p.sockets {
		if err := socket.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	p.running.Wait()
	return errors.Join(errs...)
}

// hearErrors reads errors until the socket is closed.
func (p *Paths) hearErrors(socket *icmp.PacketConn) {
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
		if !p.limit.Allow() {
			continue
		}
		if about, ok := forward.ParseOuterError(message[:n], family); ok && (about.Port == forward.DataPort || about.Port == forward.VXLANGPEPort) {
			p.hearError(time.Now(), &about)
		}
	}
}

// hearError acts on an error about a packet to a locator's data port.
func (p *Paths) hearError(now time.Time, about *forward.OuterError) {
	rloc := lisp.RLOCFromAddr(about.Destination)
	least := max(about.MTU, leastMTU(rloc))
	switch {
	case !p.Tables.MaySend(now, about):
		atomic.AddUint64(p.Refused, 1)
	case about.MTU > 0:
		if p.Tables.LowerPathMTU(rloc, least, now) {
			p.Log.Info("the path to a locator carries less", "rloc", rloc, "octets", least)
			p.Tell(dataplane.MTUChanged{RLOC: rloc, MTU: least})
		}
	case about.AgainstPath() && p.mayTell(now, rloc):
		p.Tell(dataplane.LocatorUnreachable{RLOC: rloc, Type: about.Type, Code: about.Code})
	}
}

func leastMTU(rloc lisp.RLOC) int {
	if rloc.Is4() {
		return smallestIPv4MTU
	}
	return SmallestMTU
}

// mayTell reports whether the last event about an RLOC is long enough ago.
func (p *Paths) mayTell(now time.Time, rloc lisp.RLOC) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, ok := p.told[rloc]; ok && now.Sub(last) < unreachableInterval {
		return false
	}
	if len(p.told) >= maxTold {
		clear(p.told) // an event too many does no harm
	}
	p.told[rloc] = now
	return true
}

// endPathMTUs looks once in a while which paths carry more again.
func (p *Paths) endPathMTUs(stop <-chan struct{}) {
	ticker := time.NewTicker(pathMTUPause)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-ticker.C:
			for _, rloc := range p.Tables.EndPathMTUs(now) {
				p.Tell(dataplane.MTUChanged{RLOC: rloc})
			}
		}
	}
}

// RouteMTU is what the route to an RLOC says.
func RouteMTU(space *netspace.Space, rloc lisp.RLOC) (int, error) {
	routes, err := space.Netlink.RouteGet(net.IP(rloc.Addr().AsSlice()))
	if err != nil || len(routes) == 0 {
		return 0, fmt.Errorf("route to %s: %w", rloc, err)
	}
	if routes[0].MTU > 0 {
		return routes[0].MTU, nil
	}
	link, err := space.Netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return 0, err
	}
	return link.Attrs().MTU, nil
}
