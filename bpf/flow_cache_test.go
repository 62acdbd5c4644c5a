// SPDX-License-Identifier: Apache-2.0

// The flow cache and action records at both hooks: which packets go by them, and until when. That their packets are right is what
// the golden packets show, each of which goes twice (golden_test.go).

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

// recordedMAC stands in action records for the neighbour's address, so that it shows whether packets go by them.
var recordedMAC = []byte{2, 0, 0, 0, 0, 0x99}

// flowMapping is the mapping at which packets are counted that go by marked entries of the flow cache.
const flowMapping = planeLimit - 1

// In struct lisp_action_record and struct lisp_flow.
const (
	recordWhatAt, recordExpiresAt, recordHeaderAt = 16, 24, 64
	flowWhatAt, flowMappingAt, flowExpiresAt      = 46, 64, 88
)

// places yields each place of a map of the programs where something is kept, in the memory of the map: to read the places one by
// one takes the better part of a second.
func (b *bench) places(name string, whatAt int) iter.Seq[[]byte] {
	b.t.Helper()
	m := b.coll.Maps[name]
	each := int(m.ValueSize())
	memory := b.memory[name]
	if memory == nil {
		var err error
		memory, err = unix.Mmap(m.FD(), 0, int(m.MaxEntries())*each, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		must(b.t, err)
		b.memory[name] = memory
		b.t.Cleanup(func() { must(b.t, unix.Munmap(memory)) })
	}
	return func(yield func([]byte) bool) {
		for start := 0; start < len(memory); start += each {
			if value := memory[start:][:each:each]; value[whatAt] != 0 && !yield(value) {
				return
			}
		}
	}
}

// markRecords writes recordedMAC and these members into all action records, lets them live for ever, and returns how many there are.
func (b *bench) markRecords(members fields) (marked int) {
	b.t.Helper()
	for record := range b.places("actions", recordWhatAt) {
		marked++
		copy(record[recordHeaderAt:], recordedMAC)
		binary.NativeEndian.PutUint64(record[recordExpiresAt:], 1<<62) // however slow this machine is
		for name, value := range members {
			b.setMember("lisp_action_record", name, record, value.(uint32))
		}
	}
	return marked
}

// markFlows makes all entries of the flow cache count at flowMapping, writes these members into them, lets them live for ever, and
// returns how many there are.
func (b *bench) markFlows(members fields) (marked int) {
	b.t.Helper()
	for entry := range b.places("flows", flowWhatAt) {
		marked++
		binary.NativeEndian.PutUint32(entry[flowMappingAt:], flowMapping)
		binary.NativeEndian.PutUint64(entry[flowExpiresAt:], 1<<62)
		for name, value := range members {
			b.setMember("lisp_flow", name, entry, value.(uint32))
		}
	}
	return marked
}

// flowHits is how many packets went by marked entries.
func (b *bench) flowHits(t *testing.T) uint64 {
	t.Helper()
	packets, _ := b.countedBy(t, 0, flowMapping)
	return packets
}

// emptyCaches removes all entries of the flow cache and all action records; no processor believes that most packets miss the former.
func (b *bench) emptyCaches() {
	b.t.Helper()
	b.missMostly(false)
	for record := range b.places("actions", recordWhatAt) {
		clear(record)
	}
	for entry := range b.places("flows", flowWhatAt) {
		clear(entry)
	}
}

// hooks names the hooks that have caches.
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

func TestFlowCache(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
	for _, hook := range hooks {
		t.Run(hook, func(t *testing.T) { b.flowCache(t, hook) })
	}
}

func (b *bench) flowCache(t *testing.T, hook string) {
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
		flow    fields // members of the entry
		record  fields // members of the action record
		between func()
		to      net.HardwareAddr // of the second frame; nil: the interface's own
		hit     bool             // the second frame goes by the entry
		record2 bool             // it goes by the action record at least
		passes  bool
	}{
		"the same again":         {hit: true, record2: true},
		"another TTL":            {change: func(p *ip) { p.ttl = 9 }, hit: true, record2: true},
		"longer":                 {change: func(p *ip) { p.payload = make([]byte, 1000) }, hit: true, record2: true},
		"too long":               {change: func(p *ip) { p.payload = make([]byte, 1000) }, record: fields{"longest": uint32(999)}},
		"another port":           {change: func(p *ip) { p.port = 10 }, hit: true, record2: true},
		"another TOS":            {change: func(p *ip) { p.tos = 1 }},
		"another source":         {change: func(p *ip) { p.from = siteAddress4(0, 11) }, record2: true},
		"another destination":    {change: func(p *ip) { p.to = siteAddress4(1, 11) }, record2: true},
		"the entry's time ends":  {flow: fields{"expires_ns": uint32(1)}, record2: true},
		"the record's time ends": {record: fields{"expires_ns": uint32(1)}},
		"another record there":   {record: fields{"serial": uint32(0)}, record2: true},
		"no frames are taken":    {record: fields{"flags": b.constant("LISP_ACTION_RESOLVED")}, hit: hook == "tc", record2: hook == "tc", passes: hook == "XDP"},
		"another epoch":          {flow: fields{"epoch": uint32(0)}, record: fields{"epoch": uint32(0)}},
		"a destination's change": {between: func() { raise(16) }, record2: true},
		"to another host":        {to: net.HardwareAddr{2, 0, 0, 0, 0, 0x98}, passes: true},
		"to everybody":           {to: net.HardwareAddr{255, 255, 255, 255, 255, 255}, passes: true},
	} {
		t.Run(name, func(t *testing.T) {
			b.emptyCaches()
			b.leaveSite(t, hook, packet(nil))
			if b.markFlows(c.flow) == 0 || b.markRecords(c.record) == 0 {
				t.Fatal("nothing is kept")
			}
			if c.between != nil {
				c.between()
			}
			second, before := packet(c.change), b.flowHits(t)
			copy(second, c.to)
			sent, got := b.leaveSite(t, hook, second)
			hit := b.flowHits(t) > before
			if sent == c.passes || hit != c.hit || bytes.Equal(got[:6], recordedMAC) != c.record2 {
				t.Errorf("sent: %t, to %x, by the flow cache: %t; want passes: %t, hit: %t, by the record: %t", sent, got[:6], hit, c.passes, c.hit, c.record2)
			}
		})
	}
}

// TestFlowCacheAlone takes the stages behind the flow cache of XDP away: what it has goes on, all else passes to tc.
func TestFlowCacheAlone(t *testing.T) {
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
	b.markRecords(nil)
	b.markFlows(nil)
	if verdict, got := b.frameXDP(t, b.site, packet); verdict != xdpRedirect || !bytes.Equal(got[:6], recordedMAC) {
		t.Errorf("verdict %d, to %x for a flow that is known", verdict, got[:6])
	}
	b.emptyCaches()
	if verdict, got := b.frameXDP(t, b.site, packet); verdict != xdpPass || !bytes.Equal(got, packet) {
		t.Errorf("verdict %d, frame %x: want it to pass as it came", verdict, got)
	}
}

// TestFlowsOfAPair sends flows between two addresses by the entry that another one of them left: each has its own source port and
// flow label, and goes to the locator of its own bucket.
func TestFlowsOfAPair(t *testing.T) {
	const flows = 64
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		set := b.mapTwice(p)
		for name, c := range map[string]struct {
			buckets func(bucket int) byte
			flags   string
			most    int // entries
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
				b.emptyCaches()
				packets := make([][]byte, flows)
				for i := range packets {
					packets[i] = ip{from: p.inner(0, 10), to: p.inner(1, 10), tos: 0xB9, ttl: 64, port: uint16(i), checksum: true,
						payload: []byte("to B, which is far")}.serialize()
				}
				for i, packet := range packets {
					b.expectFlow(t, hook, p, packet, c.buckets, i > 0 && c.most == 1)
					if i == 0 {
						b.markFlows(nil)
						b.markRecords(nil)
						b.expectFlow(t, hook, p, packet, c.buckets, true)
					}
				}
				if kept := b.markFlows(nil); kept == 0 || kept > c.most || (c.most > 1 && kept < flows/2) {
					t.Errorf("%d entries are kept", kept)
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

// flowTries are made of a packet that must hit the flow cache: each processor has its own, and a test may go on at
// another one.
const flowTries = 5

// expectFlow wants a packet to go by the locator of its flow, and by the flow cache if `hit`.
func (b *bench) expectFlow(t *testing.T, hook string, p pair, packet []byte, buckets func(bucket int) byte, hit bool) {
	t.Helper()
	header, err := forward.ParseHeader(packet)
	must(t, err)
	var sent bool
	var got []byte
	asWanted := !hit
	for try := 0; try == 0 || !asWanted && try < flowTries; try++ {
		before := b.flowHits(t)
		if try > 0 {
			b.markFlows(nil)
			b.missMostly(false) // misses in two jiffies on end are most packets
		}
		if sent, got = b.leaveSite(t, hook, ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet)); !sent {
			t.Fatalf("not sent; %s", b.allDrops())
		}
		asWanted = asWanted || b.flowHits(t) > before
	}
	if !asWanted {
		t.Error("it missed the flow cache")
	}
	want := b.encapsulated(t, p, 0, packet, got)
	udp := 14 + map[bool]int{true: 20, false: 40}[p.outer(0).Is4()]
	want[udp+3] += buckets(forward.BucketOf(forward.FlowHash(&header)))
	want[udp+8] &^= 0x08 // no Instance-ID
	if !bytes.Equal(got[6:], want[6:]) {
		t.Errorf("got\n%x\nwant\n%x", got, want)
	}
}

// TestTunnelsBesideFlows has packets of tunnels between two addresses that have an entry: their inner checksum may be partial, so
// that they are tc's, as those without an entry are.
func TestTunnelsBesideFlows(t *testing.T) {
	const toTC = 2 // XDP_PASS
	b := newBench(t)
	b.takeFrames(t)
	for _, p := range pairs {
		b.oneMapping(p)
		for port, want := range map[uint16]uint32{9: xdpRedirect, 4789: toTC, 8472: toTC, 6081: toTC, 4341: toTC} {
			b.emptyCaches()
			for _, to := range []uint16{9, port} {
				packet := ip{from: p.inner(0, 10), to: p.inner(1, 10), ttl: 64, port: to, checksum: true, payload: []byte("to B, which is far")}
				verdict, _ := b.frameXDP(t, b.site, ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet.serialize()))
				if to == 9 && b.markFlows(nil) == 0 {
					t.Fatal("nothing is kept")
				}
				if to == port && verdict != want {
					t.Errorf("%s, UDP port %d: verdict %d, want %d", p.name, port, verdict, want)
				}
			}
		}
	}
}

// TestFlowsWithoutEntry lists packets that leave no entry.
func TestFlowsWithoutEntry(t *testing.T) {
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
			b.emptyCaches()
			if sent, _ := b.leaveSite(t, hook, ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet)); !sent {
				t.Errorf("not sent; %s", b.allDrops())
			}
			if n := b.markFlows(nil); n != 0 {
				t.Errorf("%d entries kept", n)
			}
		})
	}
}
