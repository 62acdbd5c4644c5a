// SPDX-License-Identifier: Apache-2.0

package atonce

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// socketAt is a UDP socket at an address, with the port that it was given.
func socketAt(t *testing.T, address string) (fd uintptr, at netip.AddrPort) {
	t.Helper()
	a := netip.MustParseAddr(address)
	var name unix.Sockaddr = &unix.SockaddrInet6{Addr: a.As16()}
	family := unix.AF_INET6
	if a.Is4() {
		name, family = &unix.SockaddrInet4{Addr: a.As4()}, unix.AF_INET
	}
	s, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // it may wait, but for what is told not to
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(s) })
	if err := unix.Bind(s, name); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(s)
	if err != nil {
		t.Fatal(err)
	}
	port := 0
	switch b := bound.(type) {
	case *unix.SockaddrInet4:
		port = b.Port
	case *unix.SockaddrInet6:
		port = b.Port
	}
	return uintptr(s), netip.AddrPortFrom(a, uint16(port))
}

// Datagrams of several pieces come as they were put together, with where they came from and what the kernel says of them, batch after
// batch in the same memory.
func TestDatagrams(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "::1"} {
		from, sender := socketAt(t, address)
		to, receiver := socketAt(t, address)
		level, option := unix.IPPROTO_IP, unix.IP_PKTINFO
		if receiver.Addr().Is6() {
			level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
		}
		if err := unix.SetsockoptInt(int(to), level, option, 1); err != nil {
			t.Fatal(err)
		}
		out, in := NewOutbox(4), NewInbox(2, 64, 128)
		for batch := range 2 {
			for i := range 3 {
				pieces := [][]byte{fmt.Appendf(nil, "%d", batch), []byte("."), bytes.Repeat([]byte("x"), i)}
				out.Add(receiver, nil, pieces[:2+min(i, 1)]...)
			}
			if n, err := out.Send(from, 1); n != 2 || err != nil || len(out.headers) != 3 {
				t.Fatalf("%s: sent %d of 2 of %d: %v", address, n, len(out.headers), err)
			}
			out.Forget()
			if n, err := in.Receive(to); n != 2 || err != nil {
				t.Fatalf("%s: received %d of 2: %v", address, n, err)
			}
			for i := range 2 {
				octets, control, source := in.Datagram(i)
				if want := fmt.Sprint(batch) + "." + strings.Repeat("x", i+1); string(octets) != want || source != sender {
					t.Errorf("%s: %q from %v, want %q from %v", address, octets, source, want, sender)
				}
				if header, _, _, err := unix.ParseOneSocketControlMessage(control); err != nil || header.Level != int32(level) {
					t.Errorf("%s: control message %+v, %v", address, header, err)
				}
			}
			if n, err := in.Receive(to); n != 0 || !errors.Is(err, unix.EAGAIN) {
				t.Errorf("%s: %d datagrams of none, %v", address, n, err)
			}
		}
	}
}

// Each batch has all of its room, whatever the ones before took of it.
func TestBatchesOfAnyLength(t *testing.T) {
	from, sender := socketAt(t, "127.0.0.1")
	to, receiver := socketAt(t, "127.0.0.1")
	in := NewInbox(4, 64, 128)
	for batch, length := range []int{4, 1, 0, 3, 4, 2, 4} {
		told := batch % 2 // of every other batch the kernel says something
		if err := unix.SetsockoptInt(int(to), unix.IPPROTO_IP, unix.IP_PKTINFO, told); err != nil {
			t.Fatal(err)
		}
		for range length {
			if err := unix.Sendto(int(from), []byte("x"), 0, &unix.SockaddrInet4{Port: int(receiver.Port()), Addr: receiver.Addr().As4()}); err != nil {
				t.Fatal(err)
			}
		}
		if n, _ := in.Receive(to); n != length {
			t.Fatalf("batch %d: %d of %d", batch, n, length)
		}
		for i := range length {
			_, control, source := in.Datagram(i)
			if want := told * unix.CmsgSpace(unix.SizeofInet4Pktinfo); len(control) != want || source != sender {
				t.Errorf("batch %d, datagram %d of %d: %d octets of control messages, want %d; from %v", batch, i, length, len(control), want, source)
			}
		}
	}
}

// What cannot be sent is told of the first one alone.
func TestSendFails(t *testing.T) {
	from, _ := socketAt(t, "127.0.0.1")
	_, to := socketAt(t, "127.0.0.1")
	out := NewOutbox(2)
	out.Add(to, nil, []byte("good"))
	out.Add(to, nil, make([]byte, 1<<16)) // longer than any datagram
	if n, err := out.Send(from, 0); n != 1 || err != nil {
		t.Errorf("sent %d, %v; want the first one", n, err)
	}
	if n, err := out.Send(from, 1); n != 0 || !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("sent %d, %v; want it told", n, err)
	}
}
