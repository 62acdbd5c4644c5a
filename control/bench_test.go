// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"testing"
	"time"

	"loci/lisp"
	"loci/wire"
)

// loadedMapServer has registrations of 65536 prefixes, by records a message.
func loadedMapServer(b *testing.B, proxy bool, records int) *Node {
	b.Helper()
	cfg := mapServerConfig("10.0.0.0/8")
	cfg.Limits = Limits{MapRepliesTotal: Rate{PerSecond: 1e9, Burst: 1_000_000}, MapReplies: Rate{PerSecond: 1e6, Burst: 1000}}
	n, err := New(cfg, epoch, testRandom(1))
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < 65536; i += records {
		n.HandlePacket(epoch, netip.MustParseAddrPort("192.0.2.100:4342"), netip.MustParseAddrPort("192.0.2.1:4342"), registerFrom(b, i, records, uint64(i)+1, proxy))
		drain(n)
	}
	if n.Sizes().Registrations != 65536 {
		b.Fatalf("%d registrations", n.Sizes().Registrations)
	}
	return n
}

func registerFrom(b *testing.B, first, records int, nonce uint64, proxy bool) []byte {
	b.Helper()
	m := wire.MapRegister{ProxyReply: proxy, WantMapNotify: true, XTRIDPresent: true, Nonce: nonce, KeyID: 1, AlgorithmID: 3, Authentication: make([]byte, 32)}
	for i := first; i < first+records; i++ {
		p, _ := lisp.PrefixFrom(0, lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i)})), 24)
		m.Records = append(m.Records, wire.RecordOf(lisp.Mapping{Prefix: p, TTLMinutes: 10, Locators: locators("192.0.2.1", "192.0.2.2")}))
	}
	out, err := wire.AppendSigned(nil, &m, secret(1).Secret)
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func drain(n *Node) {
	for {
		if _, ok := n.Poll(); !ok {
			return
		}
	}
}

func benchmarkMapRequest(b *testing.B, proxy bool) {
	n := loadedMapServer(b, proxy, 16)
	p := lisp.MustParsePrefix("10.77.88.9/32")
	request := wire.MapRequest{Nonce: 1, ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 9}}, Records: []wire.RequestRecord{{EID: wire.AddressOf(p), MaskLen: 32}}}
	inner, _ := request.AppendTo(nil)
	itr := netip.MustParseAddrPort("192.0.2.9:4342")
	ecm, _ := wire.AppendECM(nil, itr, itr, inner)
	local := netip.MustParseAddrPort("192.0.2.100:4342")
	now := epoch
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		n.HandlePacket(now, local, itr, ecm)
		drain(n)
	}
}

func BenchmarkMapRequestProxied(b *testing.B)   { benchmarkMapRequest(b, true) }
func BenchmarkMapRequestForwarded(b *testing.B) { benchmarkMapRequest(b, false) }

func BenchmarkMapRegister20Records(b *testing.B) {
	n := loadedMapServer(b, true, 16)
	local, from := netip.MustParseAddrPort("192.0.2.100:4342"), netip.MustParseAddrPort("192.0.2.1:4342")
	var messages [][]byte
	for i := range 64 {
		messages = append(messages, registerFrom(b, 20*i, 20, uint64(1_000_000+i), true))
	}
	for i := 0; b.Loop(); i++ {
		message := messages[i%64]
		for j := range 8 { // the next nonce; only authentication differs
			message[4+j] = byte(uint64(2_000_000+i) >> (56 - 8*j))
		}
		_ = wire.Sign(message, secret(1).Secret)
		n.HandlePacket(epoch, local, from, message)
		drain(n)
	}
	b.ReportMetric(float64(b.N)*20/b.Elapsed().Seconds(), "records/s")
}
