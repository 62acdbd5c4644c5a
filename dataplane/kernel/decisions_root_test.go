// SPDX-License-Identifier: Apache-2.0

// Decisions that the XDP program keeps end with what they rest on: whatever an operation changes holds for the next packet, not
// when the decision is 50 ms old. The test needs root.

package kernel

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"loci/dataplane"
	"loci/internal/testnet"
	"loci/lisp"
)

const xdpRedirect = 4

// newXDPRouter is router A with its site at XDP and a core that takes frames; its neighbours never change.
func newXDPRouter(t *testing.T) (*network, *router) {
	t.Helper()
	n := newLinks(t)
	must(t, n.routers[1].ns.SetOffload("core0", testnet.GRO, true))
	r := n.open(t, 0, Options{})
	s := r.Settings()
	s.Interfaces[0].Hook = dataplane.HookXDP
	r.apply(t, dataplane.SetSettings{Settings: s})
	n.waitForFlag(t, 0, "core0", takesFrames)
	core, err := r.ns.Netlink().LinkByName("core0")
	must(t, err)
	for _, rloc := range []netip.Addr{rloc4(1), rloc4(2)} {
		must(t, r.ns.Netlink().NeighSet(&netlink.Neigh{
			LinkIndex: core.Attrs().Index, State: netlink.NUD_PERMANENT, IP: net.IP(rloc.AsSlice()), HardwareAddr: wireMAC,
		}))
	}
	return n, r
}

// decide runs the XDP program on a packet from the site; rloc is where it would go.
func (r *router) decide(t *testing.T, packet []byte) (verdict uint32, rloc netip.Addr) {
	t.Helper()
	site, err := r.ns.Netlink().LinkByName("site0")
	must(t, err)
	kind := map[byte]uint16{4: 0x0800, 6: 0x86DD}[packet[0]>>4]
	frame := append(append([]byte{}, site.Attrs().HardwareAddr...), wireMAC...)
	frame = append(binary.BigEndian.AppendUint16(frame, kind), packet...)
	context := binary.NativeEndian.AppendUint32(make([]byte, 4), uint32(len(frame))) // data_end
	context = append(context, make([]byte, 16)...)
	binary.NativeEndian.PutUint32(context[12:], uint32(site.Attrs().Index)) // ingress_ifindex
	options := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: append(context, 0, 0, 0, 0)[:24]}
	must(t, r.ns.Do(func() (err error) {
		verdict, err = r.hooks.program(lispxdpProgLispXdp).Run(options)
		return err
	}))
	if verdict == xdpRedirect {
		rloc, _ = netip.AddrFromSlice(options.DataOut[14+16:][:4])
	}
	return verdict, rloc
}

// expectDecision wants the same answer twice: the second one is the kept one.
func (r *router) expectDecision(t *testing.T, when string, packet []byte, rloc netip.Addr) {
	t.Helper()
	for _, which := range []string{"first", "second"} {
		if verdict, to := r.decide(t, packet); to != rloc {
			t.Errorf("%s, the %s packet: to %v (verdict %d), want %v", when, which, to, verdict, rloc)
		}
	}
}

func positive(prefix string, rlocs ...netip.Addr) dataplane.PutMapping {
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping:   lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Locators: locators(rlocs...), TTLMinutes: 10},
		CreatedAt: time.Now(), ExpiresAt: time.Now().Add(10 * time.Minute),
	}}
}

func TestDecisionsFollowTables(t *testing.T) {
	_, r := newXDPRouter(t)
	for _, c := range []struct{ pair, covering, prefix, own, around string }{
		{pairs[0].name, "0.0.0.0/0", "10.2.0.0/24", "10.2.0.10/32", "10.2.0.0/18"},
		{pairs[1].name, "::/0", "2001:db8:2::/64", "2001:db8:2::a/128", "2001:db8::/44"},
	} {
		p := pairs[0]
		if c.pair != p.name {
			p = pairs[1]
		}
		t.Run(c.pair, func(t *testing.T) {
			decisionsFollowTables(t, r, udpPacket(t, p, 0, 1, 64), c.covering, c.prefix, c.own, c.around)
		})
	}
}

func decisionsFollowTables(t *testing.T, r *router, packet []byte, covering, prefix, own, around string) {
	drop := func(prefix string) dataplane.PutMapping {
		m := positive(prefix)
		m.Entry.Mapping.Action, m.Entry.Mapping.Locators = lisp.ActionDrop, nil
		return m
	}
	gone := func(prefix string) dataplane.DeleteMapping {
		return dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix(prefix)}
	}
	state := func(s dataplane.LocatorState) dataplane.PutLocatorState {
		return dataplane.PutLocatorState{RLOC: lisp.RLOCFromAddr(rloc4(1)), State: s}
	}
	nowhere := netip.Addr{} // dropped, or left to tc
	r.apply(t, positive(prefix, rloc4(1)))
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if verdict, _ := r.decide(t, packet); verdict == xdpRedirect {
			break // no longer held
		}
		if time.Now().After(deadline) {
			t.Fatal("never sent")
		}
	}
	settings := r.Settings()
	other := settings.Clone()
	other.Interfaces[0].Forwarding = dataplane.ForwardingStack
	for _, step := range []struct {
		when   string
		change dataplane.Operation
		rloc   netip.Addr
	}{
		{"a mapping", drop(covering), rloc4(1)},
		{"its host's own", drop(own), nowhere},
		{"that is gone", gone(own), rloc4(1)},
		{"another locator", positive(prefix, rloc4(2)), rloc4(2)},
		{"the first one again", positive(prefix, rloc4(1)), rloc4(1)},
		{"which is down", state(dataplane.LocatorDown), nowhere},
		{"and up", state(dataplane.LocatorUp), rloc4(1)},
		{"by the stack", dataplane.SetSettings{Settings: other}, nowhere},
		{"fast again", dataplane.SetSettings{Settings: settings}, rloc4(1)},
		{"gone, a shorter one remains", gone(prefix), nowhere},
		{"one in between", drop(around), nowhere},
		{"the shorter one gone", gone(covering), nowhere},
		{"none is left", gone(around), nowhere},
	} {
		r.apply(t, step.change)
		r.expectDecision(t, step.when, packet, step.rloc)
	}
}

// TestGenerationsOfPrefixes says which decisions an edit ends.
func TestGenerationsOfPrefixes(t *testing.T) {
	for _, c := range []struct {
		prefix string
		kind   uint8
		ends   []string // destinations whose decisions end
		all    bool
	}{
		{"10.2.3.0/24", kindMapCache, []string{"10.2.3.0/32", "10.2.3.255/32"}, false},
		{"10.2.3.4/32", kindMapCache, []string{"10.2.3.4/32"}, false},
		{"10.2.0.0/16", kindMapCache, []string{"10.2.0.1/32", "10.2.77.1/32", "10.2.255.255/32"}, false},
		{"10.2.0.0/15", kindMapCache, nil, true},
		{"2001:db8:2::/48", kindMapCache, []string{"2001:db8:2::1/128", "2001:db8:2:ffff::/128"}, false},
		{"2001:db8:200::/40", kindMapCache, []string{"2001:db8:200::/128", "2001:db8:2ff::/128"}, false},
		{"2001:db8:200::/39", kindMapCache, nil, true},
		{"10.2.3.4/32", kindDatabase, nil, true},
	} {
		g := generations{new(lisptcLispGenerations)}
		key, err := keyOf(c.kind, lisp.MustParsePrefix(c.prefix))
		must(t, err)
		g.of(&key)
		if all := g.numbers.Epoch == 1; all != c.all {
			t.Errorf("%s: ends all: %t", c.prefix, all)
		}
		for _, text := range c.ends {
			one := generations{new(lisptcLispGenerations)}
			host, err := keyOf(kindMapCache, lisp.MustParsePrefix(text))
			must(t, err)
			one.of(&host)
			for place, n := range one.numbers.Destinations {
				if n > 0 && g.numbers.Destinations[place] == 0 {
					t.Errorf("%s does not end decisions about %s", c.prefix, text)
				}
			}
		}
	}
}
