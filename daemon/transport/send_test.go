// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

// linked is the end of a link on which no neighbour answers.
func linked(t *testing.T, address string) *testnet.Namespace {
	t.Helper()
	network, err := testnet.New("loci-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	here, err := network.Namespace("here")
	if err != nil {
		t.Fatal(err)
	}
	there, err := network.Namespace("there")
	if err != nil {
		t.Fatal(err)
	}
	err = testnet.Connect(testnet.End{Namespace: here, Name: "link", Addresses: []netip.Prefix{netip.MustParsePrefix(address)}},
		testnet.End{Namespace: there, Name: "link"})
	if err != nil {
		t.Fatal(err)
	}
	return here
}

// listenOn has sockets in a namespace, at an address of it.
func listenOn(t *testing.T, ns *testnet.Namespace, address string) *Sockets {
	t.Helper()
	var s *Sockets
	err := ns.Do(func() (err error) {
		s, err = Listen([]netip.Addr{netip.MustParsePrefix(address).Addr()}, 0, slog.New(slog.DiscardHandler))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A packet that the socket has no room for waits in the outbox, in order, and the sender goes on: here the neighbour does not
// answer.
func TestSocketWithoutRoom(t *testing.T) {
	testnet.RequireRoot(t)
	for _, c := range []struct{ own, to string }{{"192.0.2.1/24", "192.0.2.9:4342"}, {"2001:db8::1/64", "[2001:db8::9]:4342"}} {
		here := linked(t, c.own)
		fitted := map[int]int{}                     // into the buffer, by how many were said at once
		for each := 1; each <= sentAtOnce; each++ { // where it ends within an iteration depends on how many there are
			s := listenOn(t, here, c.own)
			fitted[each] = fillUp(t, s, netip.MustParseAddrPort(c.to), each)
			s.Close()
		}
		for each, n := range fitted {
			if n != fitted[1] {
				t.Errorf("to %s: %d messages are sent or lost of %d at once, %d one by one", c.to, n, each, fitted[1])
			}
		}
	}
}

// smallBuffer gives the first socket as little room as can be.
func smallBuffer(t *testing.T, s *Sockets) {
	t.Helper()
	var failed error
	err := s.families[0].socket.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 1) })
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
}

// fillUp says so many messages an iteration, until there is no room for more, and returns how many do not wait.
func fillUp(t *testing.T, s *Sockets, to netip.AddrPort, each int) int {
	t.Helper()
	smallBuffer(t, s)
	const iterations = 20
	for i := range iterations {
		for j := range each { // to several ports, so that none leave as one
			s.said = append(s.said, numbered(i*each+j, 1, netip.AddrPortFrom(to.Addr(), to.Port()+uint16(j)))...)
		}
		s.EndIteration()
	}
	waiting := s.sender.out.take(nil)
	if len(waiting) == 0 || len(waiting) >= iterations*each {
		t.Fatalf("to %s: %d of %d messages wait", to, len(waiting), iterations*each)
	}

	for i, one := range waiting {
		if want := fmt.Sprintf("%06d", iterations*each-len(waiting)+i); string(one.Payload) != want {
			t.Fatalf("to %s: message %d of those that wait is %s, want %s", to, i, one.Payload, want)
		}
	}
	if n := s.sender.unsent.Load(); n != 0 {
		t.Errorf("to %s: %d messages were given up", to, n)
	}
	return iterations*each - len(waiting)
}

// What leaves one by one because segments do not fit the path waits for room like all else.
func TestSegmentsWithoutRoom(t *testing.T) {
	testnet.RequireRoot(t)
	const iterations, each = 8, sentAtOnce
	for _, c := range []struct{ own, to string }{{"192.0.2.1/24", "192.0.2.9:4342"}, {"2001:db8::1/64", "[2001:db8::9]:4342"}} {
		here := linked(t, c.own)
		for _, family := range []string{"ipv4", "ipv6"} {
			neighbours := "net." + family + ".neigh.link."
			if err := errors.Join(here.SetSysctl(neighbours+"retrans_time_ms", "10"), here.SetSysctl(neighbours+"mcast_solicit", "1")); err != nil {
				t.Fatal(err)
			}
		}
		if err := here.SetMTU("link", 1280); err != nil {
			t.Fatal(err)
		}
		s := listenOn(t, here, c.own)
		defer s.Close()
		smallBuffer(t, s)
		for i := range iterations {
			for _, one := range numbered(i*each, each, netip.MustParseAddrPort(c.to)) {
				one.Payload = append(one.Payload, make([]byte, 1400)...)
				s.said = append(s.said, one)
			}
			s.EndIteration()
		}
		waiting := s.sender.out.take(nil)
		if len(waiting) == 0 || len(waiting) == iterations*each || s.sender.unsent.Load() != 0 {
			t.Fatalf("to %s: %d of %d messages wait, %d were given up", c.to, len(waiting), iterations*each, s.sender.unsent.Load())
		}
		for i, one := range waiting {
			if want := fmt.Sprintf("%06d", iterations*each-len(waiting)+i); string(one.Payload[:len(want)]) != want {
				t.Fatalf("to %s: message %d of those that wait is %s, want %s", c.to, i, one.Payload[:len(want)], want)
			}
		}
		s.sender.out.add(waiting)
		s.sender.sendWaiting(nil) // there is room again each time that the kernel gives the neighbour up
		if n := s.sender.unsent.Load(); n != 0 {
			t.Errorf("to %s: %d messages were given up though there is room in the end", c.to, n)
		}
	}
}
