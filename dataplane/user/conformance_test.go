// SPDX-License-Identifier: Apache-2.0

// The conformance suite of engines, with the kernel's network around the engine: a
// namespace for the router, one for the site and one for the core, both of which
// hold nothing but a packet socket. The tests need root.

package user

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
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
	conformanceMappings = 300
	receivePatience     = 400 * time.Millisecond
)

// link is the end of a link at which the suite sends and receives packets.
type link struct {
	file   *os.File
	router net.HardwareAddr // of the other end
}

var wireMAC = net.HardwareAddr{2, 0, 0, 0, 0, 0x77}

// engineHarness is a conformance.Harness.
type engineHarness struct {
	engine     *Engine
	site, core *link
	ahead      atomic.Int64 // of the tables' clock
}

func (h *engineHarness) now() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }

func newHarness(t testing.TB) conformance.Harness {
	network := testnet.ForTest(t)
	spaces := map[string]*testnet.Namespace{}
	for _, role := range []string{"xtr", "site", "core"} {
		ns, err := network.Namespace(role)
		must(t, err)
		spaces[role] = ns
	}
	xtr := spaces["xtr"]
	must(t, xtr.Forward())
	must(t, xtr.SetReversePathFilter(2)) // the suite sends from sources that are not behind the site
	h := &engineHarness{
		site: connectWire(t, xtr, "site0", spaces["site"], []string{"10.1.0.1/24", "2001:db8:1::1/64"}, conformance.SiteHosts),
		core: connectWire(t, xtr, "core0", spaces["core"],
			[]string{conformance.OwnRLOC4.String() + "/24", conformance.OwnRLOC6.String() + "/64"}, conformance.PeerRLOCs),
	}
	must(t, xtr.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: conformance.PeerRLOCs[0]}))
	must(t, xtr.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: conformance.PeerRLOCs[2]}))
	must(t, xtr.Do(func() (err error) {
		h.engine, err = Open(Options{now: h.now, Mappings: conformanceMappings, Log: slog.New(slog.DiscardHandler)})
		return err
	}))
	must(t, xtr.SetSysctl("net.ipv4.conf.loci0.rp_filter", "2"))
	must(t, xtr.SetSysctl("net.ipv4.conf.loci0.accept_local", "1"))
	must(t, xtr.SetSysctl("net.ipv4.conf.loci0.forwarding", "1"))
	must(t, xtr.SetSysctl("net.ipv6.conf.loci0.forwarding", "1"))
	must(t, xtr.SetOffload("core0", testnet.UDPSegmentation, false)) // the suite reads single packets
	routeIntoTUN(t, xtr, h.engine.tun.Index)
	t.Cleanup(func() {
		if err := h.engine.Detach(context.Background()); err != nil && !errors.Is(err, dataplane.ErrClosed) {
			t.Errorf("detach: %v", err)
		}
	})
	return h
}

// connectWire makes a link from the router to a namespace where the neighbours are
// said to be.
func connectWire(t testing.TB, xtr *testnet.Namespace, name string, far *testnet.Namespace, own []string, neighbours []netip.Addr) *link {
	t.Helper()
	near := testnet.End{Namespace: xtr, Name: name, MTU: conformance.PathMTU}
	for _, address := range own {
		near.Addresses = append(near.Addresses, netip.MustParsePrefix(address))
	}
	must(t, far.SetSysctl("net.ipv6.conf.all.disable_ipv6", "1")) // no host there answers
	must(t, testnet.Connect(near, testnet.End{Namespace: far, Name: "wire0", MTU: 9000}))
	far0, err := xtr.Netlink().LinkByName(name)
	must(t, err)
	for _, a := range neighbours {
		must(t, xtr.Netlink().NeighSet(&netlink.Neigh{
			LinkIndex: far0.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IP(a.AsSlice()), HardwareAddr: wireMAC,
		}))
	}
	w := &link{router: far0.Attrs().HardwareAddr}
	must(t, far.Do(func() (err error) {
		w.file, err = packetSocket("wire0")
		return err
	}))
	t.Cleanup(func() { w.file.Close() })
	return w
}

func packetSocket(name string) (*os.File, error) {
	all := int(uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, all)
	if err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	index, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: index.Index}); err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20); err != nil {
		return nil, fmt.Errorf("packet socket: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (w *link) send(t testing.TB, packet []byte) {
	t.Helper()
	frame := append(append([]byte{}, w.router...), wireMAC...)
	kind := []byte{0x08, 0x00}
	if packet[0]>>4 == 6 {
		kind = []byte{0x86, 0xDD}
	}
	_, err := w.file.Write(append(append(frame, kind...), packet...))
	must(t, err)
}

// receive returns the next IP packet that is the suite's business.
func (w *link) receive(t testing.TB) ([]byte, bool) {
	t.Helper()
	must(t, w.file.SetReadDeadline(time.Now().Add(receivePatience)))
	for {
		buffer := make([]byte, 1<<16)
		octets, err := w.file.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, false
		}
		must(t, err)
		packet := buffer[:octets]
		if octets <= 14 {
			continue
		}
		packet = packet[14:]
		if h, err := forward.ParseHeader(packet); err == nil && forward.RoutableUnicast(h.Destination) && !isNeighbourDiscovery(packet, &h) {
			return packet[:h.Length], true
		}
	}
}

func isNeighbourDiscovery(packet []byte, h *forward.Header) bool {
	return h.Family == 6 && h.Protocol == unix.IPPROTO_ICMPV6 && packet[h.PayloadOffset] >= 133 && packet[h.PayloadOffset] <= 137
}

func (h *engineHarness) Plane() dataplane.Plane { return h.engine }
func (h *engineHarness) MappingLimit() int      { return conformanceMappings }

func (h *engineHarness) Settings() dataplane.Settings {
	s := h.engine.Settings()
	s.Interfaces = []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite}, {Name: "core0", Side: dataplane.SideCore}}
	s.LocalRLOCs = []lisp.RLOC{lisp.RLOCFromAddr(conformance.OwnRLOC4), lisp.RLOCFromAddr(conformance.OwnRLOC6)}
	return s
}

func (h *engineHarness) SendFromSite(t testing.TB, packet []byte)  { h.site.send(t, packet) }
func (h *engineHarness) SendFromCore(t testing.TB, packet []byte)  { h.core.send(t, packet) }
func (h *engineHarness) ReceiveAtCore(t testing.TB) ([]byte, bool) { return h.core.receive(t) }
func (h *engineHarness) ReceiveAtSite(t testing.TB) ([]byte, bool) { return h.site.receive(t) }

// Pass sleeps, unless that is too long: then the tables' clock is moved.
func (h *engineHarness) Pass(d time.Duration) {
	if d < time.Minute {
		time.Sleep(d)
		return
	}
	h.ahead.Add(int64(d))
}

func (h *engineHarness) Raise(event dataplane.Event) { h.engine.model.Raise(event) }

// routeIntoTUN leads what comes in into the TUN, as the daemon does.
func routeIntoTUN(t testing.TB, xtr *testnet.Namespace, tun int) {
	t.Helper()
	const table = 4341
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		_, all, _ := net.ParseCIDR(map[int]string{netlink.FAMILY_V4: "0.0.0.0/0", netlink.FAMILY_V6: "::/0"}[family])
		must(t, xtr.Netlink().RouteAdd(&netlink.Route{LinkIndex: tun, Dst: all, Table: table}))
		for _, from := range []string{"site0", "core0"} { // from the core, for PITRs
			rule := netlink.NewRule()
			rule.Family, rule.Priority, rule.Table, rule.IifName = family, 1001, table, from
			must(t, xtr.Netlink().RuleAdd(rule))
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) { conformance.Run(t, newHarness) }
