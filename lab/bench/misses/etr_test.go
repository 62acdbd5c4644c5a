// SPDX-License-Identifier: Apache-2.0

package misses

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"loci/internal/testnet"
	"loci/lab/bench/testbed"
	"loci/lisp"
	"loci/wire"
)

const (
	tcUnspec   = 0xFFFF_FFFF
	tcRedirect = 7
)

// The program at the ETR's link answers as the ETR does, octet for octet, and leaves what it does not understand to it.
func TestAnswerOfTheProgram(t *testing.T) {
	testnet.RequireRoot(t)
	traffic, err := testbed.NewTraffic(testbed.TrafficSizes{})
	if err != nil {
		t.Fatal(err)
	}
	defer traffic.Close()
	e := &etr{rloc: netip.MustParseAddr("172.16.2.2")}
	itr := wire.RLOCAddress(lisp.RLOCFromAddr(netip.MustParseAddr("172.16.2.1")))
	itr6 := wire.RLOCAddress(lisp.RLOCFromAddr(netip.MustParseAddr("2001:db8:c::1")))
	v4, v6 := lisp.EIDFromAddr(netip.MustParseAddr("10.1.0.7")), lisp.EIDFromAddr(netip.MustParseAddr("2001:db8:1::7"))
	ask4 := wire.RequestRecord{EID: wire.EIDAddress(0, lisp.EIDFromAddr(netip.MustParseAddr("10.64.1.2"))), MaskLen: 32}
	ask6 := wire.RequestRecord{EID: wire.EIDAddress(0, lisp.EIDFromAddr(netip.MustParseAddr("2001:db8:f::1:2"))), MaskLen: 128}
	for _, one := range []struct {
		name    string
		request wire.MapRequest
		inner   string // destination of the inner packet
		answers bool
	}{
		{"IPv4", wire.MapRequest{SourceEID: wire.EIDAddress(0, v4), Records: []wire.RequestRecord{ask4}}, "10.64.1.2", true},
		{"IPv6", wire.MapRequest{SourceEID: wire.EIDAddress(0, v6), Records: []wire.RequestRecord{ask6}}, "10.64.1.2", true},
		{"IPv6 within IPv6", wire.MapRequest{LocalXTR: true, SourceEID: wire.EIDAddress(0, v6), Records: []wire.RequestRecord{ask6}}, "2001:db8:f::1:2", true},
		{"no source", wire.MapRequest{SourceEID: wire.NoAddress{}, Records: []wire.RequestRecord{ask4}}, "10.64.1.2", true},
		{"two EIDs", wire.MapRequest{SourceEID: wire.NoAddress{}, Records: []wire.RequestRecord{ask4, ask4}}, "10.64.1.2", false},
		{"two ITR-RLOCs", wire.MapRequest{SourceEID: wire.NoAddress{}, ITRRLOCs: []wire.Address{itr, itr6}, Records: []wire.RequestRecord{ask4}}, "10.64.1.2", true},
		{"an IPv6 ITR-RLOC", wire.MapRequest{SourceEID: wire.NoAddress{}, ITRRLOCs: []wire.Address{itr6}, Records: []wire.RequestRecord{ask4}}, "10.64.1.2", false},
		{"three ITR-RLOCs", wire.MapRequest{SourceEID: wire.NoAddress{}, ITRRLOCs: []wire.Address{itr, itr, itr}, Records: []wire.RequestRecord{ask4}}, "10.64.1.2", false},
		{"an Instance-ID", wire.MapRequest{SourceEID: wire.NoAddress{}, Records: []wire.RequestRecord{{EID: wire.EIDAddress(7, v4), MaskLen: 32}}}, "10.64.1.2", false},
		{"a probe", wire.MapRequest{Probe: true, SourceEID: wire.NoAddress{}, Records: []wire.RequestRecord{ask4}}, "10.64.1.2", false},
	} {
		t.Run(one.name, func(t *testing.T) {
			if one.request.Nonce = 0x0102030405060708; one.request.ITRRLOCs == nil {
				one.request.ITRRLOCs = []wire.Address{itr}
			}
			message, err := one.request.AppendTo(nil)
			if err != nil {
				t.Fatal(err)
			}
			to := netip.MustParseAddr(one.inner)
			from := netip.MustParseAddr("172.16.2.1")
			if to.Is6() {
				from = netip.MustParseAddr("2001:db8::1")
			}
			if message, err = wire.AppendECM(nil, netip.AddrPortFrom(from, 4342), netip.AddrPortFrom(to, 4342), message); err != nil {
				t.Fatal(err)
			}
			verdict, out, err := traffic.Programs().BenchAnswer.Test(requestFrame(message))
			if err != nil {
				t.Fatal(err)
			}
			if !one.answers {
				if verdict != tcUnspec {
					t.Errorf("verdict %d", verdict)
				}
				return
			}
			want, _, ok := e.answer(message)
			if !ok || verdict != tcRedirect {
				t.Fatalf("verdict %d; the ETR answers: %v", verdict, ok)
			}
			checkAnswerFrame(t, out, want)
		})
	}
}

// requestFrame is a control message as it comes from the Map-Server.
func requestFrame(message []byte) []byte {
	f := append([]byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0}, 0x45, 0)
	f = binary.BigEndian.AppendUint16(f, uint16(28+len(message)))
	f = append(f, 0, 0, 0, 0, 64, 17, 0, 0, 172, 16, 3, 2, 172, 16, 2, 2, 0x10, 0xF6, 0x10, 0xF6)
	f = binary.BigEndian.AppendUint16(f, uint16(8+len(message)))
	return append(append(f, 0, 0), message...)
}

func checkAnswerFrame(t *testing.T, out, message []byte) {
	t.Helper()
	const headers = testbed.EthernetOctets + 28
	if len(out) != headers+len(message) || !bytes.Equal(out[headers:], message) {
		t.Fatalf("answered\n%x, want\n%x", out[min(headers, len(out)):], message)
	}
	if !bytes.Equal(out[:12], []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}) {
		t.Errorf("Ethernet addresses %x", out[:12])
	}
	sum := uint32(0)
	for i := testbed.EthernetOctets; i < testbed.EthernetOctets+20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(out[i:]))
	}
	if sum = sum&0xFFFF + sum>>16; sum != 0xFFFF {
		t.Errorf("sum of the IPv4 header %#x", sum)
	}
	if !bytes.Equal(out[26:34], []byte{172, 16, 2, 2, 172, 16, 2, 1}) || !bytes.Equal(out[34:40], append([]byte{0x10, 0xF6, 0x10, 0xF6, 0}, byte(8+len(message)))) {
		t.Errorf("addresses and ports %x", out[26:40])
	}
}
