// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"loci/control"
	"loci/forward"
)

func numbered(n, count int, to netip.AddrPort) []control.SendPacket {
	packets := make([]control.SendPacket, count)
	for i := range packets {
		packets[i] = control.SendPacket{Remote: to, Payload: fmt.Appendf(nil, "%06d", n+i)}
	}
	return packets
}

func TestOutboxRefusesWhatIsBeyondItsBound(t *testing.T) {
	o := newOutbox()
	to := netip.MustParseAddrPort("192.0.2.1:4342")
	if refused := o.add(numbered(0, outboxMessages-1, to)); refused != 0 {
		t.Fatalf("%d refused though there is room", refused)
	}
	if refused := o.add(numbered(0, 3, to)); refused != 2 {
		t.Errorf("refused %d of 3 where one has room", refused)
	}
	if taken := o.take(nil); len(taken) != outboxMessages {
		t.Errorf("%d messages wait, want %d", len(taken), outboxMessages)
	}
	if !o.isEmpty() {
		t.Error("not empty after all was taken")
	}
}

// A flood of misses is one message an iteration: more than the sender has taken yet must wait, not
// be lost, and nothing overtakes it.
func TestManyIterationsLoseNothingAndKeepTheirOrder(t *testing.T) {
	listener, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	listener.SetReadBuffer(4 << 20)
	s, err := Listen([]netip.Addr{netip.MustParseAddr("127.0.0.1")}, 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	to := listener.LocalAddr().(*net.UDPAddr).AddrPort()
	const iterations = 300
	for i := range iterations {
		if i == iterations/2 { // until now the sender did not run: what comes first waits in the outbox
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go s.Run(ctx)
		}
		count := 1 + i%(2*sentAtOnce)
		s.said = append(s.said, numbered(i*100, count, to)...)
		s.EndIteration()
	}
	if n := s.sender.unsent.Load(); n != 0 {
		t.Errorf("%d messages were not sent", n)
	}
	listener.SetReadDeadline(time.Now().Add(30 * time.Second))
	buffer := make([]byte, 64)
	for i := range iterations {
		for j := range 1 + i%(2*sentAtOnce) {
			n, err := listener.Read(buffer)
			if err != nil {
				t.Fatalf("message %d of iteration %d: %v", j, i, err)
			}
			if got, want := string(buffer[:n]), fmt.Sprintf("%06d", i*100+j); got != want {
				t.Fatalf("message %d of iteration %d is %s, want %s", j, i, got, want)
			}
		}
	}
}

func TestOnlyControlMessagesLeaveTogether(t *testing.T) {
	for port, want := range map[uint16]int{forward.DataPort: 1, 4342: 3} {
		if got := sameFlow(numbered(0, 3, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port))); got != want {
			t.Errorf("to port %d: %d packets in one datagram, want %d", port, got, want)
		}
	}
}
