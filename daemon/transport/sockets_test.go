// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"loci/control"
)

// TestDatagramSocketsStop ends the waiting of a receiver that nothing comes to.
func TestDatagramSocketsStop(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		s, err := Listen([]netip.Addr{netip.MustParseAddr(address)}, 0, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		s.keyring.Store(&control.Keyring{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { s.Run(ctx); close(ended) }()
		to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), s.families[0].port))
		conn, err := net.DialUDP("udp", nil, to)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("no message of LISP")); err != nil {
			t.Fatal(err)
		}
		if batch := <-s.Messages(); len(batch) != 1 || batch[0].Refusal == nil {
			t.Errorf("%s: received %v", address, batch)
		}
		stop()
		<-ended
		_ = conn.Close()
	}
}
