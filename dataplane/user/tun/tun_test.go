// SPDX-License-Identifier: Apache-2.0

// The tests need root: they make TUN interfaces in a namespace of their own.

package tun

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/dataplane/kernel/netspace"
	"loci/internal/testnet"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// here is a namespace for interfaces.
func here(t *testing.T) (*testnet.Namespace, *netspace.Space) {
	t.Helper()
	ns, err := testnet.ForTest(t).Namespace("xtr")
	must(t, err)
	var space *netspace.Space
	must(t, ns.Do(func() (err error) {
		space, err = netspace.Current()
		return err
	}))
	t.Cleanup(func() { _ = space.Close() })
	return ns, space
}

// opened is a descriptor as somebody else opens it.
func opened(t *testing.T, ns *testnet.Namespace, name string, flags uint16) (fd int) {
	t.Helper()
	must(t, ns.Do(func() (err error) {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(flags)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}))
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// handing serves descriptors at a Unix socket, a message for each connection.
func handing(t *testing.T, fds ...int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tun.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			peer, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			var rights []byte
			if len(fds) > 0 {
				rights = unix.UnixRights(fds...)
			}
			_, _, _ = peer.WriteMsgUnix([]byte{0}, rights, nil)
			_ = peer.Close()
		}
	}()
	return path
}

const (
	whole  = unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR
	simple = unix.IFF_TUN | unix.IFF_NO_PI // as Android's
)

// TestForeign opens interfaces of others. A packet goes through each queue in both directions, whichever frames it has.
func TestForeign(t *testing.T) {
	ns, space := here(t)
	tests := []struct {
		name     string
		flags    uint16
		queues   int
		atSocket bool
	}{
		{"with virtio headers", whole, 1, false},
		{"packets alone", simple, 1, false},
		{"several queues", whole | unix.IFF_MULTI_QUEUE, 3, false},
		{"several queues of packets alone", simple | unix.IFF_MULTI_QUEUE, 2, false},
		{"handed over", whole | unix.IFF_MULTI_QUEUE, 2, true},
		{"packets alone, handed over", simple, 1, true},
	}
	for n, test := range tests {
		source := Source{Name: "vpn" + string(rune('a'+n))}
		for range test.queues {
			source.Descriptors = append(source.Descriptors, opened(t, ns, source.Name, test.flags))
		}
		inherited := source.Descriptors
		if test.atSocket {
			source.Socket, source.Descriptors = handing(t, source.Descriptors...), nil
		}
		i, err := Open(space, source, 1)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		link, err := ns.Netlink().LinkByName(source.Name)
		must(t, err)
		if len(i.Queues) != test.queues || i.Index() != link.Attrs().Index || link.Attrs().Flags&net.FlagUp == 0 {
			t.Errorf("%s: %d queues, index %d, %v", test.name, len(i.Queues), i.Index(), link)
		}
		for _, q := range i.Queues {
			w := q.Writer()
			if w.Joins() != (test.flags&unix.IFF_VNET_HDR != 0) {
				t.Errorf("%s: joins: %v", test.name, w.Joins())
			}
			before := receivedBy(t, ns, source.Name)
			packet := append([]byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 203, 0, 113, 1, 203, 0, 113, 2}, make([]byte, 8)...)
			must(t, w.Write(make([]byte, 10), packet))
			if after := receivedBy(t, ns, source.Name); after != before+uint64(len(packet)) {
				t.Errorf("%s: the host got %d octets of a packet of %d", test.name, after-before, len(packet))
			}
		}
		must(t, ns.AddRoute(testnet.Route{Destination: prefixOf(n), Link: source.Name}))
		must(t, ns.Do(func() error {
			conn, err := net.Dial("udp4", net.JoinHostPort(prefixOf(n).Addr().Next().String(), "9"))
			if err == nil {
				_, err = conn.Write([]byte("data"))
				_ = conn.Close()
			}
			return err
		}))
		if !readsUDP(i) {
			t.Errorf("%s: no packet came", test.name)
		}
		must(t, i.Remove())
		must(t, i.Close())
		for _, fd := range inherited {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
				t.Errorf("%s: the inherited descriptor was closed: %v", test.name, err)
			}
		}
		again, err := Open(space, source, 1) // as after the engine was changed, and back
		if err != nil {
			t.Errorf("%s: again: %v", test.name, err)
			continue
		}
		must(t, again.Close())
	}
}

// prefixOf is a network of a test's own.
func prefixOf(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(16 * n)}), 28)
}

// receivedBy is how many octets came in by an interface.
func receivedBy(t *testing.T, ns *testnet.Namespace, name string) uint64 {
	t.Helper()
	link, err := ns.Netlink().LinkByName(name)
	must(t, err)
	return link.Attrs().Statistics.RxBytes
}

// readsUDP reads until a datagram comes by any queue; others are the host's own, of IPv6.
func readsUDP(i *Interface) bool {
	frame := make([]byte, FrameOctets)
	for range 1000 {
		for _, q := range i.Queues {
			octets, err := q.Read(frame)
			if err == nil && octets == 10+20+8+4 && frame[10] == 0x45 && string(frame[10+28:octets]) == "data" {
				return true
			}
		}
	}
	return false
}

// TestForeignRefused: what is no TUN of that name, or is not handed over, is refused with what to do.
func TestForeignRefused(t *testing.T) {
	ns, space := here(t)
	null, err := os.Open("/dev/null")
	must(t, err)
	defer null.Close()
	fd := func(name string, flags uint16) []int { return []int{opened(t, ns, name, flags)} }
	tests := map[string]struct {
		source Source
		want   string
	}{
		"a TAP":         {Source{Name: "one0", Descriptors: fd("one0", unix.IFF_TAP|unix.IFF_NO_PI)}, "a TAP: want a TUN"},
		"with tun_pi":   {Source{Name: "two0", Descriptors: fd("two0", unix.IFF_TUN)}, "want IFF_NO_PI"},
		"another name":  {Source{Name: "loci0", Descriptors: fd("three0", whole)}, "set datapath.interface to three0"},
		"no TUN":        {Source{Name: "loci0", Descriptors: []int{int(null.Fd())}}, "of no TUN interface"},
		"not inherited": {Source{Name: "loci0", Descriptors: []int{999}}, "descriptor 999 was not inherited"},
		"no listener":   {Source{Name: "loci0", Socket: filepath.Join(t.TempDir(), "none")}, "where the descriptor is handed over: connect: no such file"},
		"no descriptor": {Source{Name: "loci0", Socket: handing(t)}, "1 octets came without a descriptor"},
		"one of two":    {Source{Name: "four0", Descriptors: append(fd("four0", whole), int(null.Fd()))}, "of no TUN interface"},
	}
	before := descriptorsOfTUNs(t)
	for name, test := range tests {
		i, err := Open(space, test.source, 1)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err == nil {
			must(t, i.Close())
		}
	}
	if after := descriptorsOfTUNs(t); after != before {
		t.Errorf("%d descriptors of interfaces are open, %d were", after, before)
	}
}

// TestNothingIsHandedOver: a process that accepts and is silent is waited for so long and no longer, and one that leaves is no error of
// reading.
func TestNothingIsHandedOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tun.sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	defer listener.Close()
	if list, err := receive(path, 200*time.Millisecond); err == nil || !strings.Contains(err.Error(), "nothing came within 200ms") {
		t.Errorf("%v, %v", list, err)
	}
	go func() {
		for {
			peer, err := listener.Accept()
			if err != nil {
				return
			}
			_ = peer.Close()
		}
	}()
	if list, err := receive(path, time.Minute); err == nil || !strings.Contains(err.Error(), "0 octets came without a descriptor") {
		t.Errorf("%v, %v", list, err)
	}
}

func descriptorsOfTUNs(t *testing.T) (count int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && target == "/dev/net/tun" {
			count++
		}
	}
	return count
}

// TestOwned opens an interface that was made for a user by its name: it stays when the engine is removed, and has as many queues as
// it was made with.
func TestOwned(t *testing.T) {
	ns, space := here(t)
	for _, flags := range []netlink.TuntapFlag{netlink.TUNTAP_MULTI_QUEUE_DEFAULTS, netlink.TUNTAP_ONE_QUEUE | netlink.TUNTAP_NO_PI} {
		must(t, ns.Do(func() error {
			return netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "loci0"}, Mode: netlink.TUNTAP_MODE_TUN, Flags: flags, Owner: 65534})
		}))
		i, err := Open(space, Source{Name: "loci0"}, 2)
		must(t, err)
		if want := map[bool]int{true: 2, false: 1}[flags&netlink.TUNTAP_MULTI_QUEUE != 0]; len(i.Queues) != want || !i.Queues[0].Writer().Joins() {
			t.Errorf("%d queues, want %d", len(i.Queues), want)
		}
		if _, err := Open(space, Source{Name: "loci0"}, 2); !errors.Is(err, ErrBusy) {
			t.Errorf("it is opened twice: %v", err)
		}
		must(t, i.Remove())
		must(t, i.Close())
		must(t, Remove(space, "loci0"))
		link, err := ns.Netlink().LinkByName("loci0")
		must(t, err)
		must(t, ns.Netlink().LinkDel(link))
	}
}
