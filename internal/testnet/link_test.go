// SPDX-License-Identifier: Apache-2.0

package testnet

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// TestAddressesAreUsableAtOnce: what a host sends to an address of its own arrives, directly after it has it.
func TestAddressesAreUsableAtOnce(t *testing.T) {
	for range 40 {
		host, err := ForTest(t).Namespace("host")
		must(t, err)
		must(t, host.SetUp("lo", true))
		for _, pair := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8::2"}} {
			from, to := netip.MustParseAddr(pair[0]), netip.AddrPortFrom(netip.MustParseAddr(pair[1]), 4341)
			must(t, host.AddAddress("lo", netip.PrefixFrom(from, from.BitLen())))
			must(t, host.AddAddress("lo", netip.PrefixFrom(to.Addr(), to.Addr().BitLen())))
			must(t, host.Do(func() error { return sendToOwn(t, from, to) }))
		}
	}
}

// sendToOwn sends a datagram between addresses of the calling thread's namespace.
func sendToOwn(t *testing.T, from netip.Addr, to netip.AddrPort) error {
	receiver, err := net.ListenUDP("udp", &net.UDPAddr{Port: int(to.Port())})
	if err != nil {
		return err
	}
	defer receiver.Close()
	sender, err := net.DialUDP("udp", &net.UDPAddr{IP: from.AsSlice()}, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return err
	}
	defer sender.Close()
	must(t, receiver.SetReadDeadline(time.Now().Add(3*time.Second)))
	if _, err := sender.Write([]byte("x")); err != nil {
		return err
	}
	_, err = receiver.Read(make([]byte, 9))
	return err
}

// TestReplug: the near end keeps its index and has the new addresses alone; what it sends arrives in the other
// namespace. It is for networks whose nodes have interfaces of the same name.
func TestReplug(t *testing.T) {
	network := ForTest(t)
	var spaces []*Namespace
	for _, role := range []string{"node", "first", "second"} {
		ns, err := network.Namespace(role)
		must(t, err)
		spaces = append(spaces, ns)
	}
	prefixes := func(list ...string) (all []netip.Prefix) {
		for _, p := range list {
			all = append(all, netip.MustParsePrefix(p))
		}
		return all
	}
	near := End{Namespace: spaces[0], Name: "eth0", Addresses: prefixes("192.0.2.2/24", "2001:db8::2/64")}
	from := End{Namespace: spaces[1], Name: "inside", Addresses: prefixes("192.0.2.1/24", "2001:db8::1/64")}
	must(t, Connect(near, from))
	must(t, Connect(End{Namespace: spaces[1], Name: "core"}, End{Namespace: spaces[2], Name: "inside"}))
	before, err := spaces[0].Netlink().LinkByName("eth0")
	must(t, err)

	near.Addresses = prefixes("198.51.100.2/24", "2001:db8:1::2/64")
	must(t, Replug(near, from,
		End{Namespace: spaces[2], Name: "core", Addresses: prefixes("198.51.100.1/24", "2001:db8:1::1/64")}))
	after, err := spaces[0].Netlink().LinkByName("eth0")
	must(t, err)
	if after.Attrs().Index != before.Attrs().Index {
		t.Errorf("index %d, was %d", after.Attrs().Index, before.Attrs().Index)
	}
	addresses, err := spaces[0].Netlink().AddrList(after, netlink.FAMILY_ALL)
	must(t, err)
	for _, a := range addresses {
		if got, _ := netip.AddrFromSlice(a.IP); !got.IsLinkLocalUnicast() && got.String() != "198.51.100.2" &&
			got.String() != "2001:db8:1::2" {
			t.Errorf("it has %v still", a)
		}
	}
	for _, to := range []string{"198.51.100.1", "2001:db8:1::1"} {
		result, err := Ping{Namespace: spaces[0], Destination: netip.MustParseAddr(to), Count: 1,
			Timeout: 2 * time.Second}.Run(context.Background())
		if err != nil || result.Received != 1 {
			t.Errorf("%s: %+v, %v", to, result, err)
		}
	}
	if _, err := spaces[1].Netlink().LinkByName("inside"); err == nil {
		t.Error("the far end is where it was")
	}
	if err := Replug(near, from, from); err == nil {
		t.Error("the far end was moved from where it is no more")
	}
}
