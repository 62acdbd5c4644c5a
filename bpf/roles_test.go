// SPDX-License-Identifier: Apache-2.0

// Ports of own RLOCs, and roles beside ITR and ETR, packet by packet at both hooks.

package bpf_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
)

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

// relayed is a packet that an RTR gets by the pair's outer family, and what leaves it by another.
type relayed struct {
	pair
	onward func(site int) netip.Addr
}

func relays() (all []relayed) {
	for _, p := range pairs {
		all = append(all, relayed{p, rloc4}, relayed{p, rloc6})
	}
	return all
}

func (r relayed) String() string {
	return fmt.Sprintf("%s, onward by IPv%d", r.name, familyOf(r.onward(0)))
}

// relaying makes the router an RTR for site B's EIDs in Instance-ID 7.
func (b *bench) relaying(r relayed) {
	b.leafs = map[rootKey][]leaf{}
	b.policy("LISP_LIST_RTR", 7, "10.2.0.0/24", "2001:db8:2::/64")
	b.settings(fields{"list_generation": goldenGeneration})
	set := b.locatorSet(fields{}, r.onward(1).String(), r.onward(0).String())
	b.mapCacheTo(7, "10.2.0.0/24", set)
	b.mapCacheTo(7, "2001:db8:2::/64", set)
}

// TestRelay has packets from one host's xTR to another's, both of which are elsewhere.
func TestRelay(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, r := range relays() {
		t.Run(r.String(), func(t *testing.T) {
			b.relaying(r)
			inner := ip{from: r.inner(2, 10), to: r.inner(1, 10), tos: 0x29, ttl: 70, port: 9, checksum: true, payload: []byte("to B")}.serialize()
			in := lispPacket(r.outer, 0xB9, 64, [8]byte{0x88, 1, 2, 3, 0, 0, 7, 0}, inner)
			frame := append(ethernet(b.core.Attrs().HardwareAddr, peerMAC, in), "padding"...)
			// as it is after both markings were merged: the smaller TTL, of which encapsulated takes a hop
			merged := ip{from: r.inner(2, 10), to: r.inner(1, 10), tos: 0xB9, ttl: 64, port: 9, checksum: true, payload: []byte("to B")}.serialize()
			for _, hook := range []string{"tc", "XDP"} {
				b.emptyCaches()
				for _, way := range []string{"all stages", "the flow cache"} {
					before, hits := b.counter("LISP_COUNTER_RELAYED_IPV4")+b.counter("LISP_COUNTER_RELAYED_IPV6"), b.flowHits(t)
					var got []byte
					var answer, want uint32 = 0, actRedirect
					if hook == "tc" {
						answer, got = b.toCore(t, frame)
					} else {
						want = xdpRedirect
						answer, got = b.frameXDP(t, b.core, frame)
					}
					if answer != want {
						t.Fatalf("%s, %s: answer %d; %s", hook, way, int32(answer), b.allDrops())
					}
					if want := b.encapsulated(t, pair{outer: r.onward}, 7, merged, got); !bytes.Equal(got, want) {
						t.Errorf("%s, %s: got\n%x\nwant\n%x", hook, way, got, want)
					}
					if hit := b.flowHits(t) > hits; hit != (way == "the flow cache") {
						t.Errorf("%s, %s: by the flow cache: %t", hook, way, hit)
					}
					if n := b.counter("LISP_COUNTER_RELAYED_IPV4") + b.counter("LISP_COUNTER_RELAYED_IPV6"); n != before+1 {
						t.Errorf("%s, %s: %d packets counted", hook, way, n-before)
					}
					b.markFlows(nil)
				}
			}
		})
	}
}
