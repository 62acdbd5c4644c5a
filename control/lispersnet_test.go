// SPDX-License-Identifier: Apache-2.0

package control

// Messages of lispers.net as captured (testdata/vectors/lispers-net.pcap), with the configuration of docs/interoperability.md.

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/lisp"
	"loci/wire"
)

// Frames 1, 3, 7 and 10.
const (
	lispersMapRegister  = "3200090101dfdfdfddccbbaa000200203c5665a41d161014ea4b468e89f096d610f4cc1ce34899445b1659336a6973ed000000030118100000000001ac1f01000164ff000005400300000100000b00010a6300020011766d0000000000000000000f2f8a5df18acf980000000000000000"
	lispersMapNotifyAck = "5000000001dfdfdfddccbbaa0002002031de8e77f0fe9a4e4600bc322158d2aabf412b5c97c0693c154a04056fab7fa300000000000000000f2f8a5df18acf980000000000000000"
	lispersMapRequest   = "800000004500004e000000008011df5eac1f0101ac1f0201f78010f6003a0000100001019b366644c74576b10001ac1f010100010a6300020002fd99000000000000000000000000000200200001ac1f0201"
	lispersRLOCProbe    = "12000001dfda3321b60a92e50001ac1f020000010a63000200000000"
)

func octetsOf(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLispersNet is its xTR 10.99.0.2 beside our Map-Server and our xTR.
func TestLispersNet(t *testing.T) {
	key := Key{ID: 0, Algorithm: wire.AlgorithmHMACSHA256, Secret: []byte("abcd")}
	n := newNetwork(t)
	c := mapServerConfig("172.31.1.0/24", "172.31.2.0/24")
	c.AcceptZeroInnerChecksum = true
	c.MapServer.Sites[0].Keys, c.MapServer.Sites[0].AcceptAnyNonce = []Key{key}, true
	ms := n.add("ms", c, "10.99.0.1")
	xtr := xtrConfig(3, "10.99.0.1", []string{"10.99.0.3"}, "172.31.2.0/24")
	xtr.AcceptZeroInnerChecksum = true
	x := n.add("x", xtr, "10.99.0.3")
	n.run(time.Second)
	for range 2 { // its nonces do not grow
		ms.inject("10.99.0.1:4342", "10.99.0.2:42127", octetsOf(t, lispersMapRegister))
		ms.inject("10.99.0.1:4342", "10.99.0.2:42127", octetsOf(t, lispersMapNotifyAck))
		n.run(time.Minute)
	}
	ms.wantCounter(counter.RefusedNoRecord, 0)
	ms.wantCounter(counter.RefusedNotifyAck, 2) // of Map-Notifies that answer a Map-Register: the Map-Server does not wait for them
	ms.inject("10.99.0.1:4342", "10.99.0.2:57115", octetsOf(t, lispersMapRequest))
	n.run(time.Second)
	x.wantCounter(counter.MapReplySent, 1)
	x.inject("10.99.0.3:4342", "10.99.0.2:63360", octetsOf(t, lispersRLOCProbe))
	x.wantCounter(counter.RLOCProbeReplySent, 1)
	x.miss("172.31.2.9", "172.31.1.1")
	n.run(time.Second)
	ms.wantCounter(counter.MapRequestForwarded, 2)
	for _, node := range []*testNode{ms, x} {
		for _, notice := range node.notices {
			if notice.Kind == NoticeMessageRefused || notice.Kind == NoticeRegistrationRefused {
				t.Errorf("%s: %+v", node.name, notice)
			}
		}
	}
}

// TestPathsOfLispersNet: lispers.net registers a path in an AFI-List, behind AFI 0 or the xTR's address. Our Map-Server answers with
// it and our ITR follows it; where two paths contradict each other the locator is left out, and said to be.
func TestPathsOfLispersNet(t *testing.T) {
	const path, otherPath = "4003 0000 0a00 0010 0000 0001 c000020b 0000 0001 c0000202", "4003 0000 0a00 0010 0000 0001 c000020c 0000 0001 c0000202"
	const etr6 = "0002 20010db8000f00000000000000000002"
	const path6 = "4003 0000 0a00 0028 0000 0002 20010db8000f0000000000000000000b 0000" + etr6
	const otherPath6 = "4003 0000 0a00 0028 0000 0002 20010db8000f0000000000000000000c 0000" + etr6
	for _, c := range []struct{ name, locator, want string }{
		{"none and path", "4003 0000 0100 001a 0000" + path, "192.0.2.11 -> 192.0.2.2"},
		{"address and path", "4003 0000 0100 001e 0001 c0000202" + path, "192.0.2.11 -> 192.0.2.2"},
		{"path and address", "4003 0000 0100 001e" + path + "0001 c0000202", "192.0.2.11 -> 192.0.2.2"},
		{"two paths", "4003 0000 0100 0030" + path + otherPath, ""},
		{"IPv6: none and path", "4003 0000 0100 0032 0000" + path6, "2001:db8:f::b -> 2001:db8:f::2"},
		{"IPv6: address and path", "4003 0000 0100 0042" + etr6 + path6, "2001:db8:f::b -> 2001:db8:f::2"},
		{"IPv6: path and address", "4003 0000 0100 0042" + path6 + etr6, "2001:db8:f::b -> 2001:db8:f::2"},
		{"IPv6: two paths", "4003 0000 0100 0060" + path6 + otherPath6, ""},
	} {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.1.0.0/16", "10.2.0.0/16"), "192.0.2.100")
		own := []string{"192.0.2.3", "2001:db8:f::3"}
		x := n.add("x", xtrConfig(3, "192.0.2.100", own, "10.2.0.0/24"), own...)
		ms.inject("192.0.2.100:4342", "192.0.2.2:4342", register(t, func(m *wire.MapRegister) {
			m.ProxyReply = true
			address := wire.LocatorAddress(&lisp.Locator{Address: string(unhex(t, c.locator))})
			m.Records[0].Locators = []wire.LocatorRecord{{Priority: 1, Weight: 100, Reachable: true, Address: address}}
		}, "10.1.0.0/24"))
		n.run(time.Second)
		x.miss("10.2.0.5", "10.1.0.5")
		n.run(time.Second)
		e := x.Explain(0, eid("10.1.0.5"))
		if c.want == "" {
			if len(e.Locators) != 0 || len(e.Skipped) != 1 || !strings.HasPrefix(e.Skipped[0].Reason, "2 Explicit Locator Paths") {
				t.Errorf("%s: locators %+v, skipped %+v", c.name, e.Locators, e.Skipped)
			}
			x.wantCounter(counter.LocatorSkipped, 1)
			continue
		}
		if len(e.Locators) != 1 || len(e.Skipped) != 0 {
			t.Errorf("%s: locators %+v, skipped %+v", c.name, e.Locators, e.Skipped)
		} else if got := e.Locators[0].Locator.Path().String(); got != c.want {
			t.Errorf("%s: packets take %s, want %s", c.name, got, c.want)
		}
		x.wantCounter(counter.LocatorSkipped, 0)
	}
}

// TestTTLInSeconds: lispers.net counts seconds where the top bit of a TTL is set. In minutes that would be 4,000 years.
func TestTTLInSeconds(t *testing.T) {
	_, x := loneITR(t, Limits{})
	x.itr.TakeRecord(positive("10.2.0.0/16", 1<<31|45), addrPort("192.0.2.100"), nil)
	x.drain()
	e := x.cache[lisp.MustParsePrefix("10.2.0.0/16")]
	if got := e.ExpiresAt.Sub(x.net.now); got != 45*time.Second {
		t.Errorf("a TTL of 45 seconds lasts %s", got)
	}
}
