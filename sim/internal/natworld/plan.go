// SPDX-License-Identifier: Apache-2.0

package natworld

// Who is there: drawn from the seed before anything runs.

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/sim/internal/natbox"
	"loci/sim/internal/network"
	"loci/sim/internal/report"
	"loci/sim/internal/virtual"
)

// flavour is what sets a seed apart.
type flavour struct {
	apart     bool          // no RTR is the Map-Server as well
	rtrs      int           // how many there are
	keys      []control.Key // between them and the Map-Server; none: the RTRs believe nonces
	probing   control.ProbingConfig
	faultGap  time.Duration
	skew      time.Duration
	onlyV4    bool
	instances []lisp.InstanceID
}

// box is a NAT in the network.
type box struct {
	*natbox.Box
	w       *World
	name    string
	v4      bool
	station network.Station[*place] // with its addresses outside, if it is not behind another one
	behind  *box                    // another NAT, nil for none
	hosts   map[netip.Addr]*place   // by private address
	down    int                     // faults that keep it down
}

// The share of nodes on the Internet, of nodes whose NAT is behind another one, and how many share a NAT at most.
const (
	onInternet  = 0.2
	behindTwo   = 0.2
	mostBehind  = 6
	crowdOnline = 10 // sites on the Internet beside a crowd behind one address
	mostRTRs    = 3
)

// keepalives that nodes are configured with.
var keepalives = []time.Duration{0, 0, 10 * time.Second, 15 * time.Second}

func (w *World) build() {
	r := w.random
	w.network.MaxDelay = r.Between(2*time.Millisecond, 100*time.Millisecond)
	w.network.Jitter = r.Between(0, 30*time.Millisecond)
	w.network.Loss, w.network.Duplicate = r.Float64()*0.03, r.Float64()*0.05
	if r.Chance(0.3) {
		w.network.Reorder = r.Float64() * 0.1
	}
	if !w.options.HasFaults() {
		w.network.Loss = 0
	}
	w.drawFlavour()
	w.addServers()
	if w.options.OneAddress {
		w.addCrowd()
	} else {
		w.addNodes()
	}
	w.network.Routers = len(w.all)
	w.stats.Sites, w.stats.Relays, w.stats.NATBoxes = len(w.sites), len(w.rtrs), len(w.boxes)
	w.addFlows()
	w.drawOutage()
}

func (w *World) drawFlavour() {
	r := w.random
	f := &w.flavour
	f.apart, f.onlyV4 = r.Chance(0.5), w.options.OneAddress || r.Chance(0.4)
	if f.rtrs = 1 + r.IntN(mostRTRs); w.options.OneAddress {
		f.rtrs = 1
	}
	if r.Chance(0.6) {
		f.keys = []control.Key{{ID: 9, Algorithm: uint8(1 + r.IntN(3)), Secret: []byte("between Map-Server and RTR")}}
	}
	f.probing = control.ProbingConfig{Off: r.Chance(0.4)}
	f.faultGap = r.Between(4*time.Second, 25*time.Second)
	f.skew = r.Between(0, 5*time.Minute)
	f.instances = virtual.Pick(r, [][]lisp.InstanceID{{0}, {0, 7}, {4000}})
}

func (w *World) addServers() {
	w.servers = []*router{w.addServer("server")}
	if !w.flavour.apart {
		w.rtrs = rtrs{w.servers[0]}
	}
	for len(w.rtrs) < w.flavour.rtrs {
		w.rtrs = append(w.rtrs, w.addServer(fmt.Sprintf("rtr%d", len(w.rtrs)+1)))
	}
	for _, r := range w.rtrs {
		r.isRTR = true
	}
}

// addServer adds a router on the Internet with an address of each family.
func (w *World) addServer(name string) *router {
	s := w.addRouter(name)
	s.station.Links = []network.Link{{Addr: w.network.New(true)}, {Addr: w.network.New(false)}}
	w.network.Attach(&s.station)
	return s
}

func (w *World) addRouter(name string) *router {
	r := &router{w: w, index: len(w.all), name: name, random: virtual.NewRandom(w.options.Seed, routerStream+uint64(len(w.all)))}
	r.clock = virtual.Clock{Ppm: int64(r.random.IntN(201) - 100), Offset: r.random.Between(-w.flavour.skew, w.flavour.skew)}
	r.place = &place{router: r}
	r.station.Number, r.station.Router = r.index, r.place
	w.all = append(w.all, r)
	return r
}

// addNodes fills boxes with nodes, and has some on the Internet.
func (w *World) addNodes() {
	var at *box
	room := 0
	for len(w.all) < w.options.Routers {
		s := w.addSite()
		if len(w.sites) > 1 && !w.random.Chance(onInternet) {
			if room == 0 {
				at, room = w.addBox(), 1+w.random.IntN(mostBehind)
			}
			s.enter(at)
			room--
			continue
		}
		s.enter(nil)
	}
}

// addCrowd has all nodes behind one address, but for some on the Internet.
func (w *World) addCrowd() {
	at := w.addBox()
	at.Public = at.Public[:1]
	for n := 0; len(w.all) < w.options.Routers; n++ {
		s := w.addSite()
		s.keepalive = 0
		if n < min(crowdOnline, w.options.Routers/2) {
			s.enter(nil)
		} else {
			s.enter(at)
		}
	}
}

func (w *World) addSite() *router {
	n := len(w.sites)
	s := w.addRouter(fmt.Sprintf("node%d", n+1))
	r := w.random
	s.isSite, s.number = true, n
	s.instance = virtual.Pick(r, w.flavour.instances)
	s.key = control.Key{ID: 1, Algorithm: uint8(1 + r.IntN(3)), Secret: fmt.Appendf(nil, "key of %s", s.name)}
	s.proxy = r.Chance(0.5)
	s.keepalive = virtual.Pick(r, keepalives)
	s.ttlMinutes = uint32(1 + r.IntN(report.MaxTTLMinutes))
	if s.withoutXTRID = r.Chance(0.3); s.withoutXTRID {
		s.random.Fill(s.ownID[:])
	}
	s.addPrefix(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24))
	if r.Chance(0.4) {
		s.addPrefix(netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0x0d, 0xb8, byte(n >> 8), byte(n)}), 48))
	}
	w.sites = append(w.sites, s)
	return s
}

func (r *router) addPrefix(n netip.Prefix) {
	p, err := lisp.PrefixFromNetip(r.instance, n)
	if err != nil {
		panic(err)
	}
	r.prefixes = append(r.prefixes, p)
}

// addBox draws a NAT, and sometimes one before it.
func (w *World) addBox() *box {
	r := w.random
	b := &box{w: w, name: fmt.Sprintf("nat%d", len(w.boxes)+1), v4: w.flavour.onlyV4 || r.Chance(0.7), hosts: map[netip.Addr]*place{}}
	s := natbox.Settings{
		Ports: natbox.Ports(r.IntN(3)), PerRemote: r.Chance(0.7), OutOnly: r.Chance(0.3), Idle: r.Between(30*time.Second, 3*time.Minute),
	}
	at := &place{box: b}
	b.station.Number, b.station.Router = 1000000+len(w.boxes), at
	w.boxes = append(w.boxes, b)
	if r.Chance(behindTwo) && !w.options.OneAddress {
		if b.behind = w.boxOutside(b.v4); b.behind != nil {
			s.Public = []netip.Addr{b.behind.newHost(at)}
		}
	}
	if b.behind == nil {
		for range 1 + r.IntN(2) {
			b.station.Links = append(b.station.Links, network.Link{Addr: w.network.New(b.v4)})
		}
		w.network.Attach(&b.station)
		s.Public = b.addresses()
	}
	b.Box = natbox.New(s)
	return b
}

// boxOutside is a NAT of that family that is behind no other one, nil for none.
func (w *World) boxOutside(v4 bool) *box {
	for _, b := range w.boxes {
		if b.Box != nil && b.v4 == v4 && b.behind == nil {
			return b
		}
	}
	return nil
}

func (b *box) addresses() (list []netip.Addr) {
	for _, l := range b.station.Links {
		list = append(list, l.Addr)
	}
	return list
}

// newHost gives what is behind a NAT the first private address that is free. All NATs have the same ones.
func (b *box) newHost(p *place) netip.Addr {
	for n := 2; ; n++ {
		a := netip.AddrFrom4([4]byte{192, 168, byte(n >> 8), byte(n)})
		if !b.v4 {
			a = netip.AddrFrom16([16]byte{0: 0xfc, 14: byte(n >> 8), 15: byte(n)})
		}
		if b.hosts[a] == nil {
			b.hosts[a] = p
			return a
		}
	}
}

// enter connects a node: behind a NAT, or to the Internet with an address of each family.
func (r *router) enter(b *box) {
	r.behind = b
	if b != nil {
		r.station.Links = []network.Link{{Addr: b.newHost(r.place)}}
		return
	}
	r.station.Links = []network.Link{{Addr: r.w.network.New(true)}}
	if !r.w.flavour.onlyV4 {
		r.station.Links = append(r.station.Links, network.Link{Addr: r.w.network.New(false)})
	}
	r.w.network.Attach(&r.station)
}

// leave takes its address away. The NAT keeps its bindings.
func (r *router) leave() {
	if r.had == nil {
		r.had = map[netip.Addr]time.Duration{}
	}
	for _, l := range r.station.Links {
		r.had[l.Addr] = r.w.now
		if r.behind != nil {
			delete(r.behind.hosts, l.Addr)
		} else {
			r.w.network.SetOwner(l.Addr, nil)
		}
	}
	r.behind, r.station.Links = nil, nil
}

func (r *router) address() netip.Addr { return r.station.Links[0].Addr }

// hostOf is a host of a site, of that family.
func (r *router) hostOf(v4 bool) (netip.Addr, bool) {
	at := slices.IndexFunc(r.prefixes, func(p lisp.Prefix) bool { return p.Netip().Addr().Is4() == v4 })
	if at < 0 {
		return netip.Addr{}, false
	}
	a := r.prefixes[at].Netip().Addr().AsSlice()
	a[len(a)-1] = 10
	host, _ := netip.AddrFromSlice(a)
	return host, true
}
