// SPDX-License-Identifier: Apache-2.0

// Decisions that the programs of both hooks keep: that they are reused, until when, and for which packets. That their packets are
// right is what the golden packets show, each of which goes twice (golden_test.go).

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"iter"
	"net"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"loci/forward"
)

// keptMAC stands in kept decisions for the neighbour's address, so that it shows whether they are reused.
var keptMAC = []byte{2, 0, 0, 0, 0, 0x99}

// markDecisions writes keptMAC and these members into all decisions, lets them live for ever, and returns how many there are.
func (b *bench) markDecisions(t *testing.T, members fields) (marked int) {
	t.Helper()
	for _, d := range b.keptDecisions(t) {
		if way := uint32(d[wayAt]); way == b.constant("LISP_WAY_ENCAPSULATED") || way == b.constant("LISP_WAY_DECAPSULATED") {
			marked++ // not what many share
		}
		front := len(d) - int(frontOctets)
		copy(d[front:], keptMAC)
		binary.NativeEndian.PutUint64(d[expiresAt:], 1<<62) // however slow this machine is
		for name, value := range members {
			b.setMember("lisp_decision", name, d, value.(uint32))
		}
	}
	return marked
}

// keptDecisions yields each place where something is kept, by its index, in the memory of the map: to read the places one by one
// takes the better part of a second.
func (b *bench) keptDecisions(t *testing.T) iter.Seq2[int, []byte] {
	t.Helper()
	m := b.coll.Maps["decisions"]
	each := int(m.ValueSize())
	if b.decisions == nil {
		memory, err := unix.Mmap(m.FD(), 0, int(m.MaxEntries())*each, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		must(t, err)
		b.decisions = memory
		b.t.Cleanup(func() { must(b.t, unix.Munmap(memory)) })
	}
	return func(yield func(int, []byte) bool) {
		for index, start := 0, 0; start < len(b.decisions); index, start = index+1, start+each {
			if d := b.decisions[start:][:each:each]; d[wayAt] != 0 && !yield(index, d) {
				return
			}
		}
	}
}

const (
	frontOctets = 72 // LISP_FRONT_OCTETS
	wayAt       = 46 // in struct lisp_decision
	expiresAt   = 56 // as well
)

// hooks names the hooks that keep decisions.
var hooks = []string{"XDP", "tc"}

// leaveSite passes a frame from the site to the programs of a hook; `sent` says that it left towards the core.
func (b *bench) leaveSite(t *testing.T, hook string, frame []byte) (sent bool, got []byte) {
	t.Helper()
	if hook == "XDP" {
		verdict, got := b.frameXDP(t, b.site, frame)
		return verdict == xdpRedirect, got
	}
	answer, got := b.toSite(t, frame)
	return answer == actRedirect && len(got) != len(frame), got // what waits is as long as it was
}

// eachHook runs a test for each of them.
func eachHook(t *testing.T, name string, f func(t *testing.T, hook string)) {
	for _, hook := range hooks {
		t.Run(name+"/"+hook, func(t *testing.T) { f(t, hook) })
	}
}

func TestDecisionsAreReused(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, hook := range hooks {
		t.Run(hook, func(t *testing.T) { b.decisionsAreReused(t, hook) })
	}
}

func (b *bench) decisionsAreReused(t *testing.T, hook string) {
	b.mapCacheIn(0, pairs[0])
	p := pairs[0]
	packet := func(change func(*ip)) []byte {
		described := ip{from: p.inner(0, 10), to: p.inner(1, 10), ttl: 64, port: 9, checksum: true, payload: []byte("to B, which is far")}
		if change != nil {
			change(&described)
		}
		return ethernet(b.site.Attrs().HardwareAddr, hostMAC, described.serialize())
	}
	raise := func(offset int) {
		m := b.coll.Maps["generations"]
		var value []byte
		must(t, m.Lookup(uint32(0), &value))
		for ; offset < len(value); offset += 4 {
			binary.NativeEndian.PutUint32(value[offset:], binary.NativeEndian.Uint32(value[offset:])+1)
		}
		must(t, m.Update(uint32(0), value, ebpf.UpdateExist))
	}
	for name, c := range map[string]struct {
		change  func(*ip)
		members fields // of the kept decision
		between func()
		to      net.HardwareAddr // of the second frame; nil: the interface's own
		reused  bool
		passes  bool // the second frame
	}{
		"the same again":         {reused: true},
		"another TTL":            {change: func(p *ip) { p.ttl = 9 }, reused: true},
		"longer":                 {change: func(p *ip) { p.payload = make([]byte, 1000) }, reused: true},
		"too long":               {change: func(p *ip) { p.payload = make([]byte, 1000) }, members: fields{"longest": uint32(999)}},
		"another port":           {change: func(p *ip) { p.port = 10 }, reused: true},
		"another TOS":            {change: func(p *ip) { p.tos = 1 }},
		"another source":         {change: func(p *ip) { p.from = siteAddress4(0, 11) }},
		"another destination":    {change: func(p *ip) { p.to = siteAddress4(1, 11) }},
		"the time is over":       {members: fields{"expires_ns": uint32(1)}},
		"another epoch":          {members: fields{"epoch": uint32(0)}},
		"a destination's change": {between: func() { raise(8) }},
		"to another host":        {to: net.HardwareAddr{2, 0, 0, 0, 0, 0x98}, passes: true},
		"to everybody":           {to: net.HardwareAddr{255, 255, 255, 255, 255, 255}, passes: true},
	} {
		t.Run(name, func(t *testing.T) {
			b.forgetDecisions()
			b.leaveSite(t, hook, packet(nil))
			if b.markDecisions(t, c.members) == 0 {
				t.Fatal("nothing is kept")
			}
			if c.between != nil {
				c.between()
			}
			second := packet(c.change)
			copy(second, c.to)
			sent, got := b.leaveSite(t, hook, second)
			if sent == c.passes || bytes.Equal(got[:6], keptMAC) != c.reused {
				t.Errorf("sent: %t, to %x, want reused: %t, passes: %t", sent, got[:6], c.reused, c.passes)
			}
		})
	}
}

// TestNobodyDecidesAnew takes the programs behind the first one away: what is kept goes on, all else passes to tc.
func TestNobodyDecidesAnew(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	b.mapCacheIn(0, pairs[0])
	described := ip{from: pairs[0].inner(0, 10), to: pairs[0].inner(1, 10), ttl: 64, port: 9, checksum: true, payload: []byte("to B, which is far")}
	packet := ethernet(b.site.Attrs().HardwareAddr, hostMAC, described.serialize())
	if verdict, _ := b.frameXDP(t, b.site, packet); verdict != xdpRedirect {
		t.Fatalf("verdict %d with all programs", verdict)
	}
	b.program("lisp_xdp")
	must(t, b.coll.Maps["xdp_programs"].Delete(uint32(0)))
	must(t, b.coll.Maps["xdp_programs"].Delete(uint32(1)))
	b.markDecisions(t, nil)
	if verdict, got := b.frameXDP(t, b.site, packet); verdict != xdpRedirect || !bytes.Equal(got[:6], keptMAC) {
		t.Errorf("verdict %d, to %x for what is kept", verdict, got[:6])
	}
	b.forgetDecisions()
	if verdict, got := b.frameXDP(t, b.site, packet); verdict != xdpPass || !bytes.Equal(got, packet) {
		t.Errorf("verdict %d, frame %x: want it to pass as it came", verdict, got)
	}
}

// TestDecisionsOfFlows sends flows between two addresses by what was decided about others of them: each has its own source port and
// flow label, and goes to the locator of its own bucket.
func TestDecisionsOfFlows(t *testing.T) {
	const flows = 64
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		set := b.mapTwice(p)
		for name, c := range map[string]struct {
			buckets func(bucket int) byte
			flags   string
			most    int // decisions that are kept
		}{
			"one locator":                  {func(int) byte { return 0 }, "", 1},
			"two locators":                 {func(bucket int) byte { return byte(bucket & 1) }, "", 1 + flows},
			"one flow in 128 elsewhere":    {func(bucket int) byte { return map[bool]byte{true: 1}[bucket == 7] }, "", 1 + flows},
			"one locator, routes by flow":  {func(int) byte { return 0 }, "LISP_SETTING_ROUTES_BY_FLOW", 1 + flows},
			"two locators, routes by flow": {func(bucket int) byte { return byte(bucket >> 6) }, "LISP_SETTING_ROUTES_BY_FLOW", 1 + flows},
		} {
			eachHook(t, p.name+"/"+name, func(t *testing.T, hook string) {
				b.settings(fields{"flags": map[bool]uint32{true: b.constant("LISP_SETTING_ROUTES_BY_FLOW")}[c.flags != ""]})
				set(c.buckets)
				b.removeDecisions(t)
				packets := make([][]byte, flows)
				for i := range packets {
					packets[i] = ip{from: p.inner(0, 10), to: p.inner(1, 10), tos: 0xB9, ttl: 64, port: uint16(i), checksum: true,
						payload: []byte("to B, which is far")}.serialize()
				}
				for i, packet := range packets {
					b.expectFlow(t, hook, p, packet, c.buckets, i > 0 && c.most == 1)
					if i == 0 {
						b.markDecisions(t, nil)
						b.expectFlow(t, hook, p, packet, c.buckets, true)
					}
				}
				if kept := b.markDecisions(t, nil); kept == 0 || kept > c.most || (c.most > 1 && kept < flows/2) {
					t.Errorf("%d decisions are kept", kept)
				}
			})
		}
	}
}

// mapTwice maps site B to two locators, which differ by their ports, and returns what sets the buckets.
func (b *bench) mapTwice(p pair) func(buckets func(bucket int) byte) {
	b.leafs = map[rootKey][]leaf{}
	for _, own := range []string{"10.1.0.0/24", "2001:db8:1::/64"} {
		b.database(0, own)
	}
	b.mapCacheIn(0, p)
	set, first := b.sets-1, b.locators-1
	b.addLocator(fields{
		"rloc": address16(p.outer(1)), "source": address16(p.outer(0)), "family": familyOf(p.outer(1)),
		"port": binary.NativeEndian.Uint16([]byte{4342 >> 8, 4342 & 0xFF}),
	})
	return func(buckets func(bucket int) byte) {
		vector := make([]byte, forward.BucketCount)
		for i := range vector {
			vector[i] = buckets(i)
		}
		b.update("locator_sets", set, b.encode("lisp_locator_set", fields{"count": 2, "first": first, "buckets": vector}))
	}
}

// expectFlow wants a packet to go by the locator of its flow; reused says that a decision was there before.
func (b *bench) expectFlow(t *testing.T, hook string, p pair, packet []byte, buckets func(bucket int) byte, reused bool) {
	t.Helper()
	header, err := forward.ParseHeader(packet)
	must(t, err)
	sent, got := b.leaveSite(t, hook, ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet))
	if !sent {
		t.Fatalf("not sent; %s", b.allDrops())
	}
	if reused && !bytes.Equal(got[:6], keptMAC) {
		t.Error("decided anew")
	}
	want := b.encapsulated(t, p, 0, packet, got)
	udp := 14 + map[bool]int{true: 20, false: 40}[p.outer(0).Is4()]
	want[udp+3] += buckets(forward.BucketOf(forward.FlowHash(&header)))
	want[udp+8] &^= 0x08 // no Instance-ID
	if !bytes.Equal(got[6:], want[6:]) {
		t.Errorf("got\n%x\nwant\n%x", got, want)
	}
}

// removeDecisions empties the map.
func (b *bench) removeDecisions(t *testing.T) {
	t.Helper()
	for _, d := range b.keptDecisions(t) {
		clear(d)
	}
}

// TestTunnelsBesideDecisions has packets of tunnels between two addresses about which a decision is kept: their inner checksum may
// be unfinished, so that they are tc's, as those of no decision are.
func TestTunnelsBesideDecisions(t *testing.T) {
	const toTC = 2 // XDP_PASS
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		b.oneMapping(p)
		for port, want := range map[uint16]uint32{9: xdpRedirect, 4789: toTC, 8472: toTC, 6081: toTC, 4341: toTC} {
			b.removeDecisions(t)
			for _, to := range []uint16{9, port} {
				packet := ip{from: p.inner(0, 10), to: p.inner(1, 10), ttl: 64, port: to, checksum: true, payload: []byte("to B, which is far")}
				verdict, _ := b.frameXDP(t, b.site, ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet.serialize()))
				if to == 9 && b.markDecisions(t, nil) == 0 {
					t.Fatal("nothing is kept")
				}
				if to == port && verdict != want {
					t.Errorf("%s, UDP port %d: verdict %d, want %d", p.name, port, verdict, want)
				}
			}
		}
	}
}

// TestWhatIsNotKept lists packets about which nothing is kept.
func TestWhatIsNotKept(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	b.mapCacheIn(0, pairs[0])
	plain := pairs[0].toRemote(0, 64)
	changed := func(change func(p []byte)) []byte {
		p := append(slices.Clone(plain), make([]byte, 20)...)
		binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
		change(p)
		return p
	}
	for name, packet := range map[string][]byte{
		"fragment": changed(func(p []byte) { p[6] = 0x20 }),
		"options":  changed(func(p []byte) { p[0] = 0x46 }),
		"ICMP":     changed(func(p []byte) { p[9] = 1 }),
	} {
		eachHook(t, name, func(t *testing.T, hook string) {
			b.forgetDecisions()
			b.removeDecisions(t)
			if sent, _ := b.leaveSite(t, hook, ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet)); !sent {
				t.Errorf("not sent; %s", b.allDrops())
			}
			if n := b.markDecisions(t, nil); n != 0 {
				t.Errorf("%d decisions kept", n)
			}
		})
	}
}
