// SPDX-License-Identifier: Apache-2.0

package main_test

// What `loci netcheck` warns of by checksum-offload is so: a host behind a virtual interface leaves checksums to a device that is not
// there, and the data plane in user space finishes them. The capture is a peer that decapsulates without the kernel's knowledge of the packet.

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/diagnosis"
	"loci/internal/testnet"
)

const lispPort, lispHeaderOctets = 4341, 8

// innerTCP finds the TCP segment of an encapsulated packet, and whether its checksum is right.
func innerTCP(frame []byte) (right, found bool) {
	outer := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.NoCopy)
	udp, ok := outer.TransportLayer().(*layers.UDP)
	if !ok || udp.DstPort != lispPort || len(udp.Payload) <= lispHeaderOctets {
		return false, false
	}
	inner := udp.Payload[lispHeaderOctets:]
	first := gopacket.Decoder(layers.LayerTypeIPv4)
	if inner[0]>>4 == 6 {
		first = layers.LayerTypeIPv6
	}
	packet := gopacket.NewPacket(inner, first, gopacket.NoCopy)
	if _, ok := packet.TransportLayer().(*layers.TCP); !ok {
		return false, false
	}
	flow := packet.NetworkLayer().NetworkFlow()
	segment := packet.NetworkLayer().LayerPayload()
	pseudo := append(append([]byte{}, flow.Src().Raw()...), flow.Dst().Raw()...)
	pseudo = append(pseudo, 0, 6, byte(len(segment)>>8), byte(len(segment)))
	var sum uint32
	for _, part := range [][]byte{pseudo, segment} {
		for i, octet := range part { // each part begins at an even place
			sum += uint32(octet) << (8 * (1 - i%2))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return sum == 0xffff, true
}

func TestChecksumsThatNetcheckWarnsOf(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			n := newLISPNetwork(t)
			n.engine = engine
			n.runAll()
			n.pingAll(3)
			s := stepOf(n.checked("xtr1"), diagnosis.CheckChecksums)
			isWarned := s.Outcome == diagnosis.OutcomeWarning && strings.Contains(s.Remedy, "ethtool -K eth0 tx off")
			if s.Subject != "site0" || isWarned != (engine == "kernel") {
				t.Errorf("netcheck: %+v", s)
			}
			for _, offload := range []bool{true, false} {
				n.must(n.at["host1"].SetOffload("eth0", testnet.TxChecksum, offload))
				for _, to := range []netip.Addr{testSite{2}.host4(), testSite{2}.host6()} {
					if right := n.checksumOfTCP(to); right == (offload && isWarned) {
						t.Errorf("%s, transmit checksum offload %t: the checksum is right: %t", to, offload, right)
					}
				}
			}
		})
	}
}

// checksumOfTCP has the first host connect, and says whether the first segment comes to the other site with a right checksum.
func (n *lispNetwork) checksumOfTCP(to netip.Addr) (right bool) {
	n.t.Helper()
	segments := make(chan bool, 100)
	capture, err := testnet.Capture{Namespace: n.at["xtr2"], Links: []string{"core0"}, IncomingOnly: true}.Start(func(c testnet.Captured) error {
		if right, found := innerTCP(c.Data); found && len(segments) < cap(segments) {
			segments <- right
		}
		return nil
	})
	n.must(err)
	defer capture.Stop()
	_ = n.at["host1"].Do(func() error { // nothing listens there: the answer is a reset
		conn, err := net.DialTimeout("tcp", netip.AddrPortFrom(to, 9).String(), 10*time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	})
	select {
	case right = <-segments:
	case <-time.After(20 * time.Second):
		n.t.Fatalf("no TCP segment to %s", to)
	}
	return right
}
