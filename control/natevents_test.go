// SPDX-License-Identifier: Apache-2.0

package control

// The steps of NAT traversal as events.

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
)

var natKinds = []NoticeKind{
	NoticeInfoRequestSent, NoticeInfoRequestUnanswered, NoticeInfoReplyReceived, NoticeInfoReplySent, NoticeNATFound,
	NoticeNATGone, NoticeRTRChosen, NoticeRTRLeft, NoticeRTRConfirmed, NoticeRTRSilent, NoticeRTRAnswers,
	NoticeNATBindingLost, NoticeMapRegisterRelayed, NoticeNATBindingMade, NoticeNATBindingMoved, NoticeNATBindingRemoved,
	NoticeNATRLOCAdded, NoticeNATRLOCRemoved,
}

// natSteps are the events of NAT traversal since the last call, by kind alone, with the EID-Prefixes of bindings.
func (d *testNode) natSteps() string {
	var list []string
	for _, n := range d.notices {
		if !slices.Contains(natKinds, n.Kind) {
			continue
		}
		words := []string{string(n.Kind)}
		if strings.HasPrefix(string(n.Kind), "nat-binding-m") || n.Kind == NoticeNATBindingRemoved {
			words = append(words, n.Prefix.String())
		}
		if strings.HasPrefix(string(n.Kind), "nat-rloc-") {
			words = append(words, n.Prefix.String(), n.RLOC, "at", n.Remote.Addr().String())
		}
		if n.Reason != "" {
			words = append(words, n.Reason)
		}
		list = append(list, strings.Join(words, " "))
	}
	d.notices = nil
	return strings.Join(list, ", ")
}

func (d *testNode) wantSteps(when, want string) {
	d.net.t.Helper()
	if got := d.natSteps(); got != want {
		d.net.t.Errorf("%s, %s: %s\nwant %s", when, d.name, got, want)
	}
}

// natPair is a node behind a NAT, and its server.
func natPair(t *testing.T, change func(*NATTraversal)) (n *testNetwork, x, server *testNode, box *natBox) {
	t.Helper()
	n = newNetwork(t)
	server = n.add("server", natServerConfig(nil, "10.1.0.0/16"), natServer, natServer6)
	x = n.add("x", Config{}, "192.168.1.2")
	box = n.nat([]string{"198.51.100.1"}, x)
	c := natNode(1, natServer, "192.168.1.2", "10.1.0.0/16")
	change(c.ETR.NAT)
	x.configure(c)
	n.run(time.Second)
	return n, x, server, box
}

const (
	natBegin     = "info-request-sent, info-reply-received, nat-found, rtr-chosen, rtr-confirmed"
	natBeginThem = "info-reply-sent, map-register-relayed, nat-binding-made 10.1.0.0/16"
)

// TestStepsOfNATTraversal are events, at node and RTR: found, registered, moved, forgotten, withdrawn, and none while
// nothing changes.
func TestStepsOfNATTraversal(t *testing.T) {
	n, x, server, box := natPair(t, func(*NATTraversal) {})
	found := slices.IndexFunc(x.notices, func(n Notice) bool { return n.Kind == NoticeNATFound })
	if e := x.notices[found]; e.Remote.Addr() != addrPort(natServer).Addr() || e.RLOC != "192.168.1.2" || e.Detail != "seen as 198.51.100.1:40001" {
		t.Errorf("%+v", e)
	}
	x.wantSteps("at first", natBegin)
	server.wantSteps("at first", natBeginThem)
	n.run(148 * time.Second)
	x.wantSteps("while all is well", "")
	server.wantSteps("while all is well", "")

	box.flush()
	n.run(settings.DefaultKeepalive + time.Second)
	x.wantSteps("forgotten by the NAT", "nat-binding-lost, rtr-confirmed")
	moved := slices.IndexFunc(server.notices, func(n Notice) bool { return n.Kind == NoticeNATBindingMoved })
	if e := server.notices[moved]; e.Remote.Addr() != netip.MustParseAddr("198.51.100.1") || !strings.HasSuffix(e.Detail, "; was 198.51.100.1:40002") {
		t.Errorf("%+v", e)
	}
	server.wantSteps("forgotten by the NAT", "map-register-relayed, nat-binding-moved 10.1.0.0/16")

	other := server.config
	other.NATRelay = &NATRelay{MapServers: other.NATRelay.MapServers, EIDs: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}}
	server.configure(other)
	n.run(time.Second)
	server.wantSteps("configured otherwise", "nat-binding-removed 10.1.0.0/16 configured")
}

// TestNATThatGoesIsReported, and one that has another address.
func TestNATThatGoesIsReported(t *testing.T) {
	n, x, server, box := natPair(t, func(*NATTraversal) {})
	x.natSteps()
	box.public = []netip.Addr{netip.MustParseAddr("198.51.100.9")}
	box.flush()
	n.run(11 * time.Minute)
	if got := x.natSteps(); strings.Count(got, "nat-found") != 1 || strings.Contains(got, "nat-gone") {
		t.Errorf("another address: %s", got)
	}
	server.natSteps()
	x.behind, x.addrs = nil, []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	x.configure(natNode(1, natServer, "192.0.2.1", "10.1.0.0/16"))
	n.run(time.Second)
	if got := x.natSteps(); !strings.Contains(got, "nat-gone, rtr-left") {
		t.Errorf("without a NAT: %s", got)
	}
	n.run(5 * time.Minute)
	if got := server.natSteps(); !strings.Contains(got, "nat-binding-moved") || !strings.HasSuffix(got, "nat-binding-removed 10.1.0.0/16 expired") {
		t.Errorf("without a NAT: %s", got)
	}
}

// TestSilentRTRIsReported, and its return, with and without keepalives.
func TestSilentRTRIsReported(t *testing.T) {
	for _, keepalive := range []time.Duration{0, -1} {
		n, x, server, _ := natPair(t, func(c *NATTraversal) { c.Keepalive = keepalive })
		n.run(5 * time.Minute)
		if got := x.natSteps(); got != natBegin {
			t.Errorf("%s: %s", keepalive, got)
		}
		n.lose = func(_ *testNode, p SendPacket) bool { return p.Remote.Addr() == netip.MustParseAddr(natServer) }
		n.run(5 * time.Minute)
		if got := x.natSteps(); strings.Count(got, "rtr-silent") != 1 || strings.Contains(got, "rtr-answers") {
			t.Errorf("%s, silent: %s", keepalive, got)
		}
		server.natSteps()
		n.lose = nil
		n.run(time.Minute)
		if got := x.natSteps(); strings.Count(got, "rtr-answers") != 1 || strings.Contains(got, "rtr-silent") {
			t.Errorf("%s, back: %s", keepalive, got)
		}
		if got := server.natSteps(); !strings.Contains(got, "nat-binding-made 10.1.0.0/16") {
			t.Errorf("%s, back: %s", keepalive, got)
		}
	}
}

// TestUnansweredInfoRequestIsReported once, also where two protocols are spoken, and no NAT is. A Map-Server that
// acknowledges nothing is asked on.
func TestUnansweredInfoRequestIsReported(t *testing.T) {
	for _, protocol := range []NATProtocol{NATErmagan, NATAuto} {
		n := newNetwork(t)
		c := natNode(1, natServer, "192.0.2.1", "10.1.0.0/16")
		c.ETR.NAT.Protocol = protocol
		x := n.add("x", c, "192.0.2.1")
		n.run(5 * time.Minute)
		got := x.natSteps()
		before, after, _ := strings.Cut(got, "info-request-unanswered")
		if strings.Count(before, "info-request-sent") < 6 || strings.Count(after, "info-request-sent") < 10 || strings.Count(got, "unanswered") != 1 || strings.Contains(got, "nat") {
			t.Errorf("protocol %d, no answer: %s", protocol, got)
		}
		if protocol == NATErmagan && strings.Count(before, "info-request-sent") != 6 {
			t.Errorf("reported at another time: %s", got)
		}
	}
}

// TestRLOCsOfANodeAreReported: when the RTR forwards to another one of a node, and when one of them expires or is named
// no more.
func TestRLOCsOfANodeAreReported(t *testing.T) {
	n, x1, _, rtrs := severalRLOCs(t, map[string]string{"192.168.1.2": "198.51.100.11", "192.168.2.2": "198.51.100.12"},
		"192.168.1.2", "192.168.2.2")
	rtrs[0].wantSteps("at the start", "map-register-relayed, map-register-relayed, nat-binding-made 10.1.0.0/16, map-register-relayed, "+
		"nat-rloc-added 10.1.0.0/16 192.168.2.2 at 198.51.100.12")
	second := netip.MustParseAddr("192.168.2.2")
	n.lose = func(from *testNode, p SendPacket) bool { return from == x1 && p.Local.Addr() == second }
	n.run(10 * time.Minute)
	rtrs[0].wantSteps("silent", "nat-rloc-removed 10.1.0.0/16 192.168.2.2 at 198.51.100.12 expired")
	rtrs[0].wantCounter(counter.NATRLOCExpired, 1)
	n.lose = nil
	n.run(settings.DefaultKeepalive + 5*time.Second)
	rtrs[0].wantSteps("back", "map-register-relayed, nat-rloc-added 10.1.0.0/16 192.168.2.2 at 198.51.100.12")
	x1.configure(natNode(1, natServer, "192.168.2.2", "10.1.0.0/16"))
	n.run(time.Second)
	rtrs[0].wantSteps("left", "nat-rloc-removed 10.1.0.0/16 192.168.1.2 at 198.51.100.11 withdrawn")
	rtrs[0].wantCounter(counter.NATRLOCExpired, 2)
	rtrs[0].wantCounter(counter.NATBindingExpired, 0)
}
