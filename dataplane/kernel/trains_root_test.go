// SPDX-License-Identifier: Apache-2.0

// Several LISP packets in one skb: what a sender on this machine hands to the kernel as segments of one datagram (UDP_SEGMENT)
// comes by a veth as one. The test needs root.

package kernel

import (
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loci/forward"
	"loci/lisp"
)

// TestTrainsOfPackets expects none of them to become the contents of the first.
func TestTrainsOfPackets(t *testing.T) {
	t.Parallel()
	n := newLinks(t)
	r := n.open(t, 0, Options{})
	for i, p := range []pair{pairs[0], pairs[1]} {
		inner := udpPacket(t, p, 1, 0, 512)
		header, err := forward.ParseHeader(inner)
		must(t, err)
		one, reason := forward.Encapsulate(nil, inner, &header, &forward.Tunnel{
			Source: lisp.RLOCFromAddr(rloc4(1)), Destination: lisp.RLOCFromAddr(rloc4(0)),
		})
		if reason != forward.DropNone {
			t.Fatalf("encapsulate: %v", reason)
		}
		one = one[28:] // behind IPv4 and UDP
		n.sendTrain(t, append(append([]byte{}, one...), one...), len(one))
		want := uint64(i + 1)
		for deadline := time.Now().Add(patience); r.Counters().Drops["outer-malformed"] != want; time.Sleep(time.Millisecond) {
			if c := r.Counters(); c.DecapsulatedPackets > 0 {
				t.Fatalf("%s: two LISP packets in one skb became %d;%s", p.name, c.DecapsulatedPackets, n.report())
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: never dropped;%s", p.name, n.report())
			}
		}
	}
}

// sendTrain sends LISP packets of so many octets each from router B's namespace to router A, as one datagram.
func (n *network) sendTrain(t *testing.T, train []byte, each int) {
	t.Helper()
	must(t, n.routers[1].ns.Do(func() error {
		dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(rloc4(1), 0)), Control: func(_, _ string, raw syscall.RawConn) (err error) {
			failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, each) })
			if failed != nil {
				return failed
			}
			return err
		}}
		conn, err := dialer.Dial("udp", netip.AddrPortFrom(rloc4(0), forward.DataPort).String())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write(train)
		return err
	}))
}
