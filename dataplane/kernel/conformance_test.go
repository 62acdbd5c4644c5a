// SPDX-License-Identifier: Apache-2.0

// The conformance suite of engines, with the kernel's network around the engine: a
// namespace for the router, one for the site and one for the core, both of which
// hold nothing but a packet socket. The tests need root.

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/kernel/abi"
	"loci/dataplane/kernel/pins"
	"loci/dataplane/kernel/tap"
	"loci/forward"
	"loci/internal/testnet"
	"loci/lisp"
)

const (
	conformanceMappings = 300
	siteEntries         = 2 // of the Database, which shares the table's limit
	receivePatience     = 400 * time.Millisecond
)

// wire is the end of a link at which the suite sends and receives packets.
type wire struct {
	file   *os.File
	router net.HardwareAddr // of the other end
}

var wireMAC = net.HardwareAddr{2, 0, 0, 0, 0, 0x77}

// engineHarness is a conformance.Harness.
type engineHarness struct {
	engine     *Engine
	site, core *wire
	hook       dataplane.Hook
}

func newHarness(t testing.TB) conformance.Harness { return newHarnessAt(t, dataplane.HookTC) }

func newHarnessAt(t testing.TB, hook dataplane.Hook) conformance.Harness {
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
		hook: hook,
		site: connectWire(t, xtr, "site0", spaces["site"], []string{"10.1.0.1/24", "2001:db8:1::1/64"}, conformance.SiteHosts),
		core: connectWire(t, xtr, "core0", spaces["core"],
			[]string{conformance.OwnRLOC4.String() + "/24", conformance.OwnRLOC6.String() + "/64"}, conformance.PeerRLOCs),
	}
	must(t, xtr.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: conformance.PeerRLOCs[0]}))
	must(t, xtr.AddRoute(testnet.Route{Destination: netip.MustParsePrefix("::/0"), Via: conformance.PeerRLOCs[2]}))
	instance := strings.ReplaceAll(xtr.Name(), ".", "_")
	must(t, xtr.Do(func() (err error) {
		h.engine, err = Open(Options{Instance: instance, MappingLimit: conformanceMappings + siteEntries, Logger: testLogger()})
		return err
	}))
	t.Cleanup(func() {
		if err := h.engine.Detach(context.Background()); err != nil && !errors.Is(err, dataplane.ErrClosed) {
			t.Errorf("detach: %v", err)
		}
		_ = os.RemoveAll(pins.DefaultDirectory + "/" + instance) // of an engine that was closed
	})
	return h
}

// connectWire makes a link from the router to a namespace where the neighbours are
// said to be.
func connectWire(t testing.TB, xtr *testnet.Namespace, name string, far *testnet.Namespace, own []string, neighbours []netip.Addr) *wire {
	t.Helper()
	near := testnet.End{Namespace: xtr, Name: name, MTU: conformance.PathMTU}
	for _, address := range own {
		near.Addresses = append(near.Addresses, netip.MustParsePrefix(address))
	}
	must(t, far.SetSysctl("net.ipv6.conf.all.disable_ipv6", "1")) // no host there answers
	must(t, testnet.Connect(near, testnet.End{Namespace: far, Name: "wire0", MTU: 9000}))
	link, err := xtr.Netlink().LinkByName(name)
	must(t, err)
	for _, a := range neighbours {
		must(t, xtr.Netlink().NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IP(a.AsSlice()), HardwareAddr: wireMAC,
		}))
	}
	w := &wire{router: link.Attrs().HardwareAddr}
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

func (w *wire) send(t testing.TB, packet []byte) {
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
func (w *wire) receive(t testing.TB) ([]byte, bool) {
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
		if octets <= tap.EthernetOctets {
			continue
		}
		packet = packet[tap.EthernetOctets:]
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
	s.Interfaces = []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite, Hook: h.hook}, {Name: "core0", Side: dataplane.SideCore, Hook: h.hook}}
	s.LocalRLOCs = []lisp.RLOC{lisp.RLOCFromAddr(conformance.OwnRLOC4), lisp.RLOCFromAddr(conformance.OwnRLOC6)}
	return s
}

func (h *engineHarness) SendFromSite(t testing.TB, packet []byte)  { h.site.send(t, packet) }
func (h *engineHarness) SendFromCore(t testing.TB, packet []byte)  { h.core.send(t, packet) }
func (h *engineHarness) ReceiveAtCore(t testing.TB) ([]byte, bool) { return h.core.receive(t) }
func (h *engineHarness) ReceiveAtSite(t testing.TB) ([]byte, bool) { return h.site.receive(t) }

// Pass sleeps, unless that is too long: then the pauses of Locator-Status-Bits come nearer.
func (h *engineHarness) Pass(d time.Duration) {
	if d < time.Minute {
		time.Sleep(d)
		return
	}
	h.engine.mu.Lock()
	defer h.engine.mu.Unlock()
	for _, index := range h.engine.tables.Entries.All() {
		if record := &h.engine.tables.Records[index]; record.Flags&abi.MappingDatabase != 0 {
			atomic.StoreUint64(&record.ExpiresNs, record.ExpiresNs-min(record.ExpiresNs, uint64(d)))
		}
	}
}

// Shows RFC 9300 s.5 (3), RFC 9300 s.8 (1), RFC 9300 s.13.1 (2), RFC 9300 s.13.1 (3), RFC 9301 s.5.4 (4), RFC 6832 s.5 (2), RFC 6832 s.5.2
// (2), RFC 6832 s.6 (1), RFC 6832 s.6.1 (3), (4), (5), RFC 8060 s.4.6 (2).
func TestConformance(t *testing.T) { conformance.Run(t, newHarness) }

// TestConformanceAtXDP is the suite with the XDP programs in front of those at tc.
func TestConformanceAtXDP(t *testing.T) {
	conformance.Run(t, func(t testing.TB) conformance.Harness { return newHarnessAt(t, dataplane.HookXDP) })
}
