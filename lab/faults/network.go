// SPDX-License-Identifier: Apache-2.0

package faults

// The network: sites with one router or two and a host each, a Map-Server that is the Map-Resolver too, and a router
// between them. The two routers of a site are siblings, and meet the host at a switch. Each is the gateway of one
// family.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
	"loci/lab"
)

const (
	mtu      = 1500
	key      = "faults-2b7e151628ae"
	msName   = "ms"
	coreName = "core"

	// storeOctets is the file system of the Map-Server's journal.
	storeOctets = 1 << 20

	// mtuExpires is for how many seconds a host remembers what Packet Too Big said of a path: for the whole run.
	// After Linux's 600 seconds it would try larger packets again and lose one, or all while the daemon is dead
	// that answers them.
	mtuExpires = "7200"
)

// A network lives for one run.
type network struct {
	plan      plan
	probing   string // of RLOCs, as the configuration has it; empty for the default
	spaces    *testnet.Network
	directory *lab.Directory
	at        map[string]*testnet.Namespace
	specs     map[string]lab.DaemonSpec
	daemons   map[string]*lab.Daemon
	store     int // descriptor of the file system of the journal, which has no name and ends with this process
}

// plan says how many routers each site has: 1 or 2.
type plan []int

// usual is the network of the faults: two of three sites have two routers.
var usual = plan{2, 2, 1}

// xtr is a router of a site: the first is 0.
type xtr struct{ site, number int }

func (x xtr) String() string {
	if x.number == 0 {
		return fmt.Sprintf("xtr%d", x.site)
	}
	return fmt.Sprintf("xtr%d%c", x.site, 'a'+x.number)
}

// place is the router's in the core.
func (x xtr) place() int { return 1 + 2*x.site + x.number }

// gateway4 and gateway6 are its addresses towards its site's host.
func (x xtr) gateway4() netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(x.site), 0, byte(1 + x.number)})
}

func (x xtr) gateway6() netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fd00:%d::%d", x.site, 1+x.number))
}

// xtrs are all routers of sites.
func (p plan) xtrs() (list []xtr) {
	for site := range p {
		list = append(list, p.of(site)...)
	}
	return list
}

// of are the routers of a site.
func (p plan) of(site int) (list []xtr) {
	for number := range p[site] {
		list = append(list, xtr{site, number})
	}
	return list
}

// xtrNames are the names of all routers of sites, or of those whose site has that many.
func (p plan) xtrNames(ofSitesWith ...int) (list []string) {
	for _, x := range p.xtrs() {
		if len(ofSitesWith) == 0 || p[x.site] == ofSitesWith[0] {
			list = append(list, x.String())
		}
	}
	return list
}

func hostName(site int) string { return fmt.Sprintf("host%d", site) }

func lanName(site int) string { return fmt.Sprintf("lan%d", site) }

// coreLink is the core's interface towards a router.
func coreLink(router string) string { return "to-" + router }

func host4(site int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(site), 0, 10}) }

func host6(site int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd00:%d::10", site)) }

// msPlace is the Map-Server's place in the core.
const msPlace = 0

// rloc and coreEnd are the ends of the link of a place in the core.
func rloc(place int) (v4, v6 netip.Prefix) { return coreAddress(place, 2) }

func coreEnd(place int) (v4, v6 netip.Prefix) { return coreAddress(place, 1) }

func coreAddress(place, host int) (v4, v6 netip.Prefix) {
	return netip.MustParsePrefix(fmt.Sprintf("172.16.%d.%d/24", place, host)), netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::%d/64", place, host))
}

// quickProbing finds a dead path within three seconds.
const quickProbing = "{interval: 1s, retries: 2, retries-interval: 200ms}"

// newNetwork makes namespaces and directory of a network that is to be built.
func newNetwork(p plan, probing string) (*network, error) {
	spaces, err := testnet.New(Runs.Prefix)
	if err != nil {
		return nil, err
	}
	directory, err := Runs.NewDirectory(spaces.Name())
	if err != nil {
		return nil, errors.Join(err, spaces.Close())
	}
	return &network{
		plan: p, probing: probing, spaces: spaces, directory: directory,
		at: map[string]*testnet.Namespace{}, specs: map[string]lab.DaemonSpec{}, daemons: map[string]*lab.Daemon{},
	}, nil
}

// during does something with the network, and removes it then.
func (n *network) during(ctx context.Context, do func(context.Context) error) error {
	err := do(ctx)
	switch {
	case ctx.Err() != nil:
		err = lab.ErrInterrupted
	case err != nil:
		err = lab.WithLogs(err, n.all())
	}
	return errors.Join(err, n.close(), n.directory.Remove())
}

func (n *network) build(ctx context.Context, o Options) (err error) {
	if n.store, err = openStore(); err != nil {
		return err
	}
	for _, name := range n.names() {
		if n.at[name], err = n.spaces.Namespace(name); err != nil {
			return err
		}
		if err := n.at[name].SetReversePathFilter(0); err != nil {
			return err
		}
	}
	core := n.at[coreName]
	if err := core.Forward(); err != nil {
		return err
	}
	// Where a link goes down its IPv6 addresses stay, as IPv4's do.
	if err := core.SetSysctl("net.ipv6.conf.all.keep_addr_on_down", "1"); err != nil {
		return err
	}
	for site := range n.plan {
		if err := n.addSite(site); err != nil {
			return err
		}
	}
	if err := n.toCore(msName, msPlace); err != nil {
		return err
	}
	n.configure(o)
	return n.startAll(ctx)
}

func (n *network) names() (list []string) {
	for site := range n.plan {
		list = append(list, hostName(site), lanName(site))
	}
	return append(append(list, n.plan.xtrNames()...), msName, coreName)
}

// addSite joins routers and host by a switch. IPv4 leaves by the first router, IPv6 by the last one.
func (n *network) addSite(site int) error {
	routers, ports := n.plan.of(site), []string{"to-" + hostName(site)}
	for _, x := range routers {
		if err := n.plug(site, x.String(), "site0", netip.PrefixFrom(x.gateway4(), 24), netip.PrefixFrom(x.gateway6(), 64)); err != nil {
			return err
		}
		if err := n.at[x.String()].Forward(); err != nil {
			return err
		}
		if err := n.toCore(x.String(), x.place()); err != nil {
			return err
		}
		ports = append(ports, "to-"+x.String())
	}
	if err := n.plug(site, hostName(site), "lan0", netip.PrefixFrom(host4(site), 24), netip.PrefixFrom(host6(site), 64)); err != nil {
		return err
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		if err := n.at[hostName(site)].SetSysctl("net."+family+".route.mtu_expires", mtuExpires); err != nil {
			return err
		}
	}
	if err := defaultRoutes(n.at[hostName(site)], routers[0].gateway4(), routers[len(routers)-1].gateway6()); err != nil {
		return err
	}
	return n.at[lanName(site)].AddBridge("switch", ports...)
}

// plug joins a namespace to the switch of a site.
func (n *network) plug(site int, name, link string, addresses ...netip.Prefix) error {
	return testnet.Connect(testnet.End{Namespace: n.at[lanName(site)], Name: "to-" + name, MTU: mtu},
		testnet.End{Namespace: n.at[name], Name: link, Addresses: addresses, MTU: mtu})
}

// toCore connects a router with the core.
func (n *network) toCore(name string, place int) error {
	own4, own6 := rloc(place)
	core4, core6 := coreEnd(place)
	err := testnet.Connect(
		testnet.End{Namespace: n.at[name], Name: "core0", Addresses: []netip.Prefix{own4, own6}, MTU: mtu},
		testnet.End{Namespace: n.at[coreName], Name: coreLink(name), Addresses: []netip.Prefix{core4, core6}, MTU: mtu})
	if err != nil {
		return err
	}
	return defaultRoutes(n.at[name], core4.Addr(), core6.Addr())
}

func defaultRoutes(ns *testnet.Namespace, gateways ...netip.Addr) error {
	for _, gateway := range gateways {
		if err := ns.AddRoute(testnet.Route{Destination: netip.PrefixFrom(gateway, 0).Masked(), Via: gateway}); err != nil {
			return err
		}
	}
	return nil
}

// configure says how each daemon is started.
func (n *network) configure(o Options) {
	resolver, _ := rloc(msPlace)
	var system strings.Builder
	for site := range n.plan {
		fmt.Fprintf(&system, "    - {name: site%d, authentication-keys: [{auth-key-value: %s}], eid-prefixes: [{eid: %q}, {eid: %q}]}\n", site, key, eid4(site), eid6(site))
	}
	for _, x := range n.plan.xtrs() {
		name := x.String()
		n.specs[name] = n.spec(name, o, fmt.Sprintf("interfaces: {site: [site0], core: [core0]}\nlisp-router-id: {xtr-id: %032[8]d, site-id: %[9]d}\n"+
			"itr: {map-resolvers: [%[1]s]%[10]s}\netr:\n"+
			"  map-servers: [{ms-address: %[1]s, registration-interval: 5s, authentication-keys: [{auth-key-value: %[2]s}]}]\n"+
			"  siblings: [%[11]s]\n"+
			"  local-eids: [{eid: %[3]q, rlocs: %[7]s}, {eid: %[4]q, rlocs: %[7]s}]\ndatapath: {engine: %[5]s, pin-directory: %[6]s}\n",
			resolver.Addr(), key, eid4(x.site), eid6(x.site), o.Engine, filepath.Join(n.directory.Pins(), name), n.locators(x.site), x.place(), x.site+1,
			n.probingText(), n.siblings(x)))
	}
	n.specs[msName] = n.spec(msName, o, fmt.Sprintf("map-server:\n  state-directory: /proc/%d/fd/%d/journal\n  sites:\n%smap-resolver: {}\n", os.Getpid(), n.store, system.String()))
}

func (n *network) probingText() string {
	if n.probing == "" {
		return ""
	}
	return ", rloc-probing: " + n.probing
}

// siblings are the other routers of the site, as the configuration has them.
func (n *network) siblings(of xtr) string {
	var list []string
	for _, x := range n.plan.of(of.site) {
		if x != of {
			list = append(list, fmt.Sprintf("{addresses: [%s, %q]}", x.gateway4(), x.gateway6()))
		}
	}
	return strings.Join(list, ", ")
}

// locators prefers one family: packets of one size then fit the path, or do not, whatever their ports.
func (n *network) locators(site int) string {
	var list []string
	for _, x := range n.plan.of(site) {
		v4, v6 := rloc(x.place())
		list = append(list, fmt.Sprintf("{address: %q, priority: 1, weight: 50}, {address: %q, priority: 2, weight: 50}", v6.Addr(), v4.Addr()))
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func eid4(site int) string { return netip.PrefixFrom(host4(site), 24).Masked().String() }

func eid6(site int) string { return netip.PrefixFrom(host6(site), 64).Masked().String() }

func (n *network) spec(name string, o Options, configuration string) lab.DaemonSpec {
	socket := n.directory.Path(name + ".sock")
	return lab.DaemonSpec{
		Namespace: n.at[name], Executable: o.Executable, Socket: socket, Log: n.directory.Path(name + ".log"),
		Config: configuration + fmt.Sprintf("control: {socket: %s}\n", socket), ConfigFile: n.directory.Path(name + ".yaml"),
	}
}

func (n *network) startAll(ctx context.Context) error {
	for _, name := range append([]string{msName}, n.plan.xtrNames()...) {
		if err := n.start(ctx, name); err != nil {
			return err
		}
	}
	return n.daemons[msName].AwaitRegistrations(ctx, 2*len(n.plan))
}

// start starts a daemon, and waits until it is ready.
func (n *network) start(ctx context.Context, name string) error {
	if err := n.launch(name); err != nil {
		return err
	}
	return n.daemons[name].AwaitReady(ctx)
}

// launch starts a daemon.
func (n *network) launch(name string) error {
	d, err := n.specs[name].Start()
	if err == nil {
		n.daemons[name] = d
	}
	return err
}

// alive is an error when a daemon has ended that no fault ended.
func (n *network) alive() error {
	for _, d := range n.daemons {
		select {
		case <-d.Ended():
			return fmt.Errorf("the daemon of %s has ended by itself", d.Name)
		default:
		}
	}
	return nil
}

// answer waits until each daemon says that it is ready.
func (n *network) answer(ctx context.Context) error {
	for _, d := range n.daemons {
		if err := d.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close removes the network.
func (n *network) close() error {
	for _, d := range n.daemons {
		_ = unix.Kill(d.PID(), unix.SIGCONT) // a frozen one cannot stop
	}
	lab.StopDaemons(n.all())
	err := n.spaces.Close()
	if n.store > 0 {
		_ = unix.Close(n.store)
	}
	return err
}

func (n *network) all() (list []*lab.Daemon) {
	for _, d := range n.daemons {
		list = append(list, d)
	}
	return list
}

// openStore makes a file system that has no name: daemons reach it by this process's descriptor, and it ends with the
// last of them.
func openStore() (descriptor int, err error) {
	place, err := os.MkdirTemp("", "loci-faults-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(place)
	if err := unix.Mount("tmpfs", place, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", storeOctets)); err != nil {
		return 0, fmt.Errorf("tmpfs for the Map-Server's journal: %w", err)
	}
	defer func() { _ = unix.Unmount(place, unix.MNT_DETACH) }()
	if err := os.Mkdir(filepath.Join(place, "journal"), 0o700); err != nil {
		return 0, err
	}
	return unix.Open(place, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
}
