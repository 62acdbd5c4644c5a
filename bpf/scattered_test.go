// SPDX-License-Identifier: Apache-2.0

// What packets between many pairs of addresses share, at both hooks: which packets go by it, and until when. That these are right
// is what the golden packets show as well, each of which goes this way once (golden_test.go).

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
)

// leaveAlone takes the programs away that decide anew: what is not shared passes.
func (b *bench) leaveAlone(t *testing.T) {
	t.Helper()
	b.program("lisp_xdp")
	for place := range uint32(2) {
		must(t, b.coll.Maps["xdp_programs"].Delete(place))
	}
}

func (b *bench) decideAnew(t *testing.T) {
	t.Helper()
	for place, program := range []string{"lisp_xdp_core", "lisp_xdp_site"} {
		must(t, b.coll.Maps["xdp_programs"].Put(uint32(place), b.program(program)))
	}
}

// scatter makes all processors take packets for scattered, or no longer.
func (p *plane) scatter(scattered bool) {
	p.t.Helper()
	var each [][]byte
	must(p.t, p.coll.Maps["clocks"].Lookup(uint32(0), &each))
	for _, value := range each {
		binary.NativeEndian.PutUint32(value[scatteredAt:], map[bool]uint32{true: 8}[scattered])
		binary.NativeEndian.PutUint32(value[turnAt:], 15) // the next one is no sample, and says which entry has a block
	}
	must(p.t, p.coll.Maps["clocks"].Put(uint32(0), each))
}

// setTurn says of all processors how many scattered packets there were.
func (p *plane) setTurn(turn uint32) {
	p.t.Helper()
	var each [][]byte
	must(p.t, p.coll.Maps["clocks"].Lookup(uint32(0), &each))
	for _, value := range each {
		binary.NativeEndian.PutUint32(value[turnAt:], turn)
	}
	must(p.t, p.coll.Maps["clocks"].Put(uint32(0), each))
}

// goScattered passes a frame to the programs of a hook as one of many. It says whether it left by what is shared; if not, XDP has
// passed it as it came.
func (b *bench) goScattered(t *testing.T, hook string, at netlink.Link, frame []byte) (gone bool, got []byte) {
	t.Helper()
	if hook == "tc" {
		b.scatter(true)
		program := map[netlink.Link]string{b.site: "site_ingress", b.core: "core_ingress"}[at]
		answer, got := b.run(t, program, at, true, frame)
		return answer == actRedirect && bytes.Equal(got[:6], keptMAC), got
	}
	b.leaveAlone(t)
	b.setTurn(16) // as lisp_xdp would have
	verdict, got := b.frameBy(t, "lisp_xdp_scattered", at, frame)
	if verdict != xdpRedirect && (verdict != xdpPass || !bytes.Equal(got, frame)) {
		t.Errorf("verdict %d, frame %x: want it to pass as it came", verdict, got)
	}
	return verdict == xdpRedirect && bytes.Equal(got[:6], keptMAC), got
}

// decideFirst passes a frame to the programs of a hook, which decide about it.
func (b *bench) decideFirst(t *testing.T, hook string, at netlink.Link, frame []byte) {
	t.Helper()
	b.decideAnew(t)
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

func TestScatteredFromSite(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		b.oneMapping(p)
		plain := ip{from: p.inner(0, 10), to: p.inner(1, 10), tos: 0xB9, ttl: 64, port: 9, checksum: true, payload: []byte("to B, which is far")}
		for name, c := range map[string]struct {
			change  func(*ip)
			members fields // of what is kept
			goes    bool
			tcGoes  bool
		}{
			"another destination": {change: func(d *ip) { d.to = p.inner(1, 11) }, goes: true},
			"another port":        {change: func(d *ip) { d.to, d.port = p.inner(1, 12), 10 }, goes: true},
			"another TTL":         {change: func(d *ip) { d.ttl = 9 }, goes: true},
			"longer":              {change: func(d *ip) { d.payload = make([]byte, 1000) }, goes: true},
			"too long":            {change: func(d *ip) { d.payload = make([]byte, 1000) }, members: fields{"longest": uint32(999)}},
			"of a tunnel":         {change: func(d *ip) { d.to, d.port = p.inner(1, 13), 4789 }, tcGoes: true},
			"another TOS":         {change: func(d *ip) { d.tos = 1 }},
			"another source":      {change: func(d *ip) { d.from = p.inner(0, 11) }},
			"within the site":     {change: func(d *ip) { d.to = p.inner(0, 11) }},
			"to nobody":           {change: func(d *ip) { d.to = p.inner(2, 11) }},
			"TTL at its end":      {change: func(d *ip) { d.ttl = 1 }},
			"the time is over":    {members: fields{"expires_ns": uint32(1)}},
			"another epoch":       {members: fields{"epoch": uint32(0)}},
			"another front":       {members: fields{"generation": uint32(0)}},
		} {
			eachHook(t, p.name+"/"+name, func(t *testing.T, hook string) {
				b.forgetDecisions()
				if c.members["generation"] != nil {
					b.removeDecisions(t) // a front that stays what it was keeps its number
				}
				b.decideFirst(t, hook, b.site, ethernet(b.site.Attrs().HardwareAddr, hostMAC, plain.serialize()))
				b.markDecisions(t, c.members)
				described := plain
				if c.change != nil {
					c.change(&described)
				}
				packet := described.serialize()
				gone, got := b.goScattered(t, hook, b.site, ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet))
				if gone != (c.goes || c.tcGoes && hook == "tc") {
					t.Errorf("gone by what is shared: %t; got %x", gone, got)
				}
				if !gone {
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
			eachHook(t, p.name+"/"+name, func(t *testing.T, hook string) {
				b.forgetDecisions()
				b.watchRoutes(t, 1<<62)
				b.decideFirst(t, hook, b.core, frame(inner, header))
				b.markDecisions(t, c.members)
				b.watchRoutes(t, c.until)
				described, with := inner, c.header
				if c.change != nil {
					c.change(&described)
				}
				if with == ([8]byte{}) {
					with = header
				}
				gone, got := b.goScattered(t, hook, b.core, frame(described, with))
				if gone != c.goes {
					t.Errorf("gone by what is shared: %t; got %x", gone, got)
				}
				if !gone {
					return
				}
				described.ttl = 59
				want := ethernet(keptMAC, b.site.Attrs().HardwareAddr, described.serialize())
				if !bytes.Equal(got, want) {
					t.Errorf("got\n%x\nwant\n%x", got, want)
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
	scattered := func() uint32 {
		var each [][]byte
		must(t, b.coll.Maps["clocks"].Lookup(uint32(0), &each))
		return binary.NativeEndian.Uint32(each[0][scatteredAt:])
	}
	b.scatter(true)
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

// In struct lisp_clock.
const (
	scatteredAt = 44
	turnAt      = 48
)

// TestSetsAreBelievedLonger has what is kept of a locator-set expire: it goes on for as long as the index means the same set.
func TestSetsAreBelievedLonger(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	serial := uint32(0)
	for _, p := range pairs {
		b.oneMapping(p)
		plain := ip{from: p.inner(0, 10), to: p.inner(1, 10), ttl: 64, port: 9, checksum: true, payload: []byte("to B, which is far")}
		frame := ethernet(b.site.Attrs().HardwareAddr, hostMAC, plain.serialize())
		for name, c := range map[string]struct {
			kept          fields
			another, goes bool
		}{
			"it has expired":                {kept: fields{"expires": uint32(0)}, goes: true},
			"another set, it has expired":   {kept: fields{"expires": uint32(0)}, another: true},
			"another set, and has not":      {kept: fields{"expires": uint32(1) << 31}, another: true, goes: true},
			"another epoch":                 {kept: fields{"epoch": uint32(0)}},
			"another front":                 {kept: fields{"generation": uint32(0)}},
			"a front of its flow, not kept": {kept: fields{"front": uint32(1) << 31}},
		} {
			eachHook(t, p.name+"/"+name, func(t *testing.T, hook string) {
				b.forgetDecisions()
				b.decideFirst(t, hook, b.site, frame)
				b.markDecisions(t, nil)
				b.changeAll(t, "set_fronts", "lisp_set_front", c.kept)
				if serial++; c.another {
					b.changeAll(t, "locator_sets", "lisp_locator_set", fields{"serial": serial})
				}
				if gone, got := b.goScattered(t, hook, b.site, frame); gone != c.goes {
					t.Errorf("gone by what is shared: %t; got %x", gone, got)
				}
			})
		}
	}
}

// changeAll changes members of all values of an array.
func (b *bench) changeAll(t *testing.T, name, structure string, members fields) {
	t.Helper()
	m := b.coll.Maps[name]
	for index := range m.MaxEntries() {
		var value []byte
		must(t, m.Lookup(index, &value))
		for member, to := range members {
			b.setMember(structure, member, value, to.(uint32))
		}
		must(t, m.Put(index, value))
	}
}

// TestFrontsStandApart has packets to as many locator-sets of one front as there are. Whatever else is kept takes no place of the
// front: those to the first set would have to be decided about anew, and then all others.
func TestFrontsStandApart(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		b.oneMapping(p)
		frame := func(host int) []byte {
			plain := ip{from: p.inner(0, 10), to: p.inner(1, host), ttl: 64, port: 9, checksum: true, payload: []byte("to B, which is far")}
			return ethernet(b.site.Attrs().HardwareAddr, hostMAC, plain.serialize())
		}
		eachHook(t, p.name, func(t *testing.T, hook string) {
			b.removeDecisions(t)
			b.decideFirst(t, hook, b.site, frame(10))
			b.markDecisions(t, nil)
			front, sources := b.placesOf(t, "LISP_WAY_FRONT"), b.placesOf(t, "LISP_WAY_SOURCE")
			if len(front) == 0 || len(sources) == 0 {
				t.Fatalf("fronts at %v, sources at %v", front, sources)
			}
			for place := range sources {
				if place >= decisionsEach {
					t.Errorf("a source is kept at place %d, among fronts", place)
				}
			}
			for place := range front {
				if place < decisionsEach {
					t.Errorf("a front is kept at place %d, which sets of other numbers may take", place)
				}
			}
		})
	}
}

const decisionsEach = 8192 // LISP_DECISIONS

// placesOf returns where a processor keeps what is kept in a way.
func (b *bench) placesOf(t *testing.T, way string) map[uint32]bool {
	t.Helper()
	places := map[uint32]bool{}
	each := b.coll.Maps["decisions"].MaxEntries() / uint32(ebpf.MustPossibleCPU())
	for index, d := range b.keptDecisions(t) {
		if uint32(d[wayAt]) == b.constant(way) {
			places[uint32(index)%each] = true
		}
	}
	return places
}

// TestBlocksOfEntries has a block of destinations kept for an entry of the Database: only where the entry has all of it, for as long as nothing changes, and
// not where the entry is none any more, nor where it has more than can be kept. Packets to other blocks ask the table.
func TestBlocksOfEntries(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		for name, c := range map[string]struct {
			entries [2][]string // of IPv4, of IPv6
			bits    uint32      // of the block, 0 for none
		}{
			"a block":            {[2][]string{{"10.1.0.0/24"}, {"2001:db8:1::/48"}}, 24},
			"several blocks":     {[2][]string{{"10.1.0.0/16"}, {"2001:db8::/40"}}, 24},
			"too many blocks":    {[2][]string{{"10.0.0.0/15"}, {"2001:db8::/39"}}, 0},
			"a large block":      {[2][]string{{"10.0.0.0/8"}, {"2001::/16"}}, 8},
			"all":                {[2][]string{{"0.0.0.0/0"}, {"::/0"}}, 8},
			"part of a block":    {[2][]string{{"10.1.0.0/25"}, {"2001:db8:1::/64"}}, 0},
			"another one within": {[2][]string{{"10.1.0.0/16", "10.1.0.128/25"}, {"2001:db8::/40", "2001:db8:1:77::/64"}}, 0},
			"another one beside": {[2][]string{{"10.1.0.0/16", "10.1.1.0/24"}, {"2001:db8::/40", "2001:db8:2::/48"}}, 24},
		} {
			eachHook(t, p.name+"/"+name, func(t *testing.T, hook string) {
				bits := map[uint32]uint32{24: 48, 8: 20}[c.bits]
				if p.inner(0, 1).Is4() {
					bits = c.bits
				}
				b.blockIsKept(t, hook, p, c.entries, bits)
			})
		}
	}
}

// blockIsKept has such a Database, and says how many bits the block has that is kept for a packet, 0 for none.
func (b *bench) blockIsKept(t *testing.T, hook string, p pair, entries [2][]string, bits uint32) {
	t.Helper()
	b.leafs = map[rootKey][]leaf{}
	defer func(next uint32) { b.next = next }(b.next)
	flags := b.constant("LISP_MAPPING_VALID") | b.constant("LISP_MAPPING_DATABASE") | b.constant("LISP_MAPPING_ONE_WAY")
	first := map[bool]uint32{}
	for family, prefixes := range entries {
		for i, own := range prefixes {
			index := b.add("LISP_ROOT_DATABASE", 0, own, fields{"flags": flags, "locator_set": uint32(0xFFFFFFFF)})
			if i == 0 {
				first[family == 0] = index
			}
		}
	}
	entry := first[p.inner(0, 1).Is4()]
	b.watchRoutes(t, 1<<62)
	b.removeDecisions(t)
	inner := ip{from: p.inner(1, 10), to: p.inner(0, 10), ttl: 64, port: 9, checksum: true, payload: []byte("to A, which is here")}
	frame := ethernet(b.core.Attrs().HardwareAddr, peerMAC, lispPacket(p.outer, 0, 60, [8]byte{0x80, 1, 2, 3}, inner.serialize()))
	b.decideFirst(t, hook, b.core, frame)
	goes := func(when string, want bool) {
		t.Helper()
		b.decideAnew(t)
		b.markDecisions(t, nil) // anew where tc has decided meanwhile
		if gone, _ := b.goScattered(t, hook, b.core, frame); gone != want {
			t.Errorf("%s: gone by what is shared: %t", when, gone)
		}
	}
	goes("nothing kept", true)
	kept := b.blocksOfEntries(t)
	if bits == 0 {
		if len(kept) != 0 {
			t.Errorf("a block is kept: %x", kept)
		}
		return
	}
	if len(kept) != 1 || binary.NativeEndian.Uint32(kept[0][flowAt:]) != bits || binary.NativeEndian.Uint32(kept[0][mappingIndexAt:]) != entry {
		t.Fatalf("kept: %x, want one block of %d bits for mapping %d", kept, bits, entry)
	}
	putOther := func() { binary.NativeEndian.PutUint32(kept[0][mappingIndexAt:], entry+1000) } // which is none: so it shows that the block is asked for
	putOther()
	goes("of another entry", false)
	binary.NativeEndian.PutUint32(kept[0][epochAt:], binary.NativeEndian.Uint32(kept[0][epochAt:])+1)
	goes("another epoch", true)
	if got := binary.NativeEndian.Uint32(kept[0][mappingIndexAt:]); got != entry {
		t.Errorf("after another epoch it is kept for %d, want %d", got, entry)
	}
	b.saidInTurn(t, hook, frame, entry)
	b.setMappingFlags(entry, "LISP_MAPPING_DATABASE", "LISP_MAPPING_ONE_WAY")
	goes("no entry any more", false)
}

// saidInTurn has one of sixteen packets that ask the table say which entry has the block, and not one whose time is over.
func (b *bench) saidInTurn(t *testing.T, hook string, frame []byte, entry uint32) {
	t.Helper()
	program := map[string]string{"tc": "core_ingress", "XDP": "lisp_xdp"}[hook]
	for _, turn := range []uint32{5, 15} { // before the packet takes its own
		for _, d := range b.blocksOfEntries(t) {
			binary.NativeEndian.PutUint32(d[mappingIndexAt:], entry+1000)
			binary.NativeEndian.PutUint64(d[expiresAt:], 1)
		}
		b.scatter(true)
		b.setTurn(turn)
		if hook == "tc" {
			b.run(t, program, b.core, true, frame)
		} else {
			b.frameBy(t, program, b.core, frame)
		}
		kept := b.blocksOfEntries(t)
		if again := len(kept) == 1 && binary.NativeEndian.Uint32(kept[0][mappingIndexAt:]) == entry; again != (turn == 15) {
			t.Errorf("in turn %d: kept %x", turn+1, kept)
		}
	}
}

// In struct lisp_decision.
const (
	flowAt         = 40
	epochAt        = 48
	mappingIndexAt = 64
)

// blocksOfEntries are the decisions that say which entry a block has.
func (b *bench) blocksOfEntries(t *testing.T) (kept [][]byte) {
	t.Helper()
	for _, d := range b.keptDecisions(t) {
		if uint32(d[wayAt]) == b.constant("LISP_WAY_ENTRY_BLOCK") {
			kept = append(kept, d)
		}
	}
	return kept
}

// watchRoutes says until when marks of entries count.
func (b *bench) watchRoutes(t *testing.T, until uint64) {
	t.Helper()
	m := b.coll.Maps["generations"]
	var value []byte
	must(t, m.Lookup(uint32(0), &value))
	binary.NativeEndian.PutUint64(value[8:], until)
	must(t, m.Update(uint32(0), value, ebpf.UpdateExist))
}

// TestBlockOfEntryOfAnotherDatabase has user space put another root in place, and advance the epoch after that, when a program has found an entry and is about
// to keep its block: the new epoch is read, so the new root is, and nothing is kept of the Database before it.
func TestBlockOfEntryOfAnotherDatabase(t *testing.T) {
	for _, p := range []pair{pairs[0], pairs[3]} {
		t.Run(p.name, func(t *testing.T) {
			b := newBench(t)
			b.leafs = map[rootKey][]leaf{}
			flags := b.constant("LISP_MAPPING_VALID") | b.constant("LISP_MAPPING_DATABASE") | b.constant("LISP_MAPPING_ONE_WAY")
			for _, own := range []string{"10.1.0.0/24", "2001:db8:1::/48"} {
				b.add("LISP_ROOT_DATABASE", 0, own, fields{"flags": flags, "locator_set": uint32(0xFFFFFFFF)})
			}
			b.watchRoutes(t, 1<<62)
			b.editWithin(t, "core_ingress", "lisp_share_block_of_entry", b.constant("LISP_ROOT_DATABASE")+map[bool]uint32{false: 1}[p.inner(0, 1).Is4()])
			inner := ip{from: p.inner(1, 10), to: p.inner(0, 10), ttl: 64, port: 9, checksum: true, payload: []byte("to A, which is here")}
			frame := ethernet(b.core.Attrs().HardwareAddr, peerMAC, lispPacket(p.outer, 0, 60, [8]byte{0x80, 1, 2, 3}, inner.serialize()))
			b.decideFirst(t, "tc", b.core, frame)
			b.markDecisions(t, nil)
			before := b.epoch(t)
			b.goScattered(t, "tc", b.core, frame)
			if after := b.epoch(t); after != before+1 {
				t.Fatalf("epoch %d after %d: there was no edit", after, before)
			}
			if kept := b.blocksOfEntries(t); len(kept) != 0 {
				t.Errorf("kept of a Database that is no more, in epoch %d: %x", b.epoch(t), kept)
			}
		})
	}
}

// epoch is that of user space.
func (b *bench) epoch(t *testing.T) uint32 {
	t.Helper()
	var value []byte
	must(t, b.coll.Maps["generations"].Lookup(uint32(0), &value))
	return uint32(b.member("lisp_generations", "epoch", value))
}

// editWithin has a program that is not loaded yet do at the beginning of one of its functions what user space may do at any time: put an empty root in
// place of one of Instance-ID 0, then advance the epoch.
func (b *bench) editWithin(t *testing.T, program, function string, root uint32) {
	t.Helper()
	whole := b.spec.Programs[program].Instructions
	at := slices.IndexFunc(whole, func(i asm.Instruction) bool { return i.Symbol() == function })
	if at < 0 {
		t.Fatalf("%s has no %s", program, function)
	}
	const fifth, key = -72, -80 // below what the function uses
	lookUp := func(name string, index uint32) asm.Instructions {
		return asm.Instructions{
			asm.StoreImm(asm.R10, key, int64(index), asm.Word), asm.LoadMapPtr(asm.R1, 0).WithReference(name), asm.Mov.Reg(asm.R2, asm.R10), asm.Add.Imm(asm.R2, key),
			asm.FnMapLookupElem.Call(), asm.JEq.Imm(asm.R0, 0, "edited"),
		}
	}
	edit := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Reg(asm.R7, asm.R2), asm.Mov.Reg(asm.R8, asm.R3), asm.Mov.Reg(asm.R9, asm.R4), asm.StoreMem(asm.R10, fifth, asm.R5, asm.DWord),
	}
	edit = append(edit, lookUp("roots", b.rootsOf(0))...)
	edit = append(edit, asm.LoadImm(asm.R1, -1<<63, asm.DWord), asm.StoreMem(asm.R0, int16(8*root), asm.R1, asm.DWord))
	edit = append(edit, lookUp("generations", 0)...)
	edit = append(edit,
		asm.LoadMem(asm.R1, asm.R0, 0, asm.Word), asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R0, 0, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R1, asm.R6).WithSymbol("edited"), asm.Mov.Reg(asm.R2, asm.R7), asm.Mov.Reg(asm.R3, asm.R8), asm.Mov.Reg(asm.R4, asm.R9), asm.LoadMem(asm.R5, asm.R10, fifth, asm.DWord),
	)
	edit[0].Metadata, whole[at].Metadata = whole[at].Metadata, asm.Metadata{}
	b.spec.Programs[program].Instructions = slices.Insert(whole, at, edit...)
}
