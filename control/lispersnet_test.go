// SPDX-License-Identifier: Apache-2.0

package control

// Messages of lispers.net as captured (testdata/vectors/lispers-net.pcap), with the configuration of docs/interoperability.md.

import (
	"encoding/hex"
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
