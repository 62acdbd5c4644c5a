// SPDX-License-Identifier: Apache-2.0

// Package links is the network of the conformance suite for engines of a real host: a namespace for the router, one for the
// site and one for the core, both of which hold nothing but a packet socket. For tests alone; it needs root.
package links

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/forward"
	"loci/internal/testnet"
	"loci/lisp"
)

const (
	// Site and Core are the router's interfaces.
	Site, Core = "site0", "core0"

	patience       = 400 * time.Millisecond
	ethernetOctets = 14
)

// farMTU is of the other ends. XDP can be attached to a veth only where its peer's frames fit into a page.
const farMTU = 3500

// FarMAC is the address of all that is at the other ends.
var FarMAC = net.HardwareAddr{2, 0, 0, 0, 0, 0x77}

// Network has the parts of a conformance.Harness that are about packets.
type Network struct {
	Router     *testnet.Namespace
	site, core *end
}

// end is the end of a link at which the suite sends and receives packets.
type end struct {
	file   *os.File
	router net.HardwareAddr // of the other end
}

// New makes the network; it goes with the test.
func New(t testing.TB) *Network {
	t.Helper()
	network := testnet.ForTest(t)
	spaces := map[string]*testnet.Namespace{}
	for _, role := range []string{"xtr", "site", "core"} {
		ns, err := network.Namespace(role)
		must(t, err)
		spaces[role] = ns
	}
	router := spaces["xtr"]
	must(t, router.Forward())
	must(t, router.SetReversePathFilter(2)) // the suite sends from sources that are not behind the site
	site := []netip.Prefix{netip.MustParsePrefix("10.1.0.1/24"), netip.MustParsePrefix("2001:db8:1::1/64")}
	core := []netip.Prefix{netip.PrefixFrom(conformance.OwnRLOC4, 24), netip.PrefixFrom(conformance.OwnRLOC6, 64)}
	n := &Network{
		Router: router,
		site:   connect(t, testnet.End{Namespace: router, Name: Site, Addresses: site}, spaces["site"], conformance.SiteHosts),
		core:   connect(t, testnet.End{Namespace: router, Name: Core, Addresses: core}, spaces["core"], conformance.PeerRLOCs),
	}
	must(t, router.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: conformance.PeerRLOCs[0]}))
	must(t, router.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: conformance.PeerRLOCs[2]}))
	return n
}

// Settings adds the interfaces, with a hook, and the own RLOCs to settings.
func (n *Network) Settings(s dataplane.Settings, hook dataplane.Hook) dataplane.Settings {
	s.Interfaces = []dataplane.Interface{{Name: Site, Side: dataplane.SideSite, Hook: hook}, {Name: Core, Side: dataplane.SideCore, Hook: hook}}
	s.LocalRLOCs = []lisp.RLOC{lisp.RLOCFromAddr(conformance.OwnRLOC4), lisp.RLOCFromAddr(conformance.OwnRLOC6)}
	return s
}

// SendFromSite implements conformance.Harness.
func (n *Network) SendFromSite(t testing.TB, packet []byte) { n.site.send(t, packet) }

// SendFromCore implements conformance.Harness.
func (n *Network) SendFromCore(t testing.TB, packet []byte) { n.core.send(t, packet) }

// ReceiveAtCore implements conformance.Harness.
func (n *Network) ReceiveAtCore(t testing.TB) ([]byte, bool) { return n.core.receive(t) }

// ReceiveAtSite implements conformance.Harness.
func (n *Network) ReceiveAtSite(t testing.TB) ([]byte, bool) { return n.site.receive(t) }

// SetCoreMTU implements conformance.Shrinking, by the routes to the peers.
func (n *Network) SetCoreMTU(t testing.TB, octets int) {
	t.Helper()
	link, err := n.Router.Netlink().LinkByName(Core)
	must(t, err)
	for _, peer := range conformance.PeerRLOCs {
		to := &net.IPNet{IP: peer.AsSlice(), Mask: net.CIDRMask(peer.BitLen(), peer.BitLen())}
		must(t, n.Router.Netlink().RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: to, MTU: octets, Scope: unix.RT_SCOPE_LINK}))
	}
}

// connect makes a link from the router's end to a namespace where the neighbours are said to be.
func connect(t testing.TB, near testnet.End, far *testnet.Namespace, neighbours []netip.Addr) *end {
	t.Helper()
	near.MTU = conformance.PathMTU
	must(t, far.SetSysctl("net.ipv6.conf.all.disable_ipv6", "1")) // no host there answers
	must(t, testnet.Connect(near, testnet.End{Namespace: far, Name: "wire0", MTU: farMTU}))
	link, err := near.Namespace.Netlink().LinkByName(near.Name)
	must(t, err)
	for _, a := range neighbours {
		must(t, near.Namespace.Netlink().NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IP(a.AsSlice()), HardwareAddr: FarMAC,
		}))
	}
	e := &end{router: link.Attrs().HardwareAddr}
	must(t, far.Do(func() (err error) {
		e.file, err = packetSocket("wire0")
		return err
	}))
	t.Cleanup(func() { e.file.Close() })
	return e
}

func packetSocket(name string) (*os.File, error) {
	all := int(uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, all)
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	index, err := net.InterfaceByName(name)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: index.Index})
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("packet socket: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (e *end) send(t testing.TB, packet []byte) {
	t.Helper()
	frame := append(append([]byte{}, e.router...), FarMAC...)
	kind := []byte{0x08, 0x00}
	if packet[0]>>4 == 6 {
		kind = []byte{0x86, 0xDD}
	}
	_, err := e.file.Write(append(append(frame, kind...), packet...))
	must(t, err)
}

// receive returns the next IP packet that is the suite's business.
func (e *end) receive(t testing.TB) ([]byte, bool) {
	t.Helper()
	must(t, e.file.SetReadDeadline(time.Now().Add(patience)))
	for {
		buffer := make([]byte, 1<<16)
		octets, err := e.file.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, false
		}
		must(t, err)
		if octets <= ethernetOctets {
			continue
		}
		packet := buffer[ethernetOctets:octets]
		if h, err := forward.ParseHeader(packet); err == nil && forward.RoutableUnicast(h.Destination) && !isNeighbourDiscovery(packet, &h) {
			return packet[:h.Length], true
		}
	}
}

func isNeighbourDiscovery(packet []byte, h *forward.Header) bool {
	return h.Family == 6 && h.Protocol == unix.IPPROTO_ICMPV6 && packet[h.PayloadOffset] >= 133 && packet[h.PayloadOffset] <= 137
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
