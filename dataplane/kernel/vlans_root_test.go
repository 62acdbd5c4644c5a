// SPDX-License-Identifier: Apache-2.0

// VLANs as sites: frames with tags, from and to a host that is a raw socket, because not
// every kernel has devices for VLANs. The tests need root.

package kernel

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane"
	"loci/dataplane/kernel/observe"
	"loci/dataplane/kernel/tap"
	"loci/forward"
	"loci/internal/testnet"
	"loci/lisp"
)

// vlanOf are the VLANs of two Instance-IDs with equal EIDs.
var vlanOf = map[lisp.InstanceID]uint16{7: 10, 8: 20}

// rawEnd is an interface whose frames a test sends and receives itself.
type rawEnd struct {
	fd  int
	mac net.HardwareAddr
}

func openRaw(t *testing.T, ns *testnet.Namespace, name string) rawEnd {
	t.Helper()
	link, err := ns.Netlink().LinkByName(name)
	must(t, err)
	r := rawEnd{mac: link.Attrs().HardwareAddr}
	must(t, ns.Do(func() (err error) {
		all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL})
		if r.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all)); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(r.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50000}); err != nil {
			return err
		}
		return unix.Bind(r.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Attrs().Index})
	}))
	t.Cleanup(func() { unix.Close(r.fd) })
	return r
}

// send sends a packet to a hardware address, with a tag unless vlan is 0.
func (r rawEnd) send(t *testing.T, to net.HardwareAddr, vlan uint16, packet []byte) {
	t.Helper()
	frame := append(append([]byte{}, to...), r.mac...)
	if vlan != 0 {
		frame = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(frame, unix.ETH_P_8021Q), vlan)
	}
	kind := uint16(unix.ETH_P_IP)
	if packet[0]>>4 == 6 {
		kind = unix.ETH_P_IPV6
	}
	_, err := unix.Write(r.fd, append(binary.BigEndian.AppendUint16(frame, kind), packet...))
	must(t, err)
}

// receive returns the next packet that came in, and its tag; nil when none came for a while.
func (r rawEnd) receive(t *testing.T) (packet []byte, vlan uint16) {
	t.Helper()
	buffer, control := make([]byte, 2048), make([]byte, 256)
	n, controls, _, from, err := unix.Recvmsg(r.fd, buffer, control, 0)
	if err == unix.EAGAIN || err == unix.EINTR {
		return nil, 0
	}
	must(t, err)
	if a, ok := from.(*unix.SockaddrLinklayer); !ok || a.Pkttype == unix.PACKET_OUTGOING || n < tap.EthernetOctets {
		return []byte{}, 0
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	must(t, err)
	for _, m := range messages {
		// struct tpacket_auxdata: tp_status is the first word, tp_vlan_tci stands at 16.
		if m.Header.Type == unix.PACKET_AUXDATA && binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID != 0 {
			vlan = binary.NativeEndian.Uint16(m.Data[16:])
		}
	}
	return buffer[tap.EthernetOctets:n], vlan
}

// vlanRouter is one router: VLANs 10 and 20 of site0 lead to hosts with equal EIDs.
type vlanRouter struct {
	*router
	host, peer rawEnd
	siteMAC    net.HardwareAddr
	coreMAC    net.HardwareAddr
}

func newVLANRouter(t *testing.T) *vlanRouter {
	t.Helper()
	spaces := testnet.ForTest(t)
	var ns [3]*testnet.Namespace
	for i, role := range []string{"host", "xtr", "peer"} {
		var err error
		ns[i], err = spaces.Namespace(role)
		must(t, err)
	}
	connectSite(t, ns[0], ns[1], 0)
	must(t, testnet.Connect(coreEnd(ns[1], 0), coreEnd(ns[2], 1)))
	must(t, ns[1].Forward())
	v := &vlanRouter{router: &router{ns: ns[1], instance: ns[1].Name()}}
	v.host, v.peer = openRaw(t, ns[0], "eth0"), openRaw(t, ns[2], "core0")
	v.siteMAC, v.coreMAC = v.permanent(t, "site0", v.host.mac, siteAddress4(0, 10), siteAddress6(0, 10)), v.permanent(t, "core0", v.peer.mac, rloc4(1), rloc6(1))
	for _, end := range []struct {
		ns   *testnet.Namespace
		name string
	}{{ns[0], "eth0"}, {ns[2], "core0"}} {
		must(t, end.ns.SetOffload(end.name, testnet.GRO, true)) // so that they take frames of XDP
	}
	v.open(t, Options{})
	for i := range 2 {
		for _, o := range append(siteOperations(0), mappingOf(1, rloc4)...) {
			v.apply(t, inInstance(t, lisp.InstanceID(7+i), o)...)
		}
	}
	return v
}

// permanent makes neighbours known that answer no solicitation.
func (v *vlanRouter) permanent(t *testing.T, name string, mac net.HardwareAddr, addresses ...netip.Addr) net.HardwareAddr {
	t.Helper()
	link, err := v.ns.Netlink().LinkByName(name)
	must(t, err)
	for _, a := range addresses {
		must(t, v.ns.Netlink().NeighSet(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: mac}))
	}
	return link.Attrs().HardwareAddr
}

// inInstance moves an operation's prefix into an Instance-ID; of settings, the site becomes both VLANs.
func inInstance(t *testing.T, instance lisp.InstanceID, o dataplane.Operation) []dataplane.Operation {
	t.Helper()
	move := func(p lisp.Prefix) lisp.Prefix {
		moved, err := lisp.PrefixFrom(instance, p.EID(), p.Bits())
		must(t, err)
		return moved
	}
	switch o := o.(type) {
	case dataplane.SetSettings:
		o.Settings.Interfaces = []dataplane.Interface{{Name: "core0", Side: dataplane.SideCore}}
		for _, i := range []lisp.InstanceID{7, 8} {
			o.Settings.Interfaces = append(o.Settings.Interfaces, dataplane.Interface{Name: "site0", Side: dataplane.SideSite, Instance: i, VLAN: vlanOf[i]})
		}
		return []dataplane.Operation{o}
	case dataplane.PutDatabase:
		o.Entry.Prefix = move(o.Entry.Prefix)
		return []dataplane.Operation{o}
	case dataplane.PutMapping:
		o.Entry.Mapping.Prefix = move(o.Entry.Mapping.Prefix)
		return []dataplane.Operation{o}
	}
	return nil
}

// datagram is a datagram of the discard protocol.
func datagram(from, to netip.Addr) []byte {
	payload := []byte{0, 9, 0, 9, 0, 12, 0, 0, 'V', 'L', 'A', 'N'}
	if from.Is4() {
		h := append([]byte{0x45, 0, 0, byte(20 + len(payload)), 0, 0, 0x40, 0, 64, unix.IPPROTO_UDP, 0, 0}, append(from.AsSlice(), to.AsSlice()...)...)
		binary.BigEndian.PutUint16(h[10:], headerSum(h))
		return append(h, payload...)
	}
	h := append([]byte{0x60, 0, 0, 0, 0, byte(len(payload)), unix.IPPROTO_UDP, 64}, append(from.AsSlice(), to.AsSlice()...)...)
	return append(h, payload...)
}

func headerSum(h []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xFFFF {
		sum = sum&0xFFFF + sum>>16
	}
	return ^uint16(sum)
}

// await sends until a packet that fits comes.
func await(t *testing.T, what string, send func(), end rawEnd, fits func(packet []byte, vlan uint16) bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		send()
		for {
			packet, vlan := end.receive(t)
			if packet == nil {
				break
			}
			if len(packet) > 0 && fits(packet, vlan) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s never came", what)
		}
	}
}

func TestVLANsAreSites(t *testing.T) {
	t.Parallel()
	v := newVLANRouter(t)
	for _, hook := range []dataplane.Hook{dataplane.HookTC, dataplane.HookXDP} {
		s := v.Settings()
		for i := range s.Interfaces {
			s.Interfaces[i].Hook = hook
		}
		v.apply(t, dataplane.SetSettings{Settings: s})
		for _, p := range pairs[:2] {
			for instance, vlan := range vlanOf {
				t.Run(fmt.Sprintf("%v, %s, VLAN %d", hook, p.name, vlan), func(t *testing.T) { v.bothWays(t, p, instance, vlan) })
			}
		}
	}
	v.expectUntouched(t)
	v.expectTraces(t)
}

// expectTraces traces frames with a tag, also while XDP is in front.
func (v *vlanRouter) expectTraces(t *testing.T) {
	t.Helper()
	tracer, err := v.tracer(t)
	must(t, err)
	out := datagram(siteAddress4(0, 10), siteAddress4(1, 10))
	for instance, vlan := range vlanOf {
		text, sent := v.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: out, VLAN: vlan})
		e, reason := forward.ParseEncapsulated(sent)
		if !strings.HasPrefix(text, observe.VerdictEncapsulate) || reason != forward.DropNone || e.Instance != instance {
			t.Errorf("VLAN %d: %s, sent with Instance-ID %d, %s", vlan, text, e.Instance, reason)
		}
	}
	for _, vlan := range []uint16{0, 30} {
		if text, _ := v.expectTrace(t, tracer, "site0", observe.TracedPacket{Packet: out, VLAN: vlan}); !strings.HasPrefix(text, observe.VerdictPass) {
			t.Errorf("VLAN %d: %s, want it to pass", vlan, text)
		}
	}
}

// bothWays sends a packet from a VLAN, expects its Instance-ID, and sends an answer back.
func (v *vlanRouter) bothWays(t *testing.T, p pair, instance lisp.InstanceID, vlan uint16) {
	t.Helper()
	out := datagram(p.inner(0, 10), p.inner(1, 10))
	var lispPacket []byte
	await(t, "an encapsulated packet", func() { v.host.send(t, v.siteMAC, vlan, out) }, v.peer, func(packet []byte, tag uint16) bool {
		e, reason := forward.ParseEncapsulated(packet)
		if reason != forward.DropNone || e.Header.Source != p.inner(0, 10) || e.Instance != instance {
			return false
		}
		lispPacket = packet
		return tag == 0
	})
	e, _ := forward.ParseEncapsulated(lispPacket)
	back := datagram(p.inner(1, 10), p.inner(0, 10))
	h, err := forward.ParseHeader(back)
	must(t, err)
	answer, reason := forward.Encapsulate(nil, back, &h, &forward.Tunnel{
		Source: lisp.RLOCFromAddr(rloc4(1)), Destination: lisp.RLOCFromAddr(rloc4(0)), Header: e.LISP,
	})
	if reason != forward.DropNone {
		t.Fatal(reason)
	}
	await(t, "a packet with its tag", func() { v.peer.send(t, v.coreMAC, 0, answer) }, v.host, func(packet []byte, tag uint16) bool {
		got, err := forward.ParseHeader(packet)
		return err == nil && got.Source == p.inner(1, 10) && got.Destination == p.inner(0, 10) && tag == vlan
	})
}

// expectUntouched demands that other frames of the interface are none of LISP's, and that what waits comes back with its VLAN.
func (v *vlanRouter) expectUntouched(t *testing.T) {
	t.Helper()
	before := v.Counters().EncapsulatedPackets
	out := datagram(siteAddress4(0, 10), siteAddress4(1, 10))
	for _, vlan := range []uint16{0, 30} {
		v.host.send(t, v.siteMAC, vlan, out)
	}
	missing := datagram(siteAddress4(0, 10), netip.MustParseAddr("10.99.0.1"))
	v.host.send(t, v.siteMAC, vlanOf[8], missing) // after them, on the same way
	for deadline := time.Now().Add(patience); v.Counters().WaitingPackets == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no packet waits: %+v", v.Counters())
		}
	}
	if after := v.Counters().EncapsulatedPackets; after != before {
		t.Errorf("%d packets of other VLANs were encapsulated", after-before)
	}
	entry := mappingOf(1, rloc4)[0].(dataplane.PutMapping)
	entry.Entry.Mapping.Prefix = lisp.MustParsePrefix("[8]10.99.0.0/16")
	await(t, "the packet that waited", func() { v.apply(t, entry) }, v.peer, func(packet []byte, _ uint16) bool {
		e, reason := forward.ParseEncapsulated(packet)
		return reason == forward.DropNone && e.Header.Destination == netip.MustParseAddr("10.99.0.1") && e.Instance == 8
	})
}
