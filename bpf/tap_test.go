// SPDX-License-Identifier: Apache-2.0

// The pending-packet queue with real packets: a packet that misses comes out of the TAP with its checksum and
// segmentation state, and goes on when it is written back. A packet that is too big comes out too. This host's own EIDs use the TAP as their interface.

package bpf_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	vnetLength  = 10 // struct virtio_net_hdr
	etherLength = 14
	// what a site's packet waits for: LISP_DO_ENCAPSULATE
	waitsToEncapsulate = 1
	magicWaiting       = 0x4A
	magicReleased      = 0x4E
	magicTransmit      = 0x52
	reasonMiss         = 1
	reasonHold         = 2
	reasonTooBig       = 3

	reasonUnreachable = 4
	eidTable          = 4341
	vnetNeedsCSUM     = 1
	maxSuperPacket    = 65536 + vnetLength + etherLength
)

// tap is loci0 of a router.
type tap struct {
	file *os.File
}

// frame is what is read from or written to the TAP: virtio header, Ethernet header with metadata, packet.
type frame []byte

func (f frame) needsChecksum() bool  { return f[0]&vnetNeedsCSUM != 0 }
func (f frame) ethernet() []byte     { return f[vnetLength:] }
func (f frame) ip() []byte           { return f[vnetLength+etherLength:] }
func (f frame) magic() byte          { return f.ethernet()[6] }
func (f frame) reason() byte         { return f.ethernet()[7] }
func (f frame) origin() uint32       { return binary.BigEndian.Uint32(f.ethernet()[8:]) }
func (f frame) instance() uint32     { return binary.BigEndian.Uint32(f.ethernet()[1:]) & 0xFFFFFF }
func (f frame) setMagic(magic byte)  { f.ethernet()[6] = magic }
func (f frame) largestInner() uint16 { return binary.BigEndian.Uint16(f.ethernet()) }

// addTAP makes loci0 with its programs, routes and rules, as the daemon and the engine do.
func (r *router) addTAP(t *testing.T) *tap {
	t.Helper()
	var opened *tap
	must(t, r.ns.Do(func() (err error) {
		opened, err = openTAP("loci0")
		return err
	}))
	t.Cleanup(func() { opened.file.Close() })
	handle, found := r.ns.Netlink(), r.link(t, "loci0")
	// A random address could begin with one of the magic octets.
	must(t, handle.LinkSetHardwareAddr(found, net.HardwareAddr{2, 'l', 'o', 'c', 'i', 0}))
	found = r.link(t, "loci0")
	must(t, handle.LinkSetARPOff(found))
	must(t, handle.LinkSetUp(found))
	must(t, r.ns.SetSysctl("net.ipv4.conf.loci0.forwarding", "1"))
	must(t, r.ns.SetSysctl("net.ipv6.conf.loci0.forwarding", "1"))
	// Strict as all the others: packets from remote EIDs must be believed because of the routes.
	must(t, r.ns.SetSysctl("net.ipv4.conf.loci0.rp_filter", "1"))
	r.attach(t, "loci0", "lisp_egress", ebpf.AttachTCXEgress)
	r.attach(t, "loci0", "lisp_ingress", ebpf.AttachTCXIngress)
	r.declare(t, "loci0", "LISP_INTERFACE_TAP")
	r.settings(fields{
		"miss_interval_ns": uint64(time.Second), "tap_ifindex": uint32(found.Attrs().Index), "tap_mac": []byte(found.Attrs().HardwareAddr),
	})
	return opened
}

func openTAP(name string) (*tap, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	const offloads = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads); err != nil {
		return nil, fmt.Errorf("offloads of %s: %w", name, err)
	}
	return &tap{file: os.NewFile(uintptr(fd), name)}, nil
}

// read returns the next waiting packet; others, such as the kernel's own multicast, are skipped.
func (p *tap) read(t *testing.T) frame {
	t.Helper()
	for {
		f, err := p.next(time.Minute)
		must(t, err)
		if f.magic() == magicWaiting {
			return f
		}
	}
}

func (p *tap) next(timeout time.Duration) (frame, error) {
	buffer := make([]byte, maxSuperPacket)
	if err := p.file.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	n, err := p.file.Read(buffer)
	if err != nil || n < vnetLength+etherLength+20 {
		return nil, fmt.Errorf("read %d octets from the TAP: %w", n, err)
	}
	return frame(buffer[:n]), nil
}

func (p *tap) write(t *testing.T, f frame, magic byte) {
	t.Helper()
	f.setMagic(magic)
	if _, err := p.file.Write(f); err != nil {
		t.Errorf("write to the TAP: %v", err)
	}
}

// TestFirstPacketWaits lets an offloaded SYN miss, installs the mapping and writes it back: the connection stands.
func TestFirstPacketWaits(t *testing.T) {
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			n := newNetwork(t, kernelHasDecapFlags(t))
			waiting := n.routers[0].addTAP(t)
			n.routers[1].mapOther(1, pair.outer)
			n.lowerHostMTU(t)
			done := n.startTCP(pair)
			syn := waiting.read(t)
			site := uint32(n.routers[0].link(t, "site0").Attrs().Index)
			if syn.reason() != reasonMiss || syn.origin() != site || !syn.needsChecksum() {
				t.Fatalf("reason %d, origin %d (site0 is %d), needs checksum %v", syn.reason(), syn.origin(), site, syn.needsChecksum())
			}
			n.routers[0].mapOther(0, pair.outer)
			waiting.write(t, syn, magicReleased)
			if err := <-done; err != nil {
				t.Fatalf("%v; A: %s B: %s", err, n.routers[0].allDrops(), n.routers[1].allDrops())
			}
			if got := n.routers[0].counter("LISP_COUNTER_RELEASED"); got != 1 {
				t.Errorf("%d packets released, want the SYN alone", got)
			}
		})
	}
}

// startTCP transfers verified octets from host A to host B.
func (n *network) startTCP(pair pair) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := testnet.TCP{
			Client: n.hosts[0], Server: n.hosts[1], Source: pair.inner(0, 10), Destination: pair.inner(1, 10),
			Octets: 32 << 20, Verify: true, Timeout: 20 * time.Second,
		}.Run(context.Background())
		done <- err
	}()
	return done
}

// TestGSOPacketsWait holds a running transfer: GSO packets come out whole, and go on whole.
func TestGSOPacketsWait(t *testing.T) {
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			n := newNetwork(t, kernelHasDecapFlags(t))
			waiting := n.routers[0].addTAP(t)
			n.lowerHostMTU(t)
			a := n.routers[0]
			v4, v6 := a.mapOther(0, pair.outer)
			n.routers[1].mapOther(1, pair.outer)
			for _, index := range []uint32{v4, v6} {
				a.setMappingFlags(index, "LISP_MAPPING_VALID", "LISP_MAPPING_HOLD")
			}
			done := n.startTCP(pair)
			largest := relayUntilDone(t, waiting, done)
			if largest < 20000 {
				t.Errorf("the largest packet at the TAP had %d octets: no GSO packets", largest)
			}
			t.Logf("largest %d octets; A: %s", largest, a.allDrops())
		})
	}
}

// relayUntilDone writes back everything that waits, in order, and returns the size of the largest packet.
func relayUntilDone(t *testing.T, waiting *tap, done <-chan error) int {
	t.Helper()
	largest := 0
	for {
		select {
		case err := <-done:
			must(t, err)
			return largest
		default:
		}
		f, err := waiting.next(100 * time.Millisecond)
		if err != nil || f.magic() != magicWaiting {
			continue
		}
		if f.reason() != reasonHold {
			t.Fatalf("reason %d at the TAP", f.reason())
		}
		largest = max(largest, len(f.ip()))
		waiting.write(t, f, magicReleased)
	}
}

// TestTooBig gives hosts and core the same MTU of 1500: user space is told what fits, and its answer reaches the host.
func TestTooBig(t *testing.T) {
	n := newNetwork(t, kernelHasDecapFlags(t))
	waiting := n.routers[0].addTAP(t)
	for i, r := range n.routers {
		r.mapOther(i, rloc4)
	}
	done := n.startTCP(pairs[0])
	answered := 0
	for finished := false; !finished; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%v; A: %s B: %s", err, n.routers[0].allDrops(), n.routers[1].allDrops())
			}
			finished = true
			continue
		default:
		}
		f, err := waiting.next(50 * time.Millisecond)
		if err != nil || f.magic() != magicWaiting {
			continue
		}
		if f.reason() != reasonTooBig || f.largestInner() != 1464 {
			t.Fatalf("reason %d, largest inner packet %d, want %d and 1464", f.reason(), f.largestInner(), reasonTooBig)
		}
		waiting.write(t, fragmentationNeeded(f, siteAddress4(0, 1)), magicTransmit)
		answered++
	}
	if answered == 0 {
		t.Error("nothing was too big")
	}
	t.Logf("%d answers; A: %s", answered, n.routers[0].allDrops())
}

// fragmentationNeeded is ICMPv4 type 3 code 4 about the packet in f.
func fragmentationNeeded(f frame, from netip.Addr) frame {
	quote := f.ip()[:28]
	out := make(frame, vnetLength+etherLength+20+8+len(quote))
	copy(out.ethernet(), f.ethernet()[:etherLength])
	ip := out.ip()
	ip[0], ip[8], ip[9] = 0x45, 64, 1
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:16], from.AsSlice())
	copy(ip[16:20], quote[12:16])
	icmp := ip[20:]
	icmp[0], icmp[1] = 3, 4
	binary.BigEndian.PutUint16(icmp[6:], f.largestInner())
	copy(icmp[8:], quote)
	binary.BigEndian.PutUint16(icmp[2:], internetChecksum(icmp))
	binary.BigEndian.PutUint16(ip[10:], internetChecksum(ip[:20]))
	return out
}

func internetChecksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xFFFF {
		sum = sum>>16 + sum&0xFFFF
	}
	return ^uint16(sum)
}

// ruleTo sends what this host itself sends from its EIDs to loci0, and tells the reverse path filter the same.
func (r *router) ruleTo(t *testing.T, site int, from netip.Prefix) {
	t.Helper()
	handle, family, all := r.ns.Netlink(), netlink.FAMILY_V4, "0.0.0.0/0"
	if from.Addr().Is6() {
		family, all = netlink.FAMILY_V6, "::/0"
	}
	add := func(priority, table int, change func(*netlink.Rule)) {
		rule := netlink.NewRule()
		rule.Family, rule.Priority, rule.Table, rule.IifName = family, priority, table, "lo"
		change(rule)
		must(t, handle.RuleAdd(rule))
	}
	own := ipNet(from.Masked())
	add(1000, unix.RT_TABLE_MAIN, func(rule *netlink.Rule) { rule.Dst = own })
	add(1001, eidTable, func(rule *netlink.Rule) { rule.Src = own })
	add(32800, eidTable, func(rule *netlink.Rule) { rule.IifName = "" })
	_, everything, err := net.ParseCIDR(all)
	must(t, err)
	must(t, handle.RouteAdd(&netlink.Route{
		LinkIndex: r.link(t, "loci0").Attrs().Index, Dst: everything, Table: eidTable, Src: net.IP(from.Addr().AsSlice()),
	}))
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: net.IP(p.Addr().AsSlice()), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// TestOwnEIDs pings in both directions between a host and the remote xTR's own EID, and lets the xTR send ICMP errors.
func TestOwnEIDs(t *testing.T) {
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			n := newNetwork(t, kernelHasDecapFlags(t))
			a := n.routers[0]
			for i, r := range n.routers {
				r.addTAP(t)
				r.mapOther(i, pair.outer)
				own := pair.inner(i, 1)
				r.ruleTo(t, i, netip.PrefixFrom(own, map[bool]int{true: 24, false: 64}[own.Is4()]))
			}
			n.expectPings(t, n.hosts[1], pair.inner(1, 10), pair.inner(0, 1))
			n.expectPings(t, a.ns, pair.inner(0, 1), pair.inner(1, 10))
			n.expectPings(t, a.ns, netip.Addr{}, pair.inner(1, 10))
			n.expectPings(t, a.ns, pair.inner(0, 1), pair.inner(1, 1))
			n.expectRefused(t, n.hosts[1], netip.AddrPortFrom(pair.inner(0, 1), 9))
			n.expectRefused(t, a.ns, netip.AddrPortFrom(pair.inner(1, 10), 9))
		})
	}
}

// TestTimeExceeded traces the route between hosts: both xTRs answer, the far one from behind the tunnel.
func TestTimeExceeded(t *testing.T) {
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			n := newNetwork(t, kernelHasDecapFlags(t))
			for i, r := range n.routers {
				r.addTAP(t)
				r.mapOther(i, pair.outer)
				own := pair.inner(i, 1)
				r.ruleTo(t, i, netip.PrefixFrom(own, map[bool]int{true: 24, false: 64}[own.Is4()]))
			}
			for ttl := 1; ttl <= 2; ttl++ {
				n.expectTimeExceeded(t, netip.AddrPortFrom(pair.inner(1, 10), 9), ttl)
			}
		})
	}
}

func (n *network) expectTimeExceeded(t *testing.T, to netip.AddrPort, ttl int) {
	t.Helper()
	var conn net.Conn
	must(t, n.hosts[0].Do(func() (err error) {
		conn, err = net.Dial("udp", to.String())
		return err
	}))
	defer conn.Close()
	raw, err := conn.(*net.UDPConn).SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) {
		if to.Addr().Is4() {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, ttl),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1))
		} else {
			err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, ttl),
				unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1))
		}
	}))
	must(t, err)
	_, err = conn.Write([]byte("?"))
	must(t, err)
	must(t, conn.SetDeadline(time.Now().Add(2*time.Second)))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, unix.EHOSTUNREACH) {
		t.Errorf("TTL %d: %v, want %v\nA: %s\nB: %s", ttl, err, unix.EHOSTUNREACH, n.routers[0].allDrops(), n.routers[1].allDrops())
	}
}

func (n *network) expectPings(t *testing.T, from *testnet.Namespace, source, destination netip.Addr) {
	t.Helper()
	got, err := testnet.Ping{Namespace: from, Source: source, Destination: destination, Count: 3}.Run(context.Background())
	if err != nil || got.Received != 3 {
		t.Errorf("ping %s to %s: %d of 3, %v\nA: %s\nB: %s", source, destination, got.Received, err,
			n.routers[0].allDrops(), n.routers[1].allDrops())
	}
}

// expectRefused sends UDP to a closed port and waits for the ICMP error.
func (n *network) expectRefused(t *testing.T, from *testnet.Namespace, to netip.AddrPort) {
	t.Helper()
	var conn net.Conn
	must(t, from.Do(func() (err error) {
		conn, err = net.Dial("udp", to.String())
		return err
	}))
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(2*time.Second)))
	_, err := conn.Write([]byte("?"))
	must(t, err)
	if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("UDP to %s: %v, want connection refused\nA: %s\nB: %s", to, err, n.routers[0].allDrops(), n.routers[1].allDrops())
	}
}
