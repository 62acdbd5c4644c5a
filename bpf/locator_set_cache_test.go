// SPDX-License-Identifier: Apache-2.0

// The path for packets that miss the flow cache, while most do, at both hooks: which packets take it, and until when. That these are
// right is what the golden packets show as well, each of which goes this way once (golden_test.go).

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
)

// removeStages takes the XDP programs away that have the stages: what no cache knows passes.
func (b *bench) removeStages(t *testing.T) {
	t.Helper()
	b.program("lisp_xdp")
	for place := range uint32(2) {
		must(t, b.coll.Maps["xdp_programs"].Delete(place))
	}
}

func (b *bench) restoreStages(t *testing.T) {
	t.Helper()
	for place, program := range []string{"lisp_xdp_core", "lisp_xdp_site"} {
		must(t, b.coll.Maps["xdp_programs"].Put(uint32(place), b.program(program)))
	}
}

// missMostly makes all processors believe that most packets miss the flow cache, or no longer.
func (p *plane) missMostly(missing bool) {
	p.t.Helper()
	var each [][]byte
	must(p.t, p.coll.Maps["clocks"].Lookup(uint32(0), &each))
	for _, value := range each {
		binary.NativeEndian.PutUint32(value[missingAt:], map[bool]uint32{true: 8}[missing])
		binary.NativeEndian.PutUint32(value[turnAt:], 15) // the next one is no sample
	}
	must(p.t, p.coll.Maps["clocks"].Put(uint32(0), each))
}

// goBySet passes a frame to the programs of a hook as one of those that miss the flow cache. It says whether it left without the
// stages, which would have kept an entry for its flow; if not, XDP has passed it as it came.
func (b *bench) goBySet(t *testing.T, hook string, at netlink.Link, frame []byte) (gone bool, got []byte) {
	t.Helper()
	for entry := range b.places("flows", flowWhatAt) {
		clear(entry)
	}
	if hook == "tc" {
		b.missMostly(true)
		program := map[netlink.Link]string{b.site: "site_ingress", b.core: "core_ingress"}[at]
		answer, got := b.run(t, program, at, true, frame)
		return answer == actRedirect && b.markFlows(nil) == 0 && bytes.Equal(got[:6], recordedMAC), got
	}
	b.removeStages(t)
	verdict, got := b.frameBy(t, "lisp_xdp_sets", at, frame)
	if verdict != xdpRedirect && (verdict != xdpPass || !bytes.Equal(got, frame)) {
		t.Errorf("verdict %d, frame %x: want it to pass as it came", verdict, got)
	}
	return verdict == xdpRedirect && bytes.Equal(got[:6], recordedMAC), got
}

// goByStages passes a frame to the programs of a hook, with the stages.
func (b *bench) goByStages(t *testing.T, hook string, at netlink.Link, frame []byte) {
	t.Helper()
	b.restoreStages(t)
	b.missMostly(false)
	if hook == "tc" {
		program := map[netlink.Link]string{b.site: "site_ingress", b.core: "core_ingress"}[at]
		if answer, _ := b.run(t, program, at, true, frame); answer != actRedirect {
			t.Fatalf("answer %d; %s", answer, b.allDrops())
		}
		return
	}
	if verdict, _ := b.frameXDP(t, at, frame); verdict != xdpRedirect {
		t.Fatalf("verdict %d; %s", verdict, b.allDrops())
	}
}

func TestLocatorSetCache(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		b.oneMapping(p)
		plain := ip{from: p.inner(0, 10), to: p.inner(1, 10), tos: 0xB9, ttl: 64, port: 9, checksum: true, payload: []byte("to B, which is far")}
		for name, c := range map[string]struct {
			change  func(*ip)
			members fields // of the action record
			goes    bool
			tcGoes  bool
			noEntry bool // the stages keep none either: tc cannot tell who sent it
		}{
			"another destination": {change: func(d *ip) { d.to = p.inner(1, 11) }, goes: true},
			"another port":        {change: func(d *ip) { d.to, d.port = p.inner(1, 12), 10 }, goes: true},
			"another TTL":         {change: func(d *ip) { d.ttl = 9 }, goes: true},
			"longer":              {change: func(d *ip) { d.payload = make([]byte, 1000) }, goes: true},
			"too long":            {change: func(d *ip) { d.payload = make([]byte, 1000) }, members: fields{"longest": uint32(999)}},
			"of a tunnel":         {change: func(d *ip) { d.to, d.port = p.inner(1, 13), 4789 }, tcGoes: true},
			"another TOS":         {change: func(d *ip) { d.tos = 1 }},
			"another source":      {change: func(d *ip) { d.from = p.inner(0, 11) }, goes: true},
			"not from an EID":     {change: func(d *ip) { d.from = p.inner(2, 11) }},
			"within the site":     {change: func(d *ip) { d.to = p.inner(0, 11) }},
			"to no EID":           {change: func(d *ip) { d.to = p.inner(2, 11) }},
			"TTL at its end":      {change: func(d *ip) { d.ttl = 1 }},
			"the time is over":    {members: fields{"expires_ns": uint32(1)}},
			"another epoch":       {members: fields{"epoch": uint32(0)}},
			"another set there":   {members: fields{"target": uint32(77)}},
			"no frames are taken": {members: fields{"flags": b.constant("LISP_ACTION_RESOLVED")}, tcGoes: true},
			"more to decide":      {members: fields{"flags": b.constant("LISP_ACTION_RESOLVED") | b.constant("LISP_ACTION_TAKES_FRAMES") | b.constant("LISP_ACTION_UNCACHED")}, noEntry: true},
		} {
			eachHook(t, p.name+"/"+name, func(t *testing.T, hook string) {
				b.emptyCaches()
				b.goByStages(t, hook, b.site, ethernet(b.site.Attrs().HardwareAddr, hostMAC, plain.serialize()))
				b.markRecords(c.members)
				described := plain
				if c.change != nil {
					c.change(&described)
				}
				packet := described.serialize()
				gone, got := b.goBySet(t, hook, b.site, ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet))
				if gone != (c.goes || (c.tcGoes || c.noEntry) && hook == "tc") {
					t.Errorf("gone by the record alone: %t; got %x", gone, got)
				}
				if !gone || c.noEntry {
					return
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

func TestEntryCache(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		b.leafs = map[rootKey][]leaf{}
		flags := b.constant("LISP_MAPPING_VALID") | b.constant("LISP_MAPPING_DATABASE") | b.constant("LISP_MAPPING_SINGLE_NEXT_HOP")
		for _, own := range []string{"10.1.0.0/24", "2001:db8:1::/64"} {
			b.add("LISP_ROOT_DATABASE", 0, own, fields{"flags": flags, "locator_set": uint32(0xFFFFFFFF)})
		}
		b.mapCacheIn(0, p)
		inner := ip{from: p.inner(1, 10), to: p.inner(0, 10), tos: 0xB9, ttl: 64, port: 9, checksum: true, payload: []byte("to A, which is here")}
		header := [8]byte{0x80, 1, 2, 3}
		frame := func(d ip, header [8]byte) []byte {
			return ethernet(b.core.Attrs().HardwareAddr, peerMAC, lispPacket(p.outer, 0xB9, 60, header, d.serialize()))
		}
		for name, c := range map[string]struct {
			change  func(*ip)
			header  [8]byte
			members fields
			until   uint64 // the routes are watched
			goes    bool
			noEntry bool // the stages keep none either: tc cannot tell who sent it
		}{
			"another destination": {change: func(d *ip) { d.to = p.inner(0, 77) }, until: 1 << 62, goes: true},
			"another source":      {change: func(d *ip) { d.from = p.inner(1, 77) }, until: 1 << 62, goes: true},
			"routes unwatched":    {change: func(d *ip) { d.to = p.inner(0, 77) }, until: 1},
			"not of ours":         {change: func(d *ip) { d.to = p.inner(2, 10) }, until: 1 << 62},
			"another Instance-ID": {header: [8]byte{0x88, 1, 2, 3, 0, 0, 5}, until: 1 << 62},
			"a version":           {header: [8]byte{0x10, 1, 2, 3}, until: 1 << 62},
			"another ECN":         {change: func(d *ip) { d.tos = 0xB8 }, until: 1 << 62, noEntry: true},
			"another epoch":       {members: fields{"epoch": uint32(0)}, until: 1 << 62},
		} {
			eachHook(t, p.name+"/"+name, func(t *testing.T, hook string) {
				b.emptyCaches()
				b.watchRoutes(t, 1<<62)
				b.goByStages(t, hook, b.core, frame(inner, header))
				b.markRecords(c.members)
				b.watchRoutes(t, c.until)
				described, with := inner, c.header
				if c.change != nil {
					c.change(&described)
				}
				if with == ([8]byte{}) {
					with = header
				}
				gone, got := b.goBySet(t, hook, b.core, frame(described, with))
				if gone != (c.goes || c.noEntry && hook == "tc") {
					t.Errorf("gone by the record alone: %t; got %x", gone, got)
				}
				if !gone || c.noEntry {
					return
				}
				described.ttl = 59
				want := ethernet(recordedMAC, b.site.Attrs().HardwareAddr, described.serialize())
				if !bytes.Equal(got, want) {
					t.Errorf("got\n%x\nwant\n%x", got, want)
				}
			})
		}
	}
}

// TestFlowsComeTwiceAgain has packets of one pair of addresses at a processor that believes that most miss the flow cache: it finds
// out that they no longer do, although all but a sample of them are not looked up there.
func TestFlowsComeTwiceAgain(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	p := pairs[0]
	for _, own := range []string{"10.1.0.0/24", "2001:db8:1::/64"} { // without a single next hop
		b.database(0, own)
	}
	b.mapCacheIn(0, p)
	inner := ip{from: p.inner(1, 10), to: p.inner(0, 10), ttl: 64, port: 9, checksum: true, payload: []byte("to A, which is here")}
	frame := ethernet(b.core.Attrs().HardwareAddr, peerMAC, lispPacket(p.outer, 0, 60, [8]byte{0x80, 1, 2, 3}, inner.serialize()))
	missing := func() uint32 {
		var each [][]byte
		must(t, b.coll.Maps["clocks"].Lookup(uint32(0), &each))
		return binary.NativeEndian.Uint32(each[0][missingAt:])
	}
	b.missMostly(true)
	options := xdpOptions(b.core, frame)
	options.DataOut = nil
	for deadline := time.Now().Add(30 * time.Second); missing() >= 2; {
		must(t, b.ns.Do(func() error {
			return onProcessor(0, func() error { return b.runTimes(100, "lisp_xdp", options) })
		}))
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s packets of one pair of addresses are still taken for misses; %s", b.allDrops())
		}
	}
}

// In struct lisp_clock.
const (
	missingAt = 44
	turnAt    = 48
)

// watchRoutes says until when marks of entries count.
func (b *bench) watchRoutes(t *testing.T, until uint64) {
	t.Helper()
	m := b.coll.Maps["generations"]
	var value []byte
	must(t, m.Lookup(uint32(0), &value))
	binary.NativeEndian.PutUint64(value[8:], until)
	must(t, m.Update(uint32(0), value, ebpf.UpdateExist))
}
