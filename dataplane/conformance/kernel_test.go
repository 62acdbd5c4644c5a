// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/kernel"
	"loci/internal/testnet"
	"loci/lisp"
)

// TestKernel runs the suite on the kernel engine, in a namespace with two veths whose
// far ends have no addresses: nobody there answers, a raw socket sends and sees all.
func TestKernel(t *testing.T) {
	testnet.RequireRoot(t)
	conformance.Run(t, newKernelHarness)
}

const (
	kernelMappings = 1024
	// databaseEntries is how many of them the suite's Database takes.
	databaseEntries = 2
)

var (
	hostMAC = net.HardwareAddr{2, 0, 0, 0, 0, 0x10}
	peerMAC = net.HardwareAddr{2, 0, 0, 0, 0, 0x20}
)

type kernelHarness struct {
	engine     *kernel.Engine
	xtr        *testnet.Namespace
	site, core *wire
}

func newKernelHarness(t testing.TB) conformance.Harness {
	t.Helper()
	network := testnet.ForTest(t)
	spaces := map[string]*testnet.Namespace{}
	for _, role := range []string{"host", "xtr", "peer"} {
		ns, err := network.Namespace(role)
		must(t, err)
		spaces[role] = ns
	}
	h := &kernelHarness{xtr: spaces["xtr"]}
	connect := func(name, far string, addresses ...string) {
		end := testnet.End{Namespace: h.xtr, Name: name}
		for _, a := range addresses {
			end.Addresses = append(end.Addresses, netip.MustParsePrefix(a))
		}
		must(t, testnet.Connect(end, testnet.End{Namespace: spaces[far], Name: name, MTU: 9000}))
		must(t, h.xtr.SetMTU(name, map[string]int{"site0": 9000, "core0": conformance.PathMTU}[name]))
	}
	connect("site0", "host", "10.1.0.1/24", "2001:db8:1::1/64")
	connect("core0", "peer", conformance.OwnRLOC4.String()+"/24", conformance.OwnRLOC6.String()+"/64")
	must(t, h.xtr.Forward())
	for _, route := range []testnet.Route{
		{Destination: netip.MustParsePrefix("0.0.0.0/0"), Via: conformance.PeerRLOCs[0]},
		{Destination: netip.MustParsePrefix("::/0"), Via: conformance.PeerRLOCs[2]},
	} {
		must(t, h.xtr.AddRoute(route))
	}
	h.site = h.wire(t, spaces["host"], "site0", hostMAC, conformance.SiteHosts)
	h.core = h.wire(t, spaces["peer"], "core0", peerMAC, conformance.PeerRLOCs)
	h.open(t)
	return h
}

func (h *kernelHarness) open(t testing.TB) {
	t.Helper()
	options := kernel.Options{
		Instance: strings.ReplaceAll(h.xtr.Name(), ".", "_"), MappingLimit: kernelMappings, TableOctets: 16 << 20,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	must(t, h.xtr.Do(func() (err error) {
		h.engine, err = kernel.Open(options)
		return err
	}))
	t.Cleanup(func() {
		if err := h.engine.Detach(context.Background()); err != nil && !errors.Is(err, dataplane.ErrClosed) {
			t.Errorf("detach: %v", err)
		}
		if err := os.RemoveAll(filepath.Join(kernel.DefaultPinDirectory, options.Instance)); err != nil {
			t.Error(err)
		}
	})
}

func (h *kernelHarness) Plane() dataplane.Plane { return h.engine }
func (h *kernelHarness) MappingLimit() int      { return kernelMappings - databaseEntries }
func (h *kernelHarness) Pass(d time.Duration)   { time.Sleep(d) }

func (h *kernelHarness) Settings() dataplane.Settings {
	return dataplane.Settings{
		Interfaces: []dataplane.Interface{{Name: "site0", Side: dataplane.SideSite}, {Name: "core0", Side: dataplane.SideCore}},
		LocalRLOCs: []lisp.RLOC{lisp.RLOCFromAddr(conformance.OwnRLOC4), lisp.RLOCFromAddr(conformance.OwnRLOC6)},
		Wait:       dataplane.DefaultWaitBounds,
	}
}

func (h *kernelHarness) SendFromSite(t testing.TB, packet []byte)  { h.site.send(t, packet) }
func (h *kernelHarness) SendFromCore(t testing.TB, packet []byte)  { h.core.send(t, packet) }
func (h *kernelHarness) ReceiveAtSite(t testing.TB) ([]byte, bool) { return h.site.receive(t) }
func (h *kernelHarness) ReceiveAtCore(t testing.TB) ([]byte, bool) { return h.core.receive(t) }

// wire is a raw socket at the far end of a veth.
type wire struct {
	fd    int
	frame []byte // Ethernet header of what it sends, without the type
	own   net.HardwareAddr
}

// receivePatience bounds the wait for a packet that does not come.
const receivePatience = 5 * time.Second

// wire opens the far end of a link of the router, and tells the router that all these
// neighbours have that hardware address.
func (h *kernelHarness) wire(t testing.TB, far *testnet.Namespace, name string, own net.HardwareAddr, neighbours []netip.Addr) *wire {
	t.Helper()
	near, err := h.xtr.Netlink().LinkByName(name)
	must(t, err)
	for _, a := range neighbours {
		must(t, h.xtr.Netlink().NeighSet(&netlink.Neigh{
			LinkIndex: near.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IP(a.AsSlice()), HardwareAddr: own,
		}))
	}
	w := &wire{own: own, frame: append(append([]byte{}, near.Attrs().HardwareAddr...), own...)}
	must(t, far.Do(func() (err error) {
		w.fd, err = openRaw(far, name)
		return err
	}))
	t.Cleanup(func() { unix.Close(w.fd) })
	return w
}

func openRaw(ns *testnet.Namespace, name string) (int, error) {
	link, err := ns.Netlink().LinkByName(name)
	if err != nil {
		return -1, err
	}
	all := binary.BigEndian.Uint16(binary.LittleEndian.AppendUint16(nil, unix.ETH_P_ALL))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
	if err != nil {
		return -1, err
	}
	patience := unix.NsecToTimeval(int64(receivePatience))
	return fd, errors.Join(
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience),
	)
}

func (w *wire) send(t testing.TB, packet []byte) {
	t.Helper()
	kind := []byte{0x08, 0x00}
	if packet[0]>>4 == 6 {
		kind = []byte{0x86, 0xDD}
	}
	frame := append(append(append([]byte{}, w.frame...), kind...), packet...)
	if _, err := unix.Write(w.fd, frame); err != nil {
		t.Errorf("send: %v", err)
	}
}

// receive returns the next IP packet to this end's address; what the kernel says on
// its own account goes to other ones.
func (w *wire) receive(t testing.TB) ([]byte, bool) {
	t.Helper()
	frame := make([]byte, 1<<16)
	for deadline := time.Now().Add(receivePatience); time.Now().Before(deadline); {
		n, _, err := unix.Recvfrom(w.fd, frame, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			return nil, false
		}
		must(t, err)
		kind := binary.BigEndian.Uint16(frame[12:])
		if string(frame[:6]) == string(w.own) && (kind == unix.ETH_P_IP || kind == unix.ETH_P_IPV6) {
			return frame[14:n], true
		}
	}
	return nil, false
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
