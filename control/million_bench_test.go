// SPDX-License-Identifier: Apache-2.0

package control

// Map-Requests at a million registrations, as `loci bench control` has them, without sockets.

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/control/internal/mapserver"
	"loci/control/internal/message"
	"loci/lisp"
	"loci/wire"
)

// benchMapping is the i-th of a million EID-Prefixes, half of each family, as in `loci bench control`.
func benchMapping(i, n int) (lisp.Prefix, int) {
	k := i / 2
	address, bits := netip.AddrFrom4([4]byte{10, byte(k >> 12), byte(k >> 4), byte(k << 4)}), 28
	if i%2 == 1 {
		address, bits = netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 0x10 | byte(k>>16), byte(k >> 8), byte(k)}), 56
	}
	p, _ := lisp.PrefixFrom(0, lisp.EIDFromAddr(address), bits)
	return p, i * 1000 / n
}

func benchmarkMillion(b *testing.B, proxy bool) {
	cfg := mapServerConfig("10.0.0.0/8", "2001:db8:1000::/36")
	cfg.MapServer.Sites[0].Prefixes = append(cfg.MapServer.Sites[0].Prefixes, cfg.MapServer.Sites[1].Prefixes...)
	cfg.MapServer.Sites = cfg.MapServer.Sites[:1]
	cfg.MapResolver = &MapResolverConfig{}
	cfg.Limits = Limits{MapRepliesTotal: Rate{PerSecond: 1e6, Burst: 1_000_000}, MapReplies: Rate{PerSecond: 1e4, Burst: 10}}
	n, err := New(cfg, epoch, testRandom(1))
	if err != nil {
		b.Fatal(err)
	}
	const count = 1_000_000
	site := n.mapServer.Registrations.Sites.At(0)
	for i := range count {
		p, x := benchMapping(i, count)
		rloc := netip.AddrFrom4([4]byte{172, 30, byte(x >> 8), byte(x)}).String()
		who := n.mapServer.Registrations.Xtrs.Acquire(mapserver.XTR{ID: mapserver.RegistrantID{XTRID: [16]byte{byte(x >> 8), byte(x)}}, From: netip.AddrPortFrom(netip.MustParseAddr(rloc), 4342), ProxyReply: proxy})
		n.mapServer.Registrations.Put(n.mapServer.Registrations.PlaceOf(p), site,
			lisp.Mapping{Prefix: p, TTLMinutes: 1440, Locators: locators(rloc, "2001:db8::1")},
			mapserver.Registrant{XTR: who, FirstAt: n.host.Now, LastAt: n.host.Now, ExpiresAt: n.host.After(3 * time.Minute)})
		n.mapServer.Registrations.Xtrs.Release(who)
	}
	random := rand.New(rand.NewPCG(1, 2))
	messages := make([][]byte, 1<<16)
	for i := range messages {
		group := i / 32
		p, _ := benchMapping(random.IntN(count/2)*2+group%2, count)
		eid := lisp.HostPrefix(0, p.EID())
		itr := netip.AddrFrom4([4]byte{172, 31, byte(group >> 8), byte(group)})
		request := wire.MapRequest{Nonce: uint64(i) + 1, ITRRLOCs: []wire.Address{wire.IPv4(itr.As4())}, Records: []wire.RequestRecord{{EID: wire.AddressOf(eid), MaskLen: uint8(eid.Bits())}}}
		inner, _ := request.AppendTo(nil)
		source := netip.AddrPortFrom(itr, 4342)
		if group%2 == 1 {
			source = netip.MustParseAddrPort("[2001:db8:2000::1]:4342")
		}
		messages[i], err = wire.AppendECM(nil, source, netip.AddrPortFrom(eid.EID().Addr(), 4342), inner)
		if err != nil {
			b.Fatal(err)
		}
	}
	local := netip.MustParseAddrPort("172.29.0.1:4342")
	now := epoch
	var keep []Received
	rooms := make([]Scratch, 32)
	b.ReportAllocs()
	runtime.GC()
	before := threadsTime()
	i := 0
	for b.Loop() {
		now = now.Add(5 * time.Microsecond)
		group := i / 32
		from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 31, byte(group >> 8), byte(group)}), 4342)
		r, _ := InspectIn(&rooms[len(keep)], n.keyring, local, from, messages[i])
		keep = append(keep, r)
		if len(keep) == 32 {
			for _, r := range keep {
				n.HandleReceived(now, r)
				drain(n)
			}
			keep = keep[:0]
		}
		i = (i + 1) & (1<<16 - 1)
	}
	b.ReportMetric(float64((threadsTime()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// threadsTime is the processor time of the process: on a machine that others use too, it says more.
func threadsTime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &now)
	return time.Duration(now.Nano())
}

func BenchmarkMillionProxied(b *testing.B)   { benchmarkMillion(b, true) }
func BenchmarkMillionForwarded(b *testing.B) { benchmarkMillion(b, false) }

// BenchmarkMillionReplay takes over a journal that says everything twice, as one does before its next checkpoint.
func BenchmarkMillionReplay(b *testing.B) {
	const count = 1_000_000
	cfg := mapServerConfig("10.0.0.0/8", "2001:db8:1000::/36")
	cfg.MapServer.Sites[0].Prefixes = append(cfg.MapServer.Sites[0].Prefixes, cfg.MapServer.Sites[1].Prefixes...)
	cfg.MapServer.Sites = cfg.MapServer.Sites[:1]
	cfg.MapServer.Journal = true
	fresh := func() *Node {
		n, err := New(cfg, epoch, testRandom(1))
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	n := fresh()
	var pieces [][]byte
	for round := range 2 {
		for i := 0; i < count; i += 20 {
			_, x := benchMapping(i, count)
			rloc := netip.AddrFrom4([4]byte{172, 30, byte(x >> 8), byte(x)})
			m := &message.MapRegister{Arrival: message.Arrival{From: netip.AddrPortFrom(rloc, 4342)}, Site: cfg.MapServer.Sites[0].Name}
			m.MapRegister = &wire.MapRegister{Nonce: uint64(round*count + i + 1), KeyID: 1, AlgorithmID: 3, XTRIDPresent: true, XTRID: [16]byte{byte(x >> 8), byte(x)}, Authentication: make([]byte, 32)}
			set := locators(rloc.String(), "2001:db8::1")
			for k := range 20 {
				p, _ := benchMapping(i+k, count)
				m.Mappings = append(m.Mappings, lisp.Mapping{Prefix: p, TTLMinutes: 1440, Locators: set})
			}
			n.mapServer.HandleMapRegister(m)
			for e, ok := n.Poll(); ok; e, ok = n.Poll() {
				if j, ok := e.(Journal); ok {
					pieces = append(pieces, j.Octets)
				}
			}
		}
	}
	n = nil
	runtime.GC()
	for b.Loop() {
		n := fresh()
		before := threadsTime()
		for _, p := range pieces {
			if err := n.ReplayJournal(epoch, p); err != nil {
				b.Fatal(err)
			}
		}
		if got := n.Sizes().Registrations; got != count {
			b.Fatalf("%d registrations", got)
		}
		b.ReportMetric(float64((threadsTime()-before).Nanoseconds())/2/count, "cpu-ns/record")
	}
}
