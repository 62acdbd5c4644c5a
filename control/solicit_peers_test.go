// SPDX-License-Identifier: Apache-2.0

package control

// SMRs between implementations that read RFC 9301 s.6.1 differently.

import (
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/mapcache"
	"loci/control/internal/solicit"
	"loci/lisp"
	"loci/wire"
)

// smrsTo are the SMRs that a node sent to an address.
func (d *testNode) smrsTo(address string) (smrs []*wire.MapRequest) {
	for _, p := range d.sent {
		m, _ := wire.Parse(p.Payload)
		if r, ok := m.(*wire.MapRequest); ok && r.SMR && p.Remote.Addr().String() == address {
			smrs = append(smrs, r)
		}
	}
	return smrs
}

// TestSMRNamesThePrefixOfItsReceiver: Cisco's routers and OpenOverlayRouter look for an EID-Prefix of their own in the record, and
// for what changed in the Source EID. Each message has one record. Shows RFC 9301 s.5.2 (8).
func TestSMRNamesThePrefixOfItsReceiver(t *testing.T) {
	for _, c := range []struct {
		name          string
		source, other string
		send          bool // we sent packets too, so that our map-cache knows its EID-Prefix
		changed, site string
	}{
		{"from our map-cache", "10.1.0.5", "10.2.0.9", true, "10.2.0.0/16", "10.1.0.0/16"},
		{"from our map-cache, IPv6", "2001:db8:1::5", "2001:db8:2::9", true, "2001:db8:2::/48", "2001:db8:1::/48"},
		{"from what it asked", "10.1.0.5", "10.2.0.9", false, "10.2.0.0/16", "10.1.0.5/32"},
		{"from what it asked, IPv6", "2001:db8:1::5", "2001:db8:2::9", false, "2001:db8:2::/48", "2001:db8:1::5/128"},
	} {
		n, x1, x2, _ := twoSites(t)
		n.run(time.Second)
		x1.miss(c.source, c.other)
		n.run(time.Second)
		if c.send {
			x2.miss(c.other, c.source)
			n.run(time.Second)
		}
		n.lose = func(from *testNode, p SendPacket) bool { return from == x2 && p.Payload[0]>>4 == 1 } // x1 gets no SMR, so x2 sees no Map-Request from it
		x2.addrs = append(x2.addrs, netip.MustParseAddr("198.51.100.2"))
		x2.configure(withDatabase(x2.config, "198.51.100.2"))
		n.run(time.Minute)
		about := map[lisp.Prefix]map[uint64]bool{}
		for _, smr := range x2.smrsTo("192.0.2.1") {
			p, err := smr.Records[0].Prefix()
			if len(smr.Records) != 1 || err != nil {
				t.Fatalf("%s: %d records, %v: a sender must send one (RFC 9301 s.5.2)", c.name, len(smr.Records), err)
			}
			if _, source, err := wire.EIDOf(smr.SourceEID); err != nil || !smr.DontReply || p.String() == c.site && !lisp.MustParsePrefix(c.changed).Contains(0, source) {
				t.Errorf("%s: the SMR that names %s is from %s", c.name, p, smr.SourceEID)
			}
			if about[p] == nil {
				about[p] = map[uint64]bool{}
			}
			about[p][smr.Nonce] = true
		}
		changed, site := about[lisp.MustParsePrefix(c.changed)], about[lisp.MustParsePrefix(c.site)]
		if len(changed) != solicit.SMRTries || len(site) != solicit.SMRTries {
			t.Errorf("%s: %d SMRs name what changed, %d the receiver's EID-Prefix: want %d of each; all: %v", c.name, len(changed), len(site), solicit.SMRTries, about)
		}
		for nonce := range site {
			if !changed[nonce] {
				t.Errorf("%s: the two messages of an SMR have different nonces", c.name)
			}
		}
	}
}

// TestBothMessagesOfAnSMRCountOnce, at the sender and at the receiver.
func TestBothMessagesOfAnSMRCountOnce(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	x2.miss("10.2.0.9", "10.1.0.5")
	n.run(time.Second)
	x2.configure(withDatabase(x2.config, "192.0.2.2"))
	n.run(10 * time.Second)
	x1.wantCached("10.2.0.0/16", "192.0.2.2")
	x1.wantCounter(counter.SMRInvokedMapRequestSent, 1)
	x1.wantCounter(counter.RefusedSMRLimit, 0)
	x1.wantCounter(counter.RefusedSMRWithoutMapping, solicit.SMRTries) // the IPv6 EID-Prefix, of which it has no mapping
	x1.wantCounter(counter.SMRReceived, 1+solicit.SMRTries)
	x2.wantCounter(counter.SMRSent, 1+solicit.SMRTries)
	if got := smrsOf(x2.sent); got[lisp.MustParsePrefix("10.2.0.0/16")] != 1 || got[lisp.MustParsePrefix("10.1.0.0/16")] != 1 {
		t.Errorf("SMRs by record: %v", got)
	}
}

// TestSMRWithoutAKnownReceiverIsOneMessage: of a site that holds our mapping and never asked us, nothing is known.
func TestSMRWithoutAKnownReceiverIsOneMessage(t *testing.T) {
	n, site, peers := manyAskers(t, 1)
	site.configure(withVersion(site.config, 6, "192.0.2.3"))
	n.run(time.Minute)
	if got := len(site.smrsTo(peers[0].String())); got != 3*solicit.SMRTries {
		t.Errorf("%d messages, want %d", got, 3*solicit.SMRTries)
	}
}

// anSMR is a Solicit-Map-Request about a record, from an EID, with changes.
func anSMR(t *testing.T, source wire.Address, record string, change func(*wire.MapRequest)) []byte {
	t.Helper()
	p := lisp.MustParsePrefix(record)
	m := wire.MapRequest{SMR: true, Nonce: 9, SourceEID: source, ITRRLOCs: []wire.Address{wire.IPv4{192, 0, 2, 2}},
		Records: []wire.RequestRecord{{MaskLen: uint8(p.Bits()), EID: wire.AddressOf(p)}}}
	if change != nil {
		change(&m)
	}
	b, err := m.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSMRNamesWhatChangedInEitherPlace: an unknown EID in one place does not stop the other from counting.
func TestSMRNamesWhatChangedInEitherPlace(t *testing.T) {
	theirs := wire.IPv4{10, 2, 0, 9}
	for _, c := range []struct {
		name   string
		source wire.Address
		record string
		asks   uint64
	}{
		{"RFC 9301: the record", theirs, "10.2.0.0/16", 1},
		{"the record alone", nil, "10.2.0.0/16", 1},
		{"RFC 6830, Cisco: the source, our EID-Prefix in the record", theirs, "10.1.0.0/16", 1},
		{"the source, in the record an unknown EID-Prefix", theirs, "10.9.0.0/16", 1},
		{"both, of different sites", theirs, "10.3.0.0/16", 2},
		{"the source is unknown", wire.IPv4{10, 9, 0, 1}, "10.2.0.0/16", 1},
		{"neither is known", wire.IPv4{10, 9, 0, 1}, "10.9.0.0/16", 0},
		{"our own EIDs", wire.IPv4{10, 1, 0, 9}, "10.1.0.0/16", 0},
	} {
		n, x1, _, _ := twoSites(t)
		x1.itr.Cache.Install(mapcache.Entry{Mapping: positive("10.2.0.0/16", 10), ExpiresAt: x1.host.After(time.Hour)})
		x1.itr.Cache.Install(mapcache.Entry{Mapping: positive("10.3.0.0/16", 10), ExpiresAt: x1.host.After(time.Hour)})
		x1.inject("192.0.2.1:4342", "192.0.2.2:4342", anSMR(t, c.source, c.record, nil))
		n.run(500 * time.Millisecond)
		x1.wantCounter(counter.SMRInvokedMapRequestSent, c.asks)
		want := uint64(1)
		if c.asks > 0 {
			want = 0
		}
		if got := x1.counter(counter.RefusedSMRWithoutMapping); got != want {
			t.Errorf("%s: %d refused as without mapping, want %d", c.name, got, want)
		}
		if t.Failed() {
			t.Fatal(c.name)
		}
	}
}

// TestSMRThatIsAProbeIsAnsweredToo, unless it wants no answer: Cisco's routers set both bits.
func TestSMRThatIsAProbeIsAnsweredToo(t *testing.T) {
	for _, c := range []struct {
		name    string
		from    string
		change  func(*wire.MapRequest)
		answers uint64
	}{
		{"P", "192.0.2.2:4342", func(m *wire.MapRequest) { m.Probe = true }, 1},
		{"P and D", "192.0.2.2:4342", func(m *wire.MapRequest) { m.Probe, m.DontReply = true, true }, 0},
		{"no P", "192.0.2.2:4342", nil, 0},
		{"P from port 0", "192.0.2.2:0", func(m *wire.MapRequest) { m.Probe = true }, 0},
		{"P without an ITR-RLOC", "192.0.2.2:4342", func(m *wire.MapRequest) { m.Probe, m.ITRRLOCs = true, []wire.Address{wire.NoAddress{}} }, 0},
	} {
		_, x1, _, _ := twoSites(t)
		x1.itr.Cache.Install(mapcache.Entry{Mapping: positive("10.2.0.0/16", 10), ExpiresAt: x1.host.After(time.Hour)})
		x1.inject("192.0.2.1:4342", c.from, anSMR(t, wire.IPv4{10, 2, 0, 9}, "10.1.0.0/16", c.change))
		x1.wantCounter(counter.SMRInvokedMapRequestSent, 1)
		if got := x1.counter(counter.RLOCProbeReplySent); got != c.answers {
			t.Errorf("%s: %d answers, want %d", c.name, got, c.answers)
		}
	}
}

// TestCiscoSMRs are frames 2 and 3 of testdata/vectors/cisco.pcap: the site of 172.16.31.3 tells two others, each by their EID-Prefix.
func TestCiscoSMRs(t *testing.T) {
	for _, c := range []struct{ octets, own, at string }{
		{"13000001ae92b5574f849cd00001ac101f0300015cfe1cbd00200001ac101f01", "172.16.31.1/32", "212.26.197.3"},
		{"13000001ec053532434504010001ac101f0300015cfe1cbd00180001ac102b00", "172.16.43.0/24", "85.184.2.130"},
	} {
		n := newNetwork(t)
		x := n.add("x", xtrConfig(1, "212.19.216.20", []string{c.at}, c.own), c.at)
		x.itr.Cache.Install(mapcache.Entry{Mapping: positive("172.16.31.3/32", 10), ExpiresAt: x.host.After(time.Hour)})
		message, err := hex.DecodeString(c.octets)
		if err != nil {
			t.Fatal(err)
		}
		x.inject(c.at+":4342", "92.254.28.189:4342", message)
		x.wantCounter(counter.SMRInvokedMapRequestSent, 1)
		x.wantCounter(counter.RLOCProbeReplySent, 1)
		asked := sentMessages[*wire.MapRequest](x)[0]
		if p, err := asked.Records[0].Prefix(); err != nil || p.String() != "172.16.31.3/32" {
			t.Errorf("SMR to %s: asked for %s, %v", c.at, p, err)
		}
	}
}
