// SPDX-License-Identifier: Apache-2.0

// What packets of XDP between many pairs of addresses share: which packets go by it, and until when. That these are right
// is what the golden packets show as well, each of which goes this way once (golden_test.go).

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

// leaveAlone takes the programs away that decide anew: what is not shared passes.
func (b *bench) leaveAlone(t *testing.T) {
	t.Helper()
	for place := range uint32(2) {
		must(t, b.coll.Maps["xdp_programs"].Delete(place))
	}
}

func (b *bench) decideAnew(t *testing.T) {
	t.Helper()
	for place, program := range []string{"lisp_xdp_core", "lisp_xdp_site"} {
		must(t, b.coll.Maps["xdp_programs"].Put(uint32(place), b.coll.Programs[program]))
	}
}

func TestScatteredFromSite(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		b.leafs = map[rootKey][]leaf{}
		for _, own := range []string{"10.1.0.0/24", "2001:db8:1::/64"} {
			b.database(0, own)
		}
		b.mapCacheIn(0, p)
		plain := ip{from: p.inner(0, 10), to: p.inner(1, 10), tos: 0xB9, ttl: 64, port: 9, checksum: true, payload: []byte("to B, which is far")}
		for name, c := range map[string]struct {
			change  func(*ip)
			members fields // of what is kept
			goes    bool
		}{
			"another destination": {change: func(d *ip) { d.to = p.inner(1, 11) }, goes: true},
			"another port":        {change: func(d *ip) { d.to, d.port = p.inner(1, 12), 10 }, goes: true},
			"another TTL":         {change: func(d *ip) { d.ttl = 9 }, goes: true},
			"longer":              {change: func(d *ip) { d.payload = make([]byte, 1000) }, goes: true},
			"too long":            {change: func(d *ip) { d.payload = make([]byte, 1000) }, members: fields{"longest": uint32(999)}},
			"of a tunnel":         {change: func(d *ip) { d.port = 4789 }},
			"another TOS":         {change: func(d *ip) { d.tos = 1 }},
			"another source":      {change: func(d *ip) { d.from = p.inner(0, 11) }},
			"within the site":     {change: func(d *ip) { d.to = p.inner(0, 11) }},
			"to nobody":           {change: func(d *ip) { d.to = p.inner(2, 11) }},
			"TTL at its end":      {change: func(d *ip) { d.ttl = 1 }},
			"the time is over":    {members: fields{"expires_ns": uint32(1)}},
			"another epoch":       {members: fields{"epoch": uint32(0)}},
			"another front":       {members: fields{"generation": uint32(0)}},
		} {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				b.forgetDecisions()
				b.decideAnew(t)
				if verdict, _ := b.frameXDP(t, b.site, ethernet(b.site.Attrs().HardwareAddr, hostMAC, plain.serialize())); verdict != xdpRedirect {
					t.Fatalf("verdict %d", verdict)
				}
				b.markDecisions(t, c.members)
				b.leaveAlone(t)
				described := plain
				if c.change != nil {
					c.change(&described)
				}
				packet := described.serialize()
				frame := ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet)
				verdict, got := b.frameBy(t, "lisp_xdp_scattered", b.site, frame)
				if !c.goes {
					if verdict != xdpPass || !bytes.Equal(got, frame) {
						t.Errorf("verdict %d, frame %x: want it to pass as it came", verdict, got)
					}
					return
				}
				if verdict != xdpRedirect || !bytes.Equal(got[:6], keptMAC) {
					t.Fatalf("verdict %d, to %x", verdict, got[:6])
				}
				want := b.encapsulated(t, p, 0, packet, got)
				outer := want[14:]
				if outer[0]>>4 == 4 { // its TTL is that of the packet
					outer[8], outer[10], outer[11] = described.ttl-1, got[24], got[25]
					outer[20+8] &^= 0x08 // no Instance-ID
				} else {
					outer[7] = described.ttl - 1
					outer[40+8] &^= 0x08
				}
				if !bytes.Equal(got[6:], want[6:]) {
					t.Errorf("got\n%x\nwant\n%x", got, want)
				}
			})
		}
	}
}

func TestScatteredFromCore(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		b.leafs = map[rootKey][]leaf{}
		flags := b.constant("LISP_MAPPING_VALID") | b.constant("LISP_MAPPING_DATABASE") | b.constant("LISP_MAPPING_ONE_WAY")
		for _, own := range []string{"10.1.0.0/24", "2001:db8:1::/64"} {
			b.add("LISP_ROOT_DATABASE", 0, own, fields{"flags": flags, "locator_set": uint32(0xFFFFFFFF)})
		}
		b.mapCacheIn(0, p)
		inner := ip{from: p.inner(1, 10), to: p.inner(0, 10), tos: 0xB9, ttl: 64, port: 9, checksum: true, payload: []byte("to A, which is here")}
		header := [8]byte{0x80, 1, 2, 3}
		frame := func(d ip, header [8]byte) []byte {
			return ethernet(b.core.Attrs().HardwareAddr, peerMAC, lispPacket(p.outer, 0xB9, 60, header, d.serialize()))
		}
		watch := func(until uint64) {
			m := b.coll.Maps["generations"]
			var value []byte
			must(t, m.Lookup(uint32(0), &value))
			binary.NativeEndian.PutUint64(value[8:], until)
			must(t, m.Update(uint32(0), value, ebpf.UpdateExist))
		}
		for name, c := range map[string]struct {
			change  func(*ip)
			header  [8]byte
			members fields
			until   uint64 // the routes are watched
			goes    bool
		}{
			"another destination": {change: func(d *ip) { d.to = p.inner(0, 77) }, until: 1 << 62, goes: true},
			"another source":      {change: func(d *ip) { d.from = p.inner(1, 77) }, until: 1 << 62, goes: true},
			"nobody watches":      {change: func(d *ip) { d.to = p.inner(0, 77) }, until: 1},
			"not of ours":         {change: func(d *ip) { d.to = p.inner(2, 10) }, until: 1 << 62},
			"another Instance-ID": {header: [8]byte{0x88, 1, 2, 3, 0, 0, 5}, until: 1 << 62},
			"a version":           {header: [8]byte{0x10, 1, 2, 3}, until: 1 << 62},
			"another ECN":         {change: func(d *ip) { d.tos = 0xB8 }, until: 1 << 62},
			"another epoch":       {members: fields{"epoch": uint32(0)}, until: 1 << 62},
		} {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				b.forgetDecisions()
				b.decideAnew(t)
				watch(1 << 62)
				if verdict, _ := b.frameXDP(t, b.core, frame(inner, header)); verdict != xdpRedirect {
					t.Fatalf("verdict %d; %s", verdict, b.allDrops())
				}
				b.markDecisions(t, c.members)
				b.leaveAlone(t)
				watch(c.until)
				described, with := inner, c.header
				if c.change != nil {
					c.change(&described)
				}
				if with == ([8]byte{}) {
					with = header
				}
				came := frame(described, with)
				verdict, got := b.frameBy(t, "lisp_xdp_scattered", b.core, came)
				if !c.goes {
					if verdict != xdpPass || !bytes.Equal(got, came) {
						t.Errorf("verdict %d, frame %x: want it to pass as it came", verdict, got)
					}
					return
				}
				described.ttl = 59
				want := ethernet(keptMAC, b.site.Attrs().HardwareAddr, described.serialize())
				if verdict != xdpRedirect || !bytes.Equal(got, want) {
					t.Errorf("verdict %d, got\n%x\nwant\n%x", verdict, got, want)
				}
			})
		}
	}
}

// TestScatteredNoLonger has packets of one pair of addresses at a processor that takes them for scattered, and about which nothing is shared:
// that they are decided about anew because of that does not make strangers of them.
func TestScatteredNoLonger(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	p := pairs[0]
	for _, own := range []string{"10.1.0.0/24", "2001:db8:1::/64"} { // of more ways than one
		b.database(0, own)
	}
	b.mapCacheIn(0, p)
	inner := ip{from: p.inner(1, 10), to: p.inner(0, 10), ttl: 64, port: 9, checksum: true, payload: []byte("to A, which is here")}
	frame := ethernet(b.core.Attrs().HardwareAddr, peerMAC, lispPacket(p.outer, 0, 60, [8]byte{0x80, 1, 2, 3}, inner.serialize()))
	clocks := b.coll.Maps["clocks"]
	scattered := func() uint32 {
		var each [][]byte
		must(t, clocks.Lookup(uint32(0), &each))
		return binary.NativeEndian.Uint32(each[0][scatteredAt:])
	}
	var each [][]byte
	must(t, clocks.Lookup(uint32(0), &each))
	for _, value := range each {
		binary.NativeEndian.PutUint32(value[scatteredAt:], 8)
	}
	must(t, clocks.Put(uint32(0), each))
	options := xdpOptions(b.core, frame)
	options.DataOut = nil
	for deadline := time.Now().Add(30 * time.Second); scattered() >= 2; {
		must(t, b.ns.Do(func() error {
			return onProcessor(0, func() error { return b.runTimes(100, "lisp_xdp", options) })
		}))
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s packets of one pair of addresses are still taken for scattered; %s", b.allDrops())
		}
	}
}

const scatteredAt = 44 // in struct lisp_clock
