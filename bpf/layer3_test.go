// SPDX-License-Identifier: Apache-2.0

// Interfaces without link layer header (TUN, PPP): towards the site, towards the core, and both.

package bpf_test

import (
	"bytes"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// addTUN makes an interface that carries bare IP packets, with one address.
func (r *router) addTUN(t *testing.T, name, prefix, flag string) *os.File {
	t.Helper()
	var fd int
	must(t, r.ns.Do(func() (err error) {
		fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}))
	file := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { file.Close() })
	must(t, r.ns.AddAddress(name, netip.MustParsePrefix(prefix)))
	must(t, r.ns.SetUp(name, true))
	index := uint32(r.link(t, name).Attrs().Index)
	r.update("interfaces", index, r.encode("lisp_interface", fields{"flags": r.constant(flag), "l2_length": 0, "roots": r.rootsOf(0)}))
	return file
}

// readIPv4 returns the next packet between these two, and skips what the kernel sends by itself.
func readIPv4(t *testing.T, file *os.File, from, to string) []byte {
	t.Helper()
	wanted := append(netip.MustParseAddr(from).AsSlice(), netip.MustParseAddr(to).AsSlice()...)
	must(t, file.SetReadDeadline(time.Now().Add(2*time.Second)))
	for {
		buffer := make([]byte, 2048)
		n, err := file.Read(buffer)
		if err != nil {
			t.Fatalf("%s: no packet from %s to %s: %v", file.Name(), from, to, err)
		}
		if n >= 20 && buffer[0]>>4 == 4 && bytes.Equal(buffer[12:20], wanted) {
			return buffer[:n]
		}
	}
}

func send(t *testing.T, file *os.File, packet []byte) {
	t.Helper()
	_, err := file.Write(packet)
	must(t, err)
}

// TestSiteWithoutLinkLayer sends from a TUN through an Ethernet core, waiting included, and back.
func TestSiteWithoutLinkLayer(t *testing.T) {
	n := newNetwork(t, kernelHasDecapFlags(t))
	a, b := n.routers[0], n.routers[1]
	waiting := a.addTAP(t)
	tun := a.addTUN(t, "site1", "10.9.0.1/24", "LISP_INTERFACE_SITE")
	a.attach(t, "site1", "site_ingress", ebpf.AttachTCXIngress)
	a.database(0, "10.9.0.0/24")
	b.mapCache(0, "10.9.0.0/24", rloc4(0).String(), rloc4(1).String())
	echo := echoRequest("10.9.0.10", "10.2.0.10")
	send(t, tun, echo)
	f := waiting.read(t)
	if !bytes.Equal(f.ip(), echo) || !bytes.Equal(f.ethernet()[12:14], []byte{8, 0}) {
		t.Fatalf("at the TAP: %x", f.ethernet())
	}
	a.mapOther(0, rloc4)
	waiting.write(t, f, magicReleased)
	readIPv4(t, tun, "10.2.0.10", "10.9.0.10")
	send(t, tun, echo)
	reply := readIPv4(t, tun, "10.2.0.10", "10.9.0.10")
	if len(reply) != len(echo) || reply[20] != 0 {
		t.Errorf("no echo reply: %x", reply)
	}
}

// TestCoreWithoutLinkLayer sends from an Ethernet site and from a TUN to a TUN core and back.
func TestCoreWithoutLinkLayer(t *testing.T) {
	n := newNetwork(t, kernelHasDecapFlags(t))
	a := n.routers[0]
	core := a.addTUN(t, "core1", "198.51.100.1/24", "LISP_INTERFACE_CORE")
	site := a.addTUN(t, "site1", "10.9.0.1/24", "LISP_INTERFACE_SITE")
	a.attach(t, "site1", "site_ingress", ebpf.AttachTCXIngress)
	a.attach(t, "core1", "core_ingress", ebpf.AttachTCXIngress)
	a.localRLOC(netip.MustParseAddr("198.51.100.1"), 0)
	a.database(0, "10.9.0.0/24")
	a.mapCache(0, "10.2.0.0/24", "198.51.100.2", "198.51.100.1")
	send(t, site, echoRequest("10.9.0.10", "10.2.0.10"))
	outer := readIPv4(t, core, "198.51.100.1", "198.51.100.2")
	if len(outer) != 36+28 || !bytes.Equal(outer[36+12:36+16], []byte{10, 9, 0, 10}) {
		t.Fatalf("at the core: %x", outer)
	}
	back := func(inner []byte) []byte {
		return ip{from: netip.MustParseAddr("198.51.100.2"), to: netip.MustParseAddr("198.51.100.1"), ttl: 9, port: 4341,
			payload: append(make([]byte, 8), inner...)}.serialize()
	}
	send(t, core, back(echoRequest("10.2.0.10", "10.9.0.10")))
	readIPv4(t, site, "10.2.0.10", "10.9.0.10")
	// The host on the Ethernet answers what comes in by the TUN, and its answer leaves there.
	send(t, core, back(echoRequest("10.2.0.10", "10.1.0.10")))
	reply := readIPv4(t, core, "198.51.100.1", "198.51.100.2")
	if !bytes.Equal(reply[36+12:36+16], []byte{10, 1, 0, 10}) || reply[36+20] != 0 {
		t.Errorf("no echo reply: %x", reply)
	}
}

func echoRequest(from, to string) []byte {
	packet := make([]byte, 28)
	packet[0], packet[3], packet[8], packet[9] = 0x45, byte(len(packet)), 64, 1
	copy(packet[12:], netip.MustParseAddr(from).AsSlice())
	copy(packet[16:], netip.MustParseAddr(to).AsSlice())
	packet[20] = 8
	putChecksum(packet[:20], 10)
	putChecksum(packet[20:], 2)
	return packet
}

func putChecksum(b []byte, at int) {
	sum := internetChecksum(b)
	b[at], b[at+1] = byte(sum>>8), byte(sum)
}
