// SPDX-License-Identifier: Apache-2.0

package control

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// Nothing of a Map-Request is left in its scratch for the next one.
func TestInspectInRoom(t *testing.T) {
	cfg := mapServerConfig("10.0.0.0/8", "2001:db8:1000::/36")
	n, err := New(cfg, epoch, testRandom(1))
	if err != nil {
		t.Fatal(err)
	}
	itr := wire.IPv4([4]byte{192, 0, 2, 1})
	record := wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix("10.9.0.0/24"), TTLMinutes: 1, Locators: locators("192.0.2.1")})
	asked := func(p string) wire.RequestRecord {
		prefix := lisp.MustParsePrefix(p)
		return wire.RequestRecord{EID: wire.AddressOf(prefix), MaskLen: uint8(prefix.Bits())}
	}
	requests := []wire.MapRequest{
		{Nonce: 1, MapDataPresent: true, MapReplyRecord: &record, SourceEID: record.EID, XTRIDPresent: true, SiteID: 7,
			ITRRLOCs: []wire.Address{itr, wire.IPv4([4]byte{192, 0, 2, 2}), itr}, Records: []wire.RequestRecord{asked("10.1.0.1/32"), asked("10.2.0.0/16")}},
		{Nonce: 2, ITRRLOCs: []wire.Address{itr}, Records: []wire.RequestRecord{asked("10.1.0.1/32")}},
		{Nonce: 3, ITRRLOCs: []wire.Address{itr}, Records: []wire.RequestRecord{asked("2001:db8:1000::1/128")}},
	}
	from, local := netip.MustParseAddrPort("192.0.2.1:4342"), netip.MustParseAddrPort("198.51.100.1:4342")
	var scratch Scratch
	for i := range requests {
		inner, err := requests[i].AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		message, err := wire.AppendECM(nil, from, netip.MustParseAddrPort("10.1.0.1:4342"), inner)
		if err != nil {
			t.Fatal(err)
		}
		alone, roomed := inspectTwice(t, &scratch, n.Keyring(), local, from, message)
		if !reflect.DeepEqual(alone.Message, roomed.Message) {
			t.Errorf("Map-Request %d in a scratch is %+v, else %+v", i, roomed.Message, alone.Message)
		}
		if roomed.Message != any(&scratch.Request) {
			t.Errorf("Map-Request %d is not in its scratch", i)
		}
	}
}

// Nor is anything of other messages, whatever was in the scratch before.
func TestInspectOthersInRoom(t *testing.T) {
	cfg := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16")
	cfg.MapServer = mapServerConfig("10.0.0.0/8").MapServer
	n, err := New(cfg, epoch, testRandom(1))
	if err != nil {
		t.Fatal(err)
	}
	from, local := netip.MustParseAddrPort("192.0.2.1:4342"), netip.MustParseAddrPort("198.51.100.1:4342")
	var scratch Scratch
	for i, prefixes := range [][]string{{"10.9.0.0/24"}, {"10.9.1.0/24", "10.9.2.0/24", "10.9.3.0/24"}, {"10.9.4.0/24"}} {
		reply := wire.MapReply{Nonce: uint64(i), Probe: i == 0, EchoNonce: i == 0}
		for _, p := range prefixes[i%2:] {
			reply.Records = append(reply.Records, wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix(p), TTLMinutes: 1, Locators: locators("192.0.2.1")}))
		}
		b, err := reply.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range [][]byte{b, register(t, func(m *wire.MapRegister) { m.Nonce += uint64(i) }, prefixes...)} {
			alone, roomed := inspectTwice(t, &scratch, n.Keyring(), local, from, message)
			if !reflect.DeepEqual(alone.Message, roomed.Message) {
				t.Errorf("in a scratch it is %+v, else %+v", roomed.Message, alone.Message)
			}
		}
	}
}

// TestInspectLeavesASharedMessageAsItIs: who parsed a message may hand it to others. Where the records alone are
// authenticated, what is not is left out of a copy.
func TestInspectLeavesASharedMessageAsItIs(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	for _, coverage := range []wire.Coverage{wire.CoverMessage, wire.CoverRecords} {
		b := register(t, func(m *wire.MapRegister) { m.Nonce += uint64(coverage) }, "10.1.2.0/24", "10.1.3.0/24")
		if err := wire.SignOver(b, secret(1).Secret, coverage); err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(b)
		shared, err := wire.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		asParsed, err := wire.Parse(before)
		if err != nil {
			t.Fatal(err)
		}
		accepted := ms.counter(counter.RegistrationAccepted)
		ms.HandleParsed(n.now, netip.MustParseAddrPort("192.0.2.100:4342"), netip.MustParseAddrPort("192.0.2.1:4342"), b, shared)
		if ms.counter(counter.RegistrationAccepted) != accepted+2 {
			t.Fatalf("coverage %d: the Map-Register was not taken", coverage)
		}
		if !reflect.DeepEqual(shared, asParsed) {
			t.Errorf("coverage %d: the message is now %+v, it was %+v", coverage, shared, asParsed)
		}
		if !slices.Equal(b, before) {
			t.Errorf("coverage %d: the octets were changed", coverage)
		}
	}
}

// inspectTwice inspects a message by itself, and in a scratch.
func inspectTwice(t *testing.T, scratch *Scratch, keys *Keyring, local, from netip.AddrPort, message []byte) (alone, roomed Received) {
	t.Helper()
	alone, refused := Inspect(keys, local, from, message)
	if refused != nil {
		t.Fatal(refused)
	}
	if roomed, refused = InspectIn(scratch, keys, local, from, message); refused != nil {
		t.Fatal(refused)
	}
	return alone, roomed
}
