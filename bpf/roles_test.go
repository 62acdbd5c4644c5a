// SPDX-License-Identifier: Apache-2.0

// Routers that are an ITR alone, or an ETR alone: what needs the other role passes untouched, at both hooks.

package bpf_test

import (
	"bytes"
	"testing"
)

func TestRoles(t *testing.T) {
	p := pairs[0]
	for _, role := range []string{"LISP_ROLE_ITR", "LISP_ROLE_ETR"} {
		b := newBenchOf(t, loadPlaneOf(t, kernelHasDecapFlags(t), role))
		b.takeFrames(t)
		b.oneMapping(p)
		out := ethernet(b.site.Attrs().HardwareAddr, hostMAC, p.toRemote(0, 64))
		in := ethernet(b.core.Attrs().HardwareAddr, peerMAC, lispPacket(p.outer, 0, 64, [8]byte{0x80, 1, 2, 3}, p.toLocal(0, 64)))
		for range 2 { // the second time a cache could know it
			toSite, _ := b.toSite(t, out)
			toCore, _ := b.toCore(t, in)
			itr, etr := toSite == actRedirect, toCore == actRedirect
			if itr != (role == "LISP_ROLE_ITR") || etr != (role == "LISP_ROLE_ETR") {
				t.Errorf("%s at tc: answer %d to a packet from the site, %d to one from the core; %s", role, int32(toSite), int32(toCore), b.allDrops())
			}
			fromSite, _ := b.frameXDP(t, b.site, out)
			fromCore, _ := b.frameXDP(t, b.core, in)
			itr, etr = fromSite == xdpRedirect, fromCore == xdpRedirect
			if itr != (role == "LISP_ROLE_ITR") || etr != (role == "LISP_ROLE_ETR") {
				t.Errorf("%s at XDP: verdict %d for a packet from the site, %d for one from the core; %s", role, fromSite, fromCore, b.allDrops())
			}
		}
		answer, got := b.run(t, "core_egress", b.core, false, out)
		if passes := answer == actUnspec && bytes.Equal(got, out); passes != (role == "LISP_ROLE_ETR") {
			t.Errorf("%s: answer %d to a packet of this host; %s", role, int32(answer), b.allDrops())
		}
	}
}

// TestOwnPorts has packets to ports of own RLOCs beside that of LISP.
func TestOwnPorts(t *testing.T) {
	const other = 4345
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		b.oneMapping(p)
		b.localRLOC(p.outer(0), other)
		inner := p.toLocal(0, 64)
		for port, wanted := range map[uint16]bool{4341: true, other: true, other + 1: false, 0: false} {
			packet := ip{from: p.outer(1), to: p.outer(0), ttl: 64, port: port, payload: append([]byte{0x80, 1, 2, 3, 0, 0, 0, 0}, inner...)}.serialize()
			frame := ethernet(b.core.Attrs().HardwareAddr, peerMAC, packet)
			for flags, takes := range map[uint32]bool{0: port == 4341, b.constant("LISP_SETTING_OTHER_PORTS"): wanted} {
				b.settings(fields{"flags": flags})
				if answer, _ := b.toCore(t, frame); (answer == actRedirect) != takes {
					t.Errorf("%s, port %d, flags %#x: answer %d, want it taken: %t", p.name, port, flags, int32(answer), takes)
				}
				if verdict, _ := b.frameXDP(t, b.core, frame); (verdict == xdpRedirect) != takes {
					t.Errorf("%s, port %d, flags %#x: verdict %d, want it taken: %t", p.name, port, flags, verdict, takes)
				}
			}
		}
	}
}
