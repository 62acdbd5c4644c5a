// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"loci/control"
	"loci/lisp"
	"loci/wire"
)

// answering is a locator that answers RLOC-probes, and refuses all else.
func answering(t *testing.T, address string) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		buffer := make([]byte, maxDatagramOctets)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			m, err := wire.Parse(buffer[:n])
			request, isRequest := m.(*wire.MapRequest)
			if err != nil || !isRequest || !request.Probe {
				continue
			}
			mapping := lisp.Mapping{Prefix: lisp.MustParsePrefix("10.2.0.0/24"), TTLMinutes: 1}
			reply, err := (&wire.MapReply{Nonce: request.Nonce, Probe: true, Records: []wire.Record{wire.RecordOf(mapping)}}).AppendTo(nil)
			if err == nil {
				_, _ = conn.WriteToUDPAddrPort(reply, from)
			}
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// TestProbe: an RLOC-probe goes to the locator itself and is answered; where nothing listens, ICMP says so.
func TestProbe(t *testing.T) {
	for _, loopback := range []string{"127.0.0.1:0", "[::1]:0"} {
		q := control.LigQuery{EID: lisp.EIDFromAddr(netip.MustParseAddr("10.2.0.1")), Resolver: answering(t, loopback)}
		answer, err := Probe(t.Context(), q, 5, time.Second)
		if err != nil || len(answer.Mappings) != 1 || answer.From != q.Resolver {
			t.Errorf("%s: %+v, %v", loopback, answer, err)
		}
		if _, err := Ask(t.Context(), q, 1, 10*time.Millisecond, func(int, netip.AddrPort) {}); !errors.Is(err, ErrNoAnswer) {
			t.Errorf("%s: a Map-Request in an ECM: %v", loopback, err)
		}
		closed, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(loopback)))
		if err != nil {
			t.Fatal(err)
		}
		q.Resolver = closed.LocalAddr().(*net.UDPAddr).AddrPort()
		closed.Close()
		_, err = Probe(t.Context(), q, 1, time.Second)
		if !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(silenceText(err), "its control plane is dead") {
			t.Errorf("%s: nothing listens: %v", loopback, err)
		}
	}
}

func TestAskTries(t *testing.T) {
	for timeout, want := range map[time.Duration]int{100 * time.Millisecond: 5, time.Second: 5, 2 * time.Second: 3, 10 * time.Second: 2} {
		if got := askTries(timeout); got != want {
			t.Errorf("%s: %d tries, want %d", timeout, got, want)
		}
	}
}

// TestQuotedEcho: only errors that quote an echo request of this socket count, whatever octets come.
func TestQuotedEcho(t *testing.T) {
	for _, to := range []string{"10.2.0.1", "2001:db8:2::1"} {
		s := &echoSocket{to: netip.MustParseAddr(to), id: 77, all: []*echo{{}, {}}}
		quote := make([]byte, s.headerOctets())
		if s.to.Is4() {
			quote[0] = 0x45
			copy(quote[16:], s.to.AsSlice())
		} else {
			copy(quote[24:], s.to.AsSlice())
		}
		at := len(quote) - 8
		quote[at+5], quote[at+7] = 77, 1
		if sequence, ok := s.quoted(quote); !ok || sequence != 1 {
			t.Errorf("%s: %d, %t", to, sequence, ok)
		}
		for cut := range quote {
			if _, ok := s.quoted(quote[:cut]); ok {
				t.Errorf("%s: %d octets are enough", to, cut)
			}
		}
		quote[at+5] = 78
		if _, ok := s.quoted(quote); ok {
			t.Errorf("%s: another socket's echo request counts", to)
		}
	}
}
