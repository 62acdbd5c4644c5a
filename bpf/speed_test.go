// SPDX-License-Identifier: Apache-2.0

// Benchmarks of single programs by BPF_PROG_TEST_RUN, without links or sockets. A program that changes its packet runs once a
// call, and the kernel says how long it ran (kernel.bpf_stats_enabled, some 20 to 40 ns of which are the kernel's own clock);
// one that drops it runs many times a call. Figures of one machine at one moment are worth comparing, no others.

package bpf_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
)

// dropRepeats is how many packets one call stands for when programs leave the packet as it is.
const dropRepeats = 10000

func newSpeedBench(b *testing.B) *bench {
	b.Helper()
	testnet.RequireRoot(b)
	bench := newBench(b)
	for _, pair := range pairs[:2] {
		bench.mapCacheIn(0, pair)
	}
	bench.negative(0, "10.3.0.0/24", "LISP_ACTION_DROP")
	bench.negative(0, "2001:db8:3::/64", "LISP_ACTION_DROP")
	return bench
}

// BenchmarkForward runs the whole way of packets that leave.
func BenchmarkForward(b *testing.B) {
	bench := newSpeedBench(b)
	stats, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME
	must(b, err)
	defer stats.Close()
	site, core := bench.site.Attrs().HardwareAddr, bench.core.Attrs().HardwareAddr
	for _, pair := range pairs {
		// Once: b.Run calls its function several times, and each time a mapping would take a new place in the
		// maps.
		bench.oneMapping(pair)
		b.Run("encapsulate/"+pair.name, func(b *testing.B) {
			bench.timePackets(b, "site_ingress", bench.site, ethernet(site, hostMAC, pair.toRemote(0, 64)))
		})
		b.Run("decapsulate/"+pair.name, func(b *testing.B) {
			packet := lispPacket(pair.outer, 0, 64, [8]byte{0x80, 1, 2, 3}, pair.toLocal(0, 64))
			bench.timePackets(b, "core_ingress", bench.core, ethernet(core, peerMAC, packet))
		})
	}
}

// BenchmarkRelay runs the way of packets that are relayed, and of a PITR's, by the flow cache, or by all stages as they go while most
// packets miss it.
func BenchmarkRelay(b *testing.B) {
	bench := newSpeedBench(b)
	stats, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME
	must(b, err)
	defer stats.Close()
	for _, kind := range []string{"LISP_LIST_RTR", "LISP_LIST_PITR"} {
		bench.policy(kind, 0, "10.2.0.0/24", "2001:db8:2::/64")
	}
	bench.policy("LISP_LIST_PITR_SOURCE", 0, "0.0.0.0/0", "::/0")
	bench.settings(fields{"list_generation": goldenGeneration})
	forget := func() {
		for entry := range bench.places("flows", flowWhatAt) {
			clear(entry)
		}
	}
	for _, pair := range []pair{pairs[0], pairs[3]} {
		bench.oneMapping(pair)
		site, core := bench.site.Attrs().HardwareAddr, bench.core.Attrs().HardwareAddr
		from := ip{from: pair.inner(2, 10), to: pair.inner(1, 10), ttl: 64, port: 9, checksum: true, payload: []byte("to B")}.serialize()
		relayed := ethernet(core, peerMAC, lispPacket(pair.outer, 0, 64, [8]byte{0x80, 1, 2, 3}, from))
		for name, before := range map[string]func(){"flow cache": func() {}, "all stages": forget} {
			b.Run("relay/"+pair.name+"/"+name, func(b *testing.B) { bench.timePacketsAfter(b, before, "core_ingress", bench.core, relayed) })
			b.Run("PITR, site/"+pair.name+"/"+name, func(b *testing.B) {
				bench.timePacketsAfter(b, before, "site_ingress", bench.site, ethernet(site, hostMAC, from))
			})
			b.Run("PITR, core/"+pair.name+"/"+name, func(b *testing.B) {
				bench.timePacketsAfter(b, before, "core_ingress", bench.core, ethernet(core, peerMAC, from))
			})
		}
	}
}

// timePackets reports the kernel's own measure of a program's run.
func (b *bench) timePackets(t *testing.B, program string, at netlink.Link, frame []byte) {
	t.Helper()
	b.timePacketsAfter(t, func() {}, program, at, frame)
}

// timePacketsAfter does something before each run, which is not measured.
func (b *bench) timePacketsAfter(t *testing.B, do func(), program string, at netlink.Link, frame []byte) {
	t.Helper()
	before, err := b.program(program).Stats()
	must(t, err)
	options := speedOptions(at, frame)
	must(t, b.ns.Do(func() error {
		for range t.N {
			do()
			answer, err := b.program(program).Run(options)
			if err != nil {
				return err
			}
			if answer != actRedirect {
				t.Fatalf("answer %d; %s", int32(answer), b.allDrops())
			}
		}
		return nil
	}))
	after, err := b.program(program).Stats()
	must(t, err)
	t.ReportMetric(float64(after.Runtime-before.Runtime)/float64(after.RunCount-before.RunCount), "ns/packet")
}

func speedOptions(at netlink.Link, frame []byte) *ebpf.RunOptions {
	context := make([]byte, skbOctets)
	index := uint32(at.Attrs().Index)
	binary.LittleEndian.PutUint32(context[skbIfindex:], index)
	binary.LittleEndian.PutUint32(context[skbIngressIfindex:], index)
	return &ebpf.RunOptions{Data: frame, Context: context}
}

// BenchmarkDecide runs what comes before a packet is changed: parsing and lookups.
func BenchmarkDecide(b *testing.B) {
	bench := newSpeedBench(b)
	for _, pair := range pairs[:2] {
		remote := ip{from: pair.inner(0, 10), to: pair.inner(2, 10), ttl: 64, port: 9, checksum: true}.serialize()
		b.Run("encapsulate/"+pair.name, func(b *testing.B) {
			bench.timeDrops(b, "site_ingress", bench.site, ethernet(bench.site.Attrs().HardwareAddr, hostMAC, remote))
		})
		b.Run("decapsulate/"+pair.name, func(b *testing.B) {
			packet := lispPacket(pair.outer, 0, 64, [8]byte{0x80, 1, 2, 3}, remote)
			bench.timeDrops(b, "core_ingress", bench.core, ethernet(bench.core.Attrs().HardwareAddr, peerMAC, packet))
		})
	}
}

func (b *bench) timeDrops(t *testing.B, program string, at netlink.Link, frame []byte) {
	t.Helper()
	options := speedOptions(at, frame)
	options.Repeat = dropRepeats
	must(t, b.ns.Do(func() error {
		for t.Loop() {
			answer, err := b.program(program).Run(options)
			if err != nil {
				return err
			}
			if answer != actShot {
				t.Fatalf("answer %d", int32(answer))
			}
		}
		return nil
	}))
	t.ReportMetric(float64(t.Elapsed().Nanoseconds())/float64(t.N)/dropRepeats, "ns/packet")
}

// BenchmarkForwardXDP is BenchmarkForward for frames.
func BenchmarkForwardXDP(b *testing.B) {
	bench := newSpeedBench(b)
	stats, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME
	must(b, err)
	defer stats.Close()
	bench.takeFrames(b)
	site, core := bench.site.Attrs().HardwareAddr, bench.core.Attrs().HardwareAddr
	for _, pair := range pairs {
		bench.oneMapping(pair)
		b.Run("encapsulate/"+pair.name, func(b *testing.B) {
			bench.timeFrames(b, bench.site, ethernet(site, hostMAC, pair.toRemote(0, 64)))
		})
		b.Run("decapsulate/"+pair.name, func(b *testing.B) {
			packet := lispPacket(pair.outer, 0, 64, [8]byte{0x80, 1, 2, 3}, pair.toLocal(0, 64))
			bench.timeFrames(b, bench.core, ethernet(core, peerMAC, packet))
		})
	}
}

// timeFrames reports the kernel's own measure of the XDP program's run.
func (b *bench) timeFrames(t *testing.B, at netlink.Link, frame []byte) {
	t.Helper()
	program := b.program("lisp_xdp")
	before, err := program.Stats()
	must(t, err)
	options := xdpOptions(at, frame)
	must(t, b.ns.Do(func() error {
		for range t.N {
			verdict, err := program.Run(options)
			if err != nil {
				return err
			}
			if verdict != xdpRedirect {
				t.Fatalf("verdict %d; %s", verdict, b.allDrops())
			}
		}
		return nil
	}))
	after, err := program.Stats()
	must(t, err)
	t.ReportMetric(float64(after.Runtime-before.Runtime)/float64(after.RunCount-before.RunCount), "ns/packet")
}

// BenchmarkBound runs the way of packets of one flow and of many, by the flow cache: without bindings, and all of them
// bound.
func BenchmarkBound(b *testing.B) {
	bench := newSpeedBench(b)
	stats, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME
	must(b, err)
	defer stats.Close()
	bench.takeFrames(b)
	p := pairs[0]
	bench.mapTwice(p)(func(int) byte { return 0 })
	bench.numberPaths(bench.locators-2, true, true)
	for _, bound := range []bool{false, true} {
		for _, flows := range []int{1, 1000} {
			var frames [][]byte
			for i := range flows {
				packet := ip{from: p.inner(0, 10), to: p.inner(1, 10), ttl: 64, port: uint16(i),
					checksum: true, payload: []byte("to B, which is far")}.serialize()
				frames = append(frames, ethernet(bench.site.Attrs().HardwareAddr, hostMAC, packet))
				if bound {
					bench.bind(b, packet, 1)
				}
			}
			name := fmt.Sprintf("%t/%d", bound, flows)
			for _, program := range []string{"site_ingress", "lisp_xdp"} {
				b.Run(name+"/"+program, func(b *testing.B) { bench.timeEach(b, program, frames) })
			}
		}
	}
}

// timeEach reports the kernel's own measure of a program's runs with these frames, one after the other.
func (b *bench) timeEach(t *testing.B, program string, frames [][]byte) {
	t.Helper()
	options, want, others := speedOptions(b.site, nil), uint32(actRedirect), 0
	if program == "lisp_xdp" {
		options, want = xdpOptions(b.site, nil), xdpRedirect
	}
	before, err := b.program(program).Stats()
	must(t, err)
	must(t, b.ns.Do(func() error {
		for i := range t.N {
			options.Data = frames[i%len(frames)]
			answer, err := b.program(program).Run(options)
			if err != nil {
				return err
			}
			if answer != want {
				others++ // XDP leaves one to tc now and then, so that the kernel confirms the neighbour
			}
		}
		return nil
	}))
	if others > t.N/100+1 {
		t.Fatalf("%d of %d did not leave; %s", others, t.N, b.allDrops())
	}
	after, err := b.program(program).Stats()
	must(t, err)
	t.ReportMetric(float64(after.Runtime-before.Runtime)/float64(after.RunCount-before.RunCount), "ns/packet")
}
