// SPDX-License-Identifier: Apache-2.0

package main_test

// A packet whose TTL ends at a tunnel router is answered by that router (RFC 9300 s.5.3: the inner TTL counts hops of the
// core too), seen as traceroute sees it.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// icmpSocket is a host's socket for echo requests with a TTL.
type icmpSocket struct {
	*icmp.PacketConn
	protocol int
	echo     icmp.Type
}

func (n *lispNetwork) openICMP(role string, own netip.Addr) icmpSocket {
	n.t.Helper()
	s := icmpSocket{protocol: 1, echo: ipv4.ICMPTypeEcho}
	network := "ip4:icmp"
	if own.Is6() {
		s, network = icmpSocket{protocol: 58, echo: ipv6.ICMPTypeEchoRequest}, "ip6:ipv6-icmp"
	}
	n.must(n.at[role].Do(func() (err error) {
		s.PacketConn, err = icmp.ListenPacket(network, own.String())
		return err
	}))
	n.t.Cleanup(func() { s.Close() })
	return s
}

// ask sends an echo request and returns who answers it, and how; the zero address when no router does for a while.
func (s icmpSocket) ask(t *testing.T, to netip.Addr, ttl int) (from netip.Addr, kind icmp.Type) {
	t.Helper()
	var err error
	if s.protocol == 1 {
		err = s.IPv4PacketConn().SetTTL(ttl)
	} else {
		err = s.IPv6PacketConn().SetHopLimit(ttl)
	}
	message, err2 := (&icmp.Message{Type: s.echo, Body: &icmp.Echo{ID: 4341, Seq: ttl, Data: []byte("how far")}}).Marshal(nil)
	_, err3 := s.WriteTo(message, &net.IPAddr{IP: to.AsSlice()})
	if err := errors.Join(err, err2, err3, s.SetReadDeadline(time.Now().Add(200*time.Millisecond))); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1500)
	for {
		octets, peer, err := s.ReadFrom(answer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return netip.Addr{}, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := icmp.ParseMessage(s.protocol, answer[:octets])
		if err != nil {
			continue
		}
		switch m.Type {
		case ipv4.ICMPTypeTimeExceeded, ipv6.ICMPTypeTimeExceeded, ipv4.ICMPTypeEchoReply, ipv6.ICMPTypeEchoReply:
			from, _ = netip.AddrFromSlice(peer.(*net.IPAddr).IP)
			return from.Unmap(), m.Type
		}
	}
}

func TestTTLEndsAtTunnelRouters(t *testing.T) {
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	for _, c := range []struct {
		own, to         netip.Addr
		near, far       []string // addresses of the routers
		exceeded, reply icmp.Type
	}{
		{one.host4(), two.host4(), []string{"10.1.0.1"}, []string{"10.2.0.1", two.rloc4()}, ipv4.ICMPTypeTimeExceeded, ipv4.ICMPTypeEchoReply},
		{one.host6(), two.host6(), []string{"fd00:1::1"}, []string{"fd00:2::1", "2001:db8:2::2"}, ipv6.ICMPTypeTimeExceeded, ipv6.ICMPTypeEchoReply},
	} {
		n.awaitPing("host1", c.own, c.to)
		socket := n.openICMP("host1", c.own)
		// The second hop is the core's, which knows the tunnel router alone.
		for _, hop := range []struct {
			ttl  int
			from []string
			kind icmp.Type
		}{{1, c.near, c.exceeded}, {3, c.far, c.exceeded}, {4, []string{c.to.String()}, c.reply}} {
			var from netip.Addr
			var kind icmp.Type
			n.await(fmt.Sprintf("an answer to TTL %d towards %s", hop.ttl, c.to), func(context.Context) bool {
				from, kind = socket.ask(t, c.to, hop.ttl)
				return from.IsValid()
			})
			if kind != hop.kind || !slices.Contains(hop.from, from.String()) {
				t.Errorf("TTL %d towards %s: %v from %s, want %v from one of %v", hop.ttl, c.to, kind, from, hop.kind, hop.from)
			}
		}
	}
}
