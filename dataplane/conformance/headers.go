// SPDX-License-Identifier: Apache-2.0

package conformance

// What data headers tell and what is believed of them (RFC 9300 s.4.1, s.10, RFC 9302
// s.7). Every bit of them is in the golden packets; here they go through settings,
// tables and events.

import (
	"net/netip"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// headers puts settings of headers in force, and tables with versions.
func (b *bench) headers(h dataplane.HeaderSettings) {
	b.Helper()
	b.settings(func(s *dataplane.Settings) { s.Header = h })
	if got := b.plane.Settings().Header; got != h {
		b.Fatalf("settings of headers read back as %+v, want %+v", got, h)
	}
	site := b.database(siteDatabase4)
	site.Entry.Version = 0x123
	site.Entry.Locators[1].Reachable = false
	remote := b.to("10.2.0.0/24", PeerRLOCs[0].String())
	remote.Entry.Mapping.Version, remote.Entry.Mapping.EchoNonce = 0x456, true
	b.apply(site, remote)
	entry, _ := b.plane.Mapping(remote.Entry.Mapping.Prefix)
	if entry.Mapping.Version != 0x456 || !entry.Mapping.EchoNonce {
		b.Errorf("read back as %+v", entry.Mapping)
	}
}

// sentHeader sends a packet to 10.2.0.1 and returns its LISP header.
func (b *bench) sentHeader() [8]byte {
	b.Helper()
	b.send(from4("10.2.0.1"))
	return b.receive().header
}

func (b *bench) sendWith(header [8]byte) {
	b.SendFromCore(b, fromPeerWith(PeerRLOCs[0], header, toHost(SiteHosts[0]).bytes()))
}

func headersTell(b *bench) {
	b.headers(dataplane.HeaderSettings{StatusBits: true, MapVersions: true})
	if got, want := b.sentHeader(), ([8]byte{0x50, 0x12, 0x34, 0x56, 0, 0, 0, 1}); got != want {
		b.Errorf("header %x, want %x", got, want)
	}
}

func headersOnThePublicInternet(b *bench) {
	b.headers(dataplane.HeaderSettings{PublicInternet: true, StatusBits: true, MapVersions: true, EchoNonce: true})
	if got := b.sentHeader(); got != [8]byte{} {
		b.Errorf("header %x, want zeros", got)
	}
	b.sendWith([8]byte{0x10, 0x45, 0x6F, 0xFF}) // a version that we never had
	b.receiveAtSite()
}

func headersAreHeeded(b *bench) {
	b.headers(dataplane.HeaderSettings{StatusBits: true, MapVersions: true})
	b.sendWith([8]byte{0x10, 0x45, 0x6F, 0xFF}) // 0xFFF is before 0x123
	b.receiveAtSite()
	versions := dataplane.PacketVersions{
		Source: lisp.EIDFromAddr(netip.MustParseAddr("10.2.0.1")), Destination: lisp.EIDFromAddr(SiteHosts[0]),
		From: lisp.RLOCFromAddr(PeerRLOCs[0]), SourceVersion: 0x456, DestinationVersion: 0xFFF,
	}
	b.expectEvent(dataplane.RemoteVersionStale{PacketVersions: versions})
	b.sendWith([8]byte{0x10, 0x45, 0x71, 0x23})
	b.receiveAtSite()
	versions.SourceVersion, versions.DestinationVersion = 0x457, 0x123
	b.expectEvent(dataplane.LocalVersionStale{PacketVersions: versions})
	b.sendWith([8]byte{0x10, 0x45, 0x61, 0x24})
	b.eventuallyDropped("destination-version", 1)
	b.sendWith([8]byte{0x10, 0x45, 0x51, 0x23})
	b.eventuallyDropped("source-version", 1)
	b.sendWith([8]byte{0xC0, 1, 2, 3, 0, 0, 0, 0})
	b.receiveAtSite()
	b.expectEvent(dataplane.StatusBitsChanged{
		Prefix: lisp.MustParsePrefix("10.2.0.0/24"), From: lisp.RLOCFromAddr(PeerRLOCs[0]), Bits: 0, Count: 32,
	})
}

// statusBitsPause: bits are not told for a while when RLOCs come or go, and told at once
// when only their state changes (RFC 9300 s.13.1).
func statusBitsPause(b *bench) {
	b.headers(dataplane.HeaderSettings{StatusBits: true})
	tells := func(when string, want [2]byte) {
		b.Helper()
		if got := b.sentHeader(); [2]byte{got[0] & 0x40, got[7]} != want {
			b.Errorf("%s: header %x, want L and bits %x", when, got, want)
		}
	}
	tells("at first", [2]byte{0x40, 1})
	b.apply(b.database(siteDatabase4))
	tells("a locator came up", [2]byte{0x40, 3})
	site := b.database(siteDatabase4)
	site.Entry.Locators = site.Entry.Locators[:1]
	b.apply(site)
	tells("a locator is gone", [2]byte{0, 0})
	b.apply(site)
	tells("the same again", [2]byte{0, 0})
	b.Pass(dataplane.StatusBitsPause)
	tells("after the pause", [2]byte{0x40, 1})
}

// statusBitsOfAnotherSet: what bits mean, and what the readers made of them, goes with their locator-set. So the first bits
// after it are told whatever they are; those of a mapping that was gone, when they differ from its R bits.
func statusBitsOfAnotherSet(b *bench) {
	b.headers(dataplane.HeaderSettings{StatusBits: true})
	told := func(bits byte) {
		b.Helper()
		b.sendWith([8]byte{0x40, 0, 0, 0, 0, 0, 0, bits})
		b.receiveAtSite()
		b.expectEvent(dataplane.StatusBitsChanged{
			Prefix: lisp.MustParsePrefix("10.2.0.0/24"), From: lisp.RLOCFromAddr(PeerRLOCs[0]), Bits: uint32(bits), Count: 32,
		})
	}
	told(0)
	one := b.to("10.2.0.0/24", PeerRLOCs[0].String())
	b.apply(one)              // another version of the same set
	b.sendWith([8]byte{0x40}) // tells nothing: what is told next is what comes next
	b.receiveAtSite()
	first, second := PeerRLOCs[0].String(), PeerRLOCs[1].String()
	b.apply(b.mapping("10.2.0.0/24", locator(first, 1, 1), locator(second, 1, 1)))
	told(2)
	b.apply(b.mapping("10.2.0.0/24", locator(first, 1, 1), locator(second, 1, 9)))
	told(2)
	b.apply(one)
	told(1)
	b.Pass(dataplane.HintInterval)
	told(0)
	b.apply(remove("10.2.0.0/24"), one)
	told(0)
}

func echoNonce(b *bench) {
	b.headers(dataplane.HeaderSettings{EchoNonce: true, EchoWait: 1})
	first := b.sentHeader()
	if first[0] != 0xA0 || b.sentHeader() != first {
		b.Errorf("header %x, want N and E, and the same again", first)
	}
	b.Pass(time.Millisecond)
	b.sendWith([8]byte{0x80, first[1] ^ 1, first[2], first[3]})
	b.receiveAtSite()
	sent := uint32(first[1])<<16 | uint32(first[2])<<8 | uint32(first[3])
	b.expectEvent(dataplane.NonceMismatch{RLOC: lisp.RLOCFromAddr(PeerRLOCs[0]), Sent: sent, Received: sent ^ 1<<16})
	b.expectInsistenceNoticed()
	var second [8]byte
	b.eventually("a new request", func() bool { second = b.sentHeader(); return second[0] == 0xA0 })
	second[0] = 0x80
	b.sendWith(second)
	b.receiveAtSite()
	b.eventually("the echo", func() bool { return b.sentHeader()[0] == 0x80 })
	b.sendWith([8]byte{0xA0, 7, 8, 9})
	b.receiveAtSite()
	if got := b.sentHeader(); got != [8]byte{0x80, 7, 8, 9} {
		b.Errorf("header %x, want the echo", got)
	}
	b.expectEchoTimes()
}

// expectEchoTimes demands the times of what echoNonce did.
func (b *bench) expectEchoTimes() {
	b.Helper()
	reporter, ok := b.plane.(dataplane.EchoReporter)
	if !ok {
		b.Logf("%T does not report Echo-Nonce", b.plane)
		return
	}
	s := reporter.EchoNonce(lisp.RLOCFromAddr(PeerRLOCs[0]))
	if s.AskedAt.IsZero() || s.MissingAt.IsZero() || !s.EchoedAt.After(s.MissingAt) || s.Fails() {
		b.Errorf("%+v, want an echo that came after one that was missing", s)
	}
	if other := reporter.EchoNonce(lisp.RLOCFromAddr(PeerRLOCs[1])); other != (dataplane.EchoState{}) {
		b.Errorf("%+v of an RLOC that was never asked", other)
	}
}

// expectInsistenceNoticed demands that the echo is missed of one who asks with every packet himself, because nothing that
// is sent to him arrives (RFC 9300 s.10.1).
func (b *bench) expectInsistenceNoticed() {
	b.Helper()
	b.drainEvents()
	b.eventually("another echo missing", func() bool {
		b.sendWith([8]byte{0xA0, 7, 8, 10})
		b.receiveAtSite()
		b.sentHeader()
		b.Pass(time.Millisecond)
		for len(b.plane.Events()) > 0 {
			if _, missing := (<-b.plane.Events()).(dataplane.NonceMismatch); missing {
				return true
			}
		}
		return false
	})
}

func sourceCheck(b *bench) {
	b.headers(dataplane.HeaderSettings{SourceCheck: dataplane.SourceLoose})
	send := func(peer netip.Addr, source string) {
		p := toHost(SiteHosts[0])
		p.from = netip.MustParseAddr(source)
		b.SendFromCore(b, fromPeer(peer, 0, p.bytes()))
	}
	send(PeerRLOCs[0], "10.2.0.1")
	b.receiveAtSite()
	send(PeerRLOCs[2], "10.2.0.1")
	b.eventuallyDropped("source-rloc", 1)
	send(PeerRLOCs[2], "10.9.0.1")
	b.receiveAtSite()
	b.settings(func(s *dataplane.Settings) { s.Header.SourceCheck = dataplane.SourceStrict })
	send(PeerRLOCs[2], "10.9.0.1")
	b.eventuallyDropped("source-rloc", 2)
	b.expectMiss("10.9.0.1")
}

// gleaning tells by which RLOC an inner source without mapping sends, once a second, and
// nothing where it is off or a mapping is there.
func gleaning(b *bench) {
	b.headers(dataplane.HeaderSettings{Glean: true})
	from := func(peer netip.Addr, source string) dataplane.Gleaned {
		b.Helper()
		p := toHost(SiteHosts[0])
		p.from = netip.MustParseAddr(source)
		b.SendFromCore(b, fromPeer(peer, 0, p.bytes()))
		b.receiveAtSite()
		return dataplane.Gleaned{Source: lisp.EIDFromAddr(p.from), Destination: lisp.EIDFromAddr(SiteHosts[0]), From: lisp.RLOCFromAddr(peer)}
	}
	b.settings(func(s *dataplane.Settings) { s.Header.Glean = false })
	from(PeerRLOCs[1], "10.9.0.1")
	b.settings(func(s *dataplane.Settings) { s.Header.Glean = true })
	from(PeerRLOCs[0], "10.2.0.1") // has a mapping
	b.expectEvent(from(PeerRLOCs[2], "10.9.0.1"))
	from(PeerRLOCs[1], "10.9.0.1") // within the second
	b.expectEvent(from(PeerRLOCs[1], "10.9.0.2"))
	b.settings(func(s *dataplane.Settings) { s.Header.PublicInternet = true })
	from(PeerRLOCs[1], "10.9.0.3")
	b.settings(func(s *dataplane.Settings) { s.Header.PublicInternet = false })
	b.expectEvent(from(PeerRLOCs[0], "10.9.0.4"))
}
