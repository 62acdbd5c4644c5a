// SPDX-License-Identifier: Apache-2.0

package testnet

import (
	"net"
	"net/netip"
	"testing"
	"time"
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
