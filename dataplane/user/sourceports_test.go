// SPDX-License-Identifier: Apache-2.0

package user

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/forward"
	"loci/lisp"
)

// TestErrorsAboutASourcePort: an ICMP error about a packet that left from the data port is believed where packets are
// sent to that RLOC and port, and not where it names another port.
func TestErrorsAboutASourcePort(t *testing.T) {
	for _, peer := range []netip.Addr{conformance.PeerRLOCs[0], conformance.PeerRLOCs[2]} {
		h := newHarness(t).(*engineHarness)
		e := h.engine
		locator := lisp.NewLocator(lisp.RLOCFromAddr(peer))
		locator.SourcePort = forward.DataPort
		prefix := lisp.MustParsePrefix("10.2.0.0/24")
		mapping := lisp.Mapping{Prefix: prefix, Locators: lisp.LocatorSet{locator}, TTLMinutes: 60}
		own, err := lisp.NewLocatorSet(lisp.NewLocator(lisp.RLOCFromAddr(conformance.OwnRLOC4)))
		must(t, err)
		site := dataplane.DatabaseEntry{Prefix: lisp.MustParsePrefix("10.1.0.0/24"), Locators: own}
		if errs := e.Apply(
			dataplane.SetSettings{Settings: h.Settings()}, dataplane.PutDatabase{Entry: site},
			dataplane.PutMapping{Entry: dataplane.MapCacheEntry{Mapping: mapping, Static: true, CreatedAt: h.now()}},
		); errs != nil {
			t.Fatal(errs)
		}
		h.SendFromSite(t, udpOf(t, conformance.SiteHosts[0], netip.MustParseAddr("10.2.0.1")))
		outer, ok := h.ReceiveAtCore(t)
		if !ok {
			t.Fatal("nothing left")
		}
		other := bytes.Clone(outer)
		binary.BigEndian.PutUint16(other[len(outer)-len(payloadOf(t, outer))-6:], 9)
		for range 3 {
			h.SendFromCore(t, unreachableAbout(t, other))
		}
		select {
		case event := <-unreachableOf(e, 300*time.Millisecond):
			t.Errorf("%s: an error about another port is believed: %+v", peer, event)
		case <-time.After(400 * time.Millisecond):
		}
		h.SendFromCore(t, unreachableAbout(t, outer))
		select {
		case event := <-unreachableOf(e, patience):
			if event.RLOC != locator.RLOC {
				t.Errorf("%s: %+v", peer, event)
			}
		case <-time.After(patience):
			t.Errorf("%s: an error about what left is not reported", peer)
		}
	}
}

// unreachableOf yields the first LocatorUnreachable within that time.
func unreachableOf(e *Engine, within time.Duration) <-chan dataplane.LocatorUnreachable {
	found, end := make(chan dataplane.LocatorUnreachable, 1), time.After(within)
	go func() {
		for {
			select {
			case event := <-e.Events():
				if u, is := event.(dataplane.LocatorUnreachable); is {
					found <- u
					return
				}
			case <-end:
				return
			}
		}
	}()
	return found
}

func payloadOf(t *testing.T, outer []byte) []byte {
	t.Helper()
	h, err := forward.ParseHeader(outer)
	must(t, err)
	return outer[h.PayloadOffset+8:]
}

func udpOf(t *testing.T, from, to netip.Addr) []byte {
	t.Helper()
	ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
	udp := &layers.UDP{SrcPort: 1000, DstPort: 2000}
	must(t, udp.SetNetworkLayerForChecksum(ip))
	return serialized(t, ip, udp, gopacket.Payload(make([]byte, 100)))
}

// unreachableAbout is what a router says of an outer packet.
func unreachableAbout(t *testing.T, outer []byte) []byte {
	t.Helper()
	h, err := forward.ParseHeader(outer)
	must(t, err)
	from, to := h.Destination.AsSlice(), h.Source.AsSlice()
	if h.Family == 4 {
		ip := &layers.IPv4{Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolICMPv4, SrcIP: from, DstIP: to}
		return serialized(t, ip, &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(3, 1)}, gopacket.Payload(outer))
	}
	ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolICMPv6, SrcIP: from, DstIP: to}
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(1, 0)}
	must(t, icmp.SetNetworkLayerForChecksum(ip))
	return serialized(t, ip, icmp, gopacket.Payload(append(make([]byte, 4), outer...)))
}

func serialized(t *testing.T, parts ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	must(t, gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, parts...))
	return buffer.Bytes()
}
