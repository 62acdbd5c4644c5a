// SPDX-License-Identifier: Apache-2.0

package control

// A network in memory for tests: Nodes, virtual time, packets as bytes with ports,
// a fixed delay, and a hook that may lose or change any packet.

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control/internal/mapserver"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

const oneWay = 5 * time.Millisecond

// serverStart is how long a Map-Server of these tests says nothing about what is not registered.
const serverStart = settings.DefaultRegistrationTimeout / mapserver.RegistrationsLast

var epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

type testPacket struct {
	at           time.Time
	local, from  netip.AddrPort
	to           *testNode
	payload      []byte
	fromNodeName string
}

type testNode struct {
	*Node
	net      *testNetwork
	name     string
	addrs    []netip.Addr
	config   Config
	cache    map[lisp.Prefix]MapCacheEntry
	removed  map[lisp.Prefix]RemoveReason
	database map[lisp.Prefix]DatabaseMapping
	notices  []Notice
	states   map[lisp.RLOC]LocatorState // as the data plane was told, of those that are not up
	paths    map[lisp.Path]LocatorState // the same of paths
	flows    map[lisp.Flow]lisp.Path    // that are bound
	sent     []SendPacket
	sentAt   []time.Time
	behind   *natBox                // nil: no NAT is on its way
	links    map[netip.Addr]*natBox // of its addresses, where they differ
}

type testNetwork struct {
	t     *testing.T
	now   time.Time
	nodes []*testNode
	queue []testPacket
	lose  func(from *testNode, p SendPacket) bool
	stray []SendPacket // to addresses of no node
	seed  uint64
	boxes []*natBox
}

func newNetwork(t *testing.T) *testNetwork { return &testNetwork{t: t, now: epoch} }

func testRandom(seed uint64) func([]byte) {
	source := rand.NewPCG(seed, 1)
	return func(b []byte) {
		for i := range b {
			b[i] = byte(source.Uint64())
		}
	}
}

func (n *testNetwork) add(name string, cfg Config, addrs ...string) *testNode {
	n.t.Helper()
	node := &testNode{net: n, name: name, config: cfg}
	for _, a := range addrs {
		node.addrs = append(node.addrs, netip.MustParseAddr(a))
	}
	n.nodes = append(n.nodes, node)
	node.start()
	return node
}

// start makes the Node anew, as a restart of the daemon does.
func (d *testNode) start() {
	d.net.t.Helper()
	d.net.seed++
	node, err := New(d.config, d.net.now, testRandom(d.net.seed))
	if err != nil {
		d.net.t.Fatalf("%s: %v", d.name, err)
	}
	d.Node = node
	if d.cache == nil {
		d.cache, d.database = make(map[lisp.Prefix]MapCacheEntry), make(map[lisp.Prefix]DatabaseMapping)
		d.removed, d.states = make(map[lisp.Prefix]RemoveReason), make(map[lisp.RLOC]LocatorState)
		d.paths, d.flows = make(map[lisp.Path]LocatorState), make(map[lisp.Flow]lisp.Path)
	}
	d.drain()
}

func (d *testNode) configure(cfg Config) {
	d.net.t.Helper()
	d.config = cfg
	if err := d.Configure(d.net.now, cfg); err != nil {
		d.net.t.Fatalf("%s: %v", d.name, err)
	}
	d.drain()
}

func (d *testNode) drain() {
	for {
		e, ok := d.Poll()
		if !ok {
			return
		}
		switch e := e.(type) {
		case SendPacket:
			d.send(e)
		case InstallMapping:
			d.cache[e.Mapping.Prefix] = e.MapCacheEntry
			delete(d.removed, e.Mapping.Prefix)
		case RemoveMapping:
			delete(d.cache, e.Prefix)
			d.removed[e.Prefix] = e.Reason
		case InstallDatabase:
			d.database[e.Prefix] = e.DatabaseMapping
		case RemoveDatabase:
			delete(d.database, e.Prefix)
		case SetLocatorState:
			d.setState(e)
		case BindFlow:
			d.flows[e.Flow] = e.Path
		case UnbindFlow:
			delete(d.flows, e.Flow)
		case SetRTRs:
			d.wantEachOnce(e)
		case Notice:
			d.notices = append(d.notices, e)
		}
	}
}

// wantEachOnce asserts what a data plane insists on.
func (d *testNode) wantEachOnce(e SetRTRs) {
	d.net.t.Helper()
	for i, r := range e.RTRs {
		if slices.Contains(e.RTRs[:i], r) {
			d.net.t.Errorf("%s: RTR %s is set twice: %v", d.name, r, e.RTRs)
		}
	}
}

func (d *testNode) setState(e SetLocatorState) {
	if e.Behind == "" {
		if delete(d.states, e.RLOC); e.State != LocatorUp {
			d.states[e.RLOC] = e.State
		}
		return
	}
	if delete(d.paths, e.Path()); e.State != LocatorUp {
		d.paths[e.Path()] = e.State
	}
}

func (d *testNode) send(p SendPacket) {
	p.Local = d.sourceFor(p)
	d.sent, d.sentAt = append(d.sent, p), append(d.sentAt, d.net.now)
	if d.net.lose != nil && d.net.lose(d, p) {
		return
	}
	if box := d.natOf(p.Local.Addr()); box != nil {
		p.Local = box.out(d, p)
	}
	if d.net.translated(d, p) {
		return
	}
	for _, to := range d.net.nodes {
		if slices.Contains(to.addrs, p.Remote.Addr()) {
			d.net.arrive(testPacket{d.net.now.Add(oneWay), p.Remote, p.Local, to, p.Payload, d.name})
			return
		}
	}
	d.net.stray = append(d.net.stray, p)
}

// arrive puts a packet into the queue, behind those that arrive no later.
func (n *testNetwork) arrive(p testPacket) {
	i := len(n.queue)
	for i > 0 && n.queue[i-1].at.After(p.at) {
		i--
	}
	n.queue = slices.Insert(n.queue, i, p)
}

// sourceFor does what a daemon does with a Local that leaves things open.
func (d *testNode) sourceFor(p SendPacket) netip.AddrPort {
	addr, port := p.Local.Addr(), p.Local.Port()
	if port == 0 {
		port = wire.ControlPort
	}
	for _, a := range d.addrs {
		if !addr.IsValid() && a.Is4() == p.Remote.Addr().Is4() {
			addr = a
		}
	}
	return netip.AddrPortFrom(addr, port)
}

// inject gives a node a packet from outside.
func (d *testNode) inject(local, from string, payload []byte) {
	d.HandlePacket(d.net.now, netip.MustParseAddrPort(local), netip.MustParseAddrPort(from), payload)
	d.drain()
}

func (d *testNode) miss(source, destination string) {
	d.HandleMiss(d.net.now, Miss{Source: eid(source), Destination: eid(destination)})
	d.drain()
}

func (d *testNode) use(prefix string) {
	d.HandleUsage(d.net.now, []Usage{{Prefix: lisp.MustParsePrefix(prefix), LastUsedAt: d.net.now}})
	d.drain()
}

func (d *testNode) counter(c Counter) uint64 { return d.host.Counters[c] }

func (d *testNode) wantCounter(c Counter, want uint64) {
	d.net.t.Helper()
	if got := d.counter(c); got != want {
		d.net.t.Errorf("%s: %s is %d, want %d", d.name, c, got, want)
	}
}

func (d *testNode) wantCached(prefix string, locators ...string) {
	d.net.t.Helper()
	e, ok := d.cache[lisp.MustParsePrefix(prefix)]
	if !ok {
		d.net.t.Errorf("%s: %s is not in the map-cache %v", d.name, prefix, d.cachedPrefixes())
		return
	}
	var got []string
	for _, l := range e.Mapping.Locators {
		got = append(got, l.RLOC.String())
	}
	if !slices.Equal(got, locators) {
		d.net.t.Errorf("%s: %s has locators %v, want %v", d.name, prefix, got, locators)
	}
}

func (d *testNode) wantNotCached(prefix string) {
	d.net.t.Helper()
	if e, ok := d.cache[lisp.MustParsePrefix(prefix)]; ok {
		d.net.t.Errorf("%s: %s is in the map-cache: %s", d.name, prefix, e.Mapping)
	}
}

func (d *testNode) cachedPrefixes() []string {
	var list []string
	for e := range d.MapCache() {
		list = append(list, e.Mapping.Prefix.String())
	}
	return list
}

func (d *testNode) registered() []Registration { return slices.Collect(d.Registrations()) }

// sentMessages parses what the node sent, of one type; ECMs are opened.
func sentMessages[M wire.Message](d *testNode) []M {
	var list []M
	for _, p := range d.sent {
		m, err := wire.Parse(p.Payload)
		if err != nil {
			d.net.t.Fatalf("%s sent what cannot be parsed: %v", d.name, err)
		}
		if ecm, ok := m.(*wire.EncapsulatedControlMessage); ok {
			if m, err = wire.Parse(ecm.Inner.Message); err != nil {
				d.net.t.Fatalf("%s sent an ECM of what cannot be parsed: %v", d.name, err)
			}
		}
		if wanted, ok := m.(M); ok {
			list = append(list, wanted)
		}
	}
	return list
}

// run lets virtual time pass.
func (n *testNetwork) run(d time.Duration) {
	n.t.Helper()
	end := n.now.Add(d)
	for iterations := 0; ; iterations++ {
		if iterations > 1_000_000 {
			n.t.Fatal("the network does not come to rest")
		}
		at, node := n.next()
		if at.After(end) {
			n.now = end
			return
		}
		if at.After(n.now) {
			n.now = at
		}
		if node == nil {
			p := n.queue[0]
			n.queue = n.queue[1:]
			p.to.receive(p)
			p.to.drain()
			continue
		}
		node.HandleTimeout(n.now)
		node.drain()
	}
}

// next is when something happens: a timer of the node, or, when that is nil, the
// arrival of a packet.
func (n *testNetwork) next() (time.Time, *testNode) {
	earliest := n.now.Add(1000 * time.Hour)
	var who *testNode
	if len(n.queue) > 0 {
		earliest = n.queue[0].at
	}
	for _, node := range n.nodes {
		if at, ok := node.NextDeadline(); ok && at.Before(earliest) {
			earliest, who = at, node
		}
	}
	return earliest, who
}

func eid(s string) lisp.EID {
	e, err := lisp.ParseEID(s)
	if err != nil {
		panic(err)
	}
	return e
}

func rloc(s string) lisp.RLOC { return lisp.RLOCFromAddr(netip.MustParseAddr(s)) }

func locators(addresses ...string) lisp.LocatorSet {
	var list []lisp.Locator
	for _, a := range addresses {
		list = append(list, lisp.Locator{RLOC: rloc(a), Priority: 1, Weight: 100, MulticastPriority: 255, Reachable: true})
	}
	set, err := lisp.NewLocatorSet(list...)
	if err != nil {
		panic(err)
	}
	return set
}

func addrPort(s string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(s), 0) }

func secret(id uint8) Key { return Key{ID: id, Secret: []byte("a secret of the site")} }

// xtrConfig is an ITR and ETR with some EID-Prefixes, registering at ms. It sends no
// RLOC-probes and registers at the normal interval: most tests count messages.
func xtrConfig(id byte, ms string, rlocs []string, prefixes ...string) Config {
	c := Config{
		XTRID: [16]byte{id}, SiteID: 7,
		ITR: &ITRConfig{MapResolvers: []netip.AddrPort{addrPort(ms)}, RLOCProbing: ProbingConfig{Off: true}},
		ETR: &ETRConfig{MapServers: []MapServerPeer{{Address: addrPort(ms), Key: secret(1), WantMapNotify: true}}, QuickRegistrationInterval: -1},
	}
	for _, r := range rlocs {
		c.LocalRLOCs = append(c.LocalRLOCs, rloc(r))
	}
	for _, p := range prefixes {
		c.ETR.Database = append(c.ETR.Database, DatabaseMapping{Prefix: lisp.MustParsePrefix(p), Locators: locators(rlocs...)})
	}
	return c
}

// mapServerConfig is a Map-Server and Map-Resolver; each argument is a site, its
// EID-Prefixes separated by spaces.
func mapServerConfig(sites ...string) Config {
	c := Config{MapServer: &MapServerConfig{}, MapResolver: &MapResolverConfig{}}
	for _, prefixes := range sites {
		site := Site{Name: "site " + prefixes, Keys: []Key{secret(1)}}
		for _, p := range strings.Fields(prefixes) {
			site.Prefixes = append(site.Prefixes, SitePrefix{Prefix: lisp.MustParsePrefix(p), AcceptMoreSpecifics: true})
		}
		c.MapServer.Sites = append(c.MapServer.Sites, site)
	}
	return c
}

// twoSites is the network of most tests: two xTRs and a Map-Server with
// Map-Resolver, all with both families.
func twoSites(t *testing.T) (n *testNetwork, x1, x2, ms *testNode) {
	t.Helper()
	n = newNetwork(t)
	ms = n.add("ms", mapServerConfig("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16 2001:db8:2::/48"), "192.0.2.100", "2001:db8:f::100")
	x1 = n.add("x1", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1", "2001:db8:f::1"}, "10.1.0.0/16", "2001:db8:1::/48"), "192.0.2.1", "2001:db8:f::1")
	x2 = n.add("x2", xtrConfig(2, "192.0.2.100", []string{"192.0.2.2", "2001:db8:f::2"}, "10.2.0.0/16", "2001:db8:2::/48"), "192.0.2.2", "2001:db8:f::2")
	return n, x1, x2, ms
}

func nonceOf(payload []byte) uint64 { return binary.BigEndian.Uint64(payload[4:]) }

// pendings are the Map-Requests under way, a page at a time.
func (n *Node) pendings() (all []PendingRequest) {
	for from, more := uint32(0), true; more; {
		var page []PendingRequest
		page, from, more = n.PendingPage(from, 3)
		all = append(all, page...)
	}
	return all
}
