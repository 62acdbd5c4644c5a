// SPDX-License-Identifier: Apache-2.0

package faults

// The network: three sites with a router and a host each, a Map-Server that is the Map-Resolver too, and a router between them.

import (
	"context"
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
	sites    = 3
	mtu      = 1500
	key      = "faults-2b7e151628ae"
	msName   = "ms"
	coreName = "core"

	// storeOctets is the file system of the Map-Server's journal.
	storeOctets = 1 << 20
)

// A network lives for one run.
type network struct {
	spaces    *testnet.Network
	directory *lab.Directory
	at        map[string]*testnet.Namespace
	specs     map[string]lab.DaemonSpec
	daemons   map[string]*lab.Daemon
	store     int // descriptor of the file system of the journal, which has no name and ends with this process
}

func xtrName(site int) string { return fmt.Sprintf("xtr%d", site) }

func hostName(site int) string { return fmt.Sprintf("host%d", site) }

// coreLink is the core's interface towards a router.
func coreLink(router string) string { return "to-" + router }

func host4(site int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(site), 0, 10}) }

func host6(site int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd00:%d::10", site)) }

// rloc and coreEnd are the ends of the link of a place in the core; the Map-Server's is sites.
func rloc(place int) (v4, v6 netip.Prefix) { return coreAddress(place, 2) }

func coreEnd(place int) (v4, v6 netip.Prefix) { return coreAddress(place, 1) }

func coreAddress(place, host int) (v4, v6 netip.Prefix) {
	return netip.MustParsePrefix(fmt.Sprintf("172.16.%d.%d/24", place, host)), netip.MustParsePrefix(fmt.Sprintf("2001:db8:%d::%d/64", place, host))
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
	for site := range sites {
		if err := n.addSite(site); err != nil {
			return err
		}
	}
	if err := n.toCore(msName, sites); err != nil {
		return err
	}
	n.configure(o)
	return n.startAll(ctx)
}

func (n *network) names() (list []string) {
	for site := range sites {
		list = append(list, xtrName(site), hostName(site))
	}
	return append(list, msName, coreName)
}

func (n *network) addSite(site int) error {
	xtr, host := n.at[xtrName(site)], n.at[hostName(site)]
	gateway4, gateway6 := netip.AddrFrom4([4]byte{10, byte(site), 0, 1}), netip.MustParseAddr(fmt.Sprintf("fd00:%d::1", site))
	err := testnet.Connect(
		testnet.End{Namespace: xtr, Name: "site0", Addresses: []netip.Prefix{netip.PrefixFrom(gateway4, 24), netip.PrefixFrom(gateway6, 64)}, MTU: mtu},
		testnet.End{Namespace: host, Name: "lan0", Addresses: []netip.Prefix{netip.PrefixFrom(host4(site), 24), netip.PrefixFrom(host6(site), 64)}, MTU: mtu})
	if err != nil {
		return err
	}
	if err := defaultRoutes(host, gateway4, gateway6); err != nil {
		return err
	}
	if err := xtr.Forward(); err != nil {
		return err
	}
	return n.toCore(xtrName(site), site)
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
	resolver, _ := rloc(sites)
	var system strings.Builder
	for site := range sites {
		fmt.Fprintf(&system, "    - {name: site%d, authentication-keys: [{auth-key-value: %s}], eid-prefixes: [{eid: %q}, {eid: %q}]}\n", site, key, eid4(site), eid6(site))
		n.specs[xtrName(site)] = n.spec(xtrName(site), o, fmt.Sprintf("interfaces: {site: [site0], core: [core0]}\n"+
			"itr: {map-resolvers: [%[1]s], rloc-probing: {interval: 2s}}\netr:\n"+
			"  map-servers: [{ms-address: %[1]s, registration-interval: 5s, authentication-keys: [{auth-key-value: %[2]s}]}]\n"+
			"  local-eids: [{eid: %[3]q, rlocs: %[7]s}, {eid: %[4]q, rlocs: %[7]s}]\ndatapath: {engine: %[5]s, pin-directory: %[6]s}\n",
			resolver.Addr(), key, eid4(site), eid6(site), o.Engine, filepath.Join(n.directory.Pins(), xtrName(site)), locators(site)))
	}
	n.specs[msName] = n.spec(msName, o, fmt.Sprintf("map-server:\n  state-directory: /proc/%d/fd/%d/journal\n  sites:\n%smap-resolver: {}\n", os.Getpid(), n.store, system.String()))
}

// locators prefers one family: packets of one size then fit the path, or do not, whatever their ports.
func locators(site int) string {
	v4, v6 := rloc(site)
	return fmt.Sprintf("[{address: %q, priority: 1}, {address: %q, priority: 2}]", v6.Addr(), v4.Addr())
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
	for _, name := range append([]string{msName}, xtrNames()...) {
		if err := n.start(ctx, name); err != nil {
			return err
		}
	}
	return n.daemons[msName].AwaitRegistrations(ctx, 2*sites)
}

func xtrNames() (list []string) {
	for site := range sites {
		list = append(list, xtrName(site))
	}
	return list
}

// start starts a daemon, and waits until it is ready.
func (n *network) start(ctx context.Context, name string) error {
	d, err := n.specs[name].Start()
	if err != nil {
		return err
	}
	n.daemons[name] = d
	return d.AwaitReady(ctx)
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

// openStore makes a file system that has no name: daemons reach it by this process's descriptor, and it ends with the last of
// them.
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
