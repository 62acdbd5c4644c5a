// SPDX-License-Identifier: Apache-2.0

// Decisions that the XDP program keeps: that they are reused, until when, and for which packets. That their packets are
// right is what the golden packets show, each of which goes twice (golden_test.go).

package bpf_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
)

// keptMAC stands in kept decisions for the neighbour's address, so that it shows whether they are reused.
var keptMAC = []byte{2, 0, 0, 0, 0, 0x99}

// markDecisions writes keptMAC and these members into all decisions, lets them live for ever, and returns how many there are.
func (b *bench) markDecisions(t *testing.T, members fields) (marked int) {
	t.Helper()
	m := b.coll.Maps["decisions"]
	for index := range m.MaxEntries() {
		var d []byte
		must(t, m.Lookup(index, &d))
		if b.member("lisp_decision", "way", d) == 0 {
			continue
		}
		marked++
		front := len(d) - int(frontOctets)
		copy(d[front:], keptMAC)
		binary.NativeEndian.PutUint64(d[expiresAt:], 1<<62) // however slow this machine is
		for name, value := range members {
			b.setMember("lisp_decision", name, d, value.(uint32))
		}
		must(t, m.Update(index, d, ebpf.UpdateExist)) // not by update, which ends decisions
	}
	return marked
}

const (
	frontOctets = 72 // LISP_FRONT_OCTETS
	expiresAt   = 64 // in struct lisp_decision
)

func TestDecisionsAreReused(t *testing.T) {
	b := newBench(t)
	b.takeFrames(t)
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
		reused  bool
	}{
		"the same again":         {reused: true},
		"another TTL":            {change: func(p *ip) { p.ttl = 9 }, reused: true},
		"longer":                 {change: func(p *ip) { p.payload = make([]byte, 1000) }, reused: true},
		"too long":               {change: func(p *ip) { p.payload = make([]byte, 1000) }, members: fields{"longest": uint32(999)}},
		"another port":           {change: func(p *ip) { p.port = 10 }},
		"another TOS":            {change: func(p *ip) { p.tos = 1 }},
		"another source":         {change: func(p *ip) { p.from = siteAddress4(0, 11) }},
		"another destination":    {change: func(p *ip) { p.to = siteAddress4(1, 11) }},
		"the time is over":       {members: fields{"expires_ns": uint32(1)}},
		"another epoch":          {members: fields{"epoch": uint32(0)}},
		"a destination's change": {between: func() { raise(8) }},
	} {
		t.Run(name, func(t *testing.T) {
			b.forgetDecisions()
			b.frameXDP(t, b.site, packet(nil))
			if b.markDecisions(t, c.members) == 0 {
				t.Fatal("nothing is kept")
			}
			if c.between != nil {
				c.between()
			}
			verdict, got := b.frameXDP(t, b.site, packet(c.change))
			if verdict != xdpRedirect || bytes.Equal(got[:6], keptMAC) != c.reused {
				t.Errorf("verdict %d, to %x, want reused: %t", verdict, got[:6], c.reused)
			}
		})
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
		b.forgetDecisions()
		clear := b.coll.Maps["decisions"]
		for index := range clear.MaxEntries() {
			must(t, clear.Update(index, make([]byte, clear.ValueSize()), ebpf.UpdateExist))
		}
		if verdict, _ := b.frameXDP(t, b.site, ethernet(b.site.Attrs().HardwareAddr, hostMAC, packet)); verdict != xdpRedirect {
			t.Errorf("%s: verdict %d; %s", name, verdict, b.allDrops())
		}
		if n := b.markDecisions(t, nil); n != 0 {
			t.Errorf("%s: %d decisions kept", name, n)
		}
	}
}
