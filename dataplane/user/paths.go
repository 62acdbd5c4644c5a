// SPDX-License-Identifier: Apache-2.0

package user

// The paths to RLOCs: what they carry, as the host's routes say, in which the kernel counts what ICMP told it (RFC 9300
// s.7.2). They are asked for again when what is known is old. Nothing here sends.

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/netspace"
	"loci/forward"
	"loci/lisp"
)

const (
	// pathAge is how long an answer of the kernel counts.
	pathAge = time.Second
	// maxPaths bounds the RLOCs that something is known of.
	maxPaths = 1 << 14
	// smallestMTU is what IPv4 is believed to carry at least, which IPv6 says itself.
	smallestMTU = 552
)

type path struct {
	mtu    int // 0: no route
	learnt bool
	link   int // the interface to bind datagrams to, 0 for none
	at     time.Time
}

// change is news about a path.
type change struct {
	rloc lisp.RLOC
	mtu  int
}

type paths struct {
	space *netspace.Space

	mu      sync.Mutex
	tun     int // its index: a route by it is none
	sources []lisp.RLOC
	core    []string // interfaces that datagrams may be bound to
	known   map[lisp.RLOC]path
	links   map[int]path // MTUs of interfaces
	changes []change     // not told of yet

	bind    func(to netip.Addr, link int) // has datagrams to an address bound to an interface, or to none, for 0
	changed func()                        // is called when a path carries something else than before
}

func newPaths(s *netspace.Space, tun int, bind func(to netip.Addr, link int), changed func()) *paths {
	return &paths{space: s, tun: tun, bind: bind, changed: changed, known: map[lisp.RLOC]path{}, links: map[int]path{}}
}

// setTUN changes the index of the TUN.
func (p *paths) setTUN(index int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tun = index
	clear(p.known)
}

// setSources changes the own RLOCs and the interfaces to the core, on which routes may depend.
func (p *paths) setSources(s *dataplane.Settings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sources, p.core = slices.Clone(s.LocalRLOCs), nil
	for _, i := range s.Interfaces {
		if i.Side == dataplane.SideCore {
			p.core = append(p.core, i.Name)
		}
	}
	clear(p.known)
}

// isOwn reports whether an address is one of the own RLOCs.
func (p *paths) isOwn(a netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.sources, lisp.RLOCFromAddr(a))
}

// mtu is what the path to an RLOC carries; 0 is no route.
func (p *paths) mtu(to lisp.RLOC) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current(to).mtu
}

func (p *paths) current(to lisp.RLOC) path {
	before, had := p.known[to]
	if had && time.Since(before.at) < pathAge {
		return before
	}
	now := p.ask(to.Addr(), p.source(to))
	if len(p.known) >= maxPaths {
		clear(p.known)
	}
	p.known[to] = now
	p.bind(to.Addr(), now.link)
	if !had || before.mtu == now.mtu {
		return now
	}
	p.changed()
	if now.mtu != 0 && len(p.changes) < maxPaths {
		p.changes = append(p.changes, change{to, now.mtu})
	}
	return now
}

func (p *paths) source(to lisp.RLOC) netip.Addr {
	for _, own := range p.sources {
		if own.Is4() == to.Is4() {
			return own.Addr()
		}
	}
	return netip.Addr{}
}

// ask looks the route up.
func (p *paths) ask(to, from netip.Addr) path {
	found := path{at: time.Now()}
	options := &netlink.RouteGetOptions{}
	if from.IsValid() {
		options.SrcAddr = from.AsSlice()
	}
	routes, err := p.space.Netlink.RouteGetWithOptions(to.AsSlice(), options)
	if err == nil && len(routes) > 0 && routes[0].LinkIndex == p.tun {
		routes, err = p.askBeside(to, options)
		found.link = options.OifIndex
	}
	if err != nil || len(routes) == 0 {
		return path{at: found.at}
	}
	link := p.linkMTU(routes[0].LinkIndex)
	found.mtu = link
	if m := routes[0].MTU; m > 0 && m < link {
		found.mtu, found.learnt = max(m, smallestMTU), true
	}
	return found
}

// askBeside looks for a route that does not lead into the TUN, by the interfaces to the core, that of the own RLOC first, and has
// options name its interface: datagrams that are bound to it do not come back by the TUN. It takes no privilege.
func (p *paths) askBeside(to netip.Addr, options *netlink.RouteGetOptions) ([]netlink.Route, error) {
	links := p.coreLinks(options.SrcAddr)
	options.SrcAddr = nil // with it IPv6 takes an interface for a wish
	for _, index := range links {
		// Of an interface the kernel says that everything is on its link where no route names it, unless it is asked for that route.
		options.OifIndex, options.FIBMatch = index, true
		if routes, err := p.space.Netlink.RouteGetWithOptions(to.AsSlice(), options); err == nil && len(routes) > 0 && routes[0].LinkIndex == index {
			options.FIBMatch = false
			return p.space.Netlink.RouteGetWithOptions(to.AsSlice(), options)
		}
	}
	return nil, nil
}

// coreLinks are the indexes of the interfaces to the core, that with an address first.
func (p *paths) coreLinks(address net.IP) (indexes []int) {
	for _, name := range p.core {
		link, err := p.space.Netlink.LinkByName(name)
		if err != nil {
			continue
		}
		addresses, _ := p.space.Netlink.AddrList(link, netlink.FAMILY_ALL)
		if slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.IP.Equal(address) }) {
			indexes = slices.Insert(indexes, 0, link.Attrs().Index)
		} else {
			indexes = append(indexes, link.Attrs().Index)
		}
	}
	return indexes
}

func (p *paths) linkMTU(index int) int {
	if known, ok := p.links[index]; ok && time.Since(known.at) < pathAge {
		return known.mtu
	}
	link, err := p.space.Netlink.LinkByIndex(index)
	if err != nil {
		return 0
	}
	p.links[index] = path{mtu: link.Attrs().MTU, at: time.Now()}
	return link.Attrs().MTU
}

// expire has the paths to an address asked for anew when they are needed. What was known stays, so that a change is told.
func (p *paths) expire(address netip.Addr) (expired []lisp.RLOC) {
	clear(p.links)
	for rloc, known := range p.known {
		if rloc.Addr() == address {
			known.at = time.Time{}
			p.known[rloc] = known
			expired = append(expired, rloc)
		}
	}
	return expired
}

// isKnown reports whether packets to an RLOC, at that port, were sent lately.
func (p *paths) isKnown(rloc lisp.RLOC, port uint16) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.known[rloc.WithPort(port)]
	if !known && port == forward.DataPort {
		_, known = p.known[rloc]
	}
	return known
}

// askAnew asks for the paths to an address that are in use, and reports whether any is, and carries something else than before.
func (p *paths) askAnew(address netip.Addr) (inUse, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, rloc := range p.expire(address) {
		before := p.known[rloc].mtu
		inUse, changed = true, p.current(rloc).mtu != before || changed
	}
	return inUse, changed
}

// takeChanges returns what changed since the last call.
func (p *paths) takeChanges() (changes []change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changes, p.changes = p.changes, nil
	return changes
}

// reported is what the path to an RLOC carries, for those who ask about it.
func (p *paths) reported(rloc lisp.RLOC) (octets int, learnt bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.current(rloc)
	return now.mtu, now.learnt
}

// isHost reports whether packets to an address are for this host.
func (p *paths) isHost(a netip.Addr) bool {
	routes, err := p.space.Netlink.RouteGet(a.AsSlice())
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
}

// addressTowards is the address of this host that answers to a host of the site come from.
func (p *paths) addressTowards(to netip.Addr) netip.Addr {
	routes, err := p.space.Netlink.RouteGet(to.AsSlice())
	if err == nil && len(routes) > 0 {
		if a, ok := netip.AddrFromSlice(routes[0].Src); ok && a.Unmap().Is4() == to.Is4() {
			return a.Unmap()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.source(lisp.RLOCFromAddr(to))
}
