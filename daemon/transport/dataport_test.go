// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"loci/control"
	"loci/dataplane/user/underlay"
	"loci/internal/testnet"
)

// received is what a socket gets, with the port and address it comes from.
func received(at *net.UDPConn) (string, netip.AddrPort, error) {
	octets := make([]byte, 100)
	if err := at.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", netip.AddrPort{}, err
	}
	n, from, err := at.ReadFromUDPAddrPort(octets)
	return string(octets[:n]), from, err
}

// beside are two neighbours: the second has the address after that of the first.
func beside(t *testing.T, own ...netip.Prefix) (here, there *testnet.Namespace) {
	t.Helper()
	network, err := testnet.New("loci-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { network.Close() })
	if here, err = network.Namespace("here"); err != nil {
		t.Fatal(err)
	}
	if there, err = network.Namespace("there"); err != nil {
		t.Fatal(err)
	}
	var theirs []netip.Prefix
	for _, p := range own {
		theirs = append(theirs, netip.PrefixFrom(p.Addr().Next(), p.Bits()))
	}
	err = testnet.Connect(testnet.End{Namespace: here, Name: "link", Addresses: own}, testnet.End{Namespace: there, Name: "link", Addresses: theirs})
	if err != nil {
		t.Fatal(err)
	}
	return here, there
}

// TestMessagesLeaveFromTheDataPort: from the address that they name, and those of the control port from that; also
// while an engine of this process receives at the data port, which still gets what arrives there.
func TestMessagesLeaveFromTheDataPort(t *testing.T) {
	testnet.RequireRoot(t)
	for _, prefix := range []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("2001:db8::1/64")} {
		here, there := beside(t, prefix)
		second := netip.PrefixFrom(prefix.Addr().Next().Next(), prefix.Bits())
		if err := here.AddAddress("link", second); err != nil {
			t.Fatal(err)
		}
		sink := listening(t, there, prefix.Addr().Next())
		for _, engine := range []bool{false, true} {
			if err := here.Do(func() error { return leaveFromTheDataPort(t, sink, []netip.Addr{prefix.Addr(), second.Addr()}, engine) }); err != nil {
				t.Errorf("%s, engine %t: %v", prefix, engine, err)
			}
		}
	}
}

// listening is a socket at an address of a namespace.
func listening(t *testing.T, ns *testnet.Namespace, at netip.Addr) (socket *net.UDPConn) {
	t.Helper()
	err := ns.Do(func() (err error) {
		socket, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return socket
}

func leaveFromTheDataPort(t *testing.T, sink *net.UDPConn, own []netip.Addr, engine bool) error {
	t.Helper()
	to := sink.LocalAddr().(*net.UDPAddr).AddrPort()
	s, err := Listen(own[:1], 0, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer s.Close()
	var receiver *underlay.Receiver
	if engine {
		if receiver, err = underlay.Receive(own[0].Is6(), 4341); err != nil {
			return err
		}
		defer receiver.Close()
	}
	control0, data := netip.AddrPortFrom(own[0], 0), netip.AddrPortFrom(own[0], 4341)
	for _, said := range []control.SendPacket{
		{Local: control0, Remote: to, Payload: []byte("control")},
		{Local: data, Remote: to, Payload: []byte("data 1")}, {Local: data, Remote: to, Payload: []byte("data 2")},
		{Local: control0, Remote: to, Payload: []byte("control")},
		{Local: netip.AddrPortFrom(own[1], 4341), Remote: to, Payload: []byte("data second")},
	} {
		s.Queue(said)
		s.EndIteration()
		payload, by, err := received(sink)
		if err != nil {
			return fmt.Errorf("%q from %s: %w", said.Payload, said.Local, err)
		}
		want := netip.AddrPortFrom(said.Local.Addr(), s.families[0].port)
		if strings.HasPrefix(payload, "data") {
			want = said.Local
		}
		if payload != string(said.Payload) || by != want {
			t.Errorf("%q from %s, want %q from %s", payload, by, said.Payload, want)
		}
	}
	if engine {
		if err := arrivesAtTheEngine(receiver, sink, own[0]); err != nil {
			return err
		}
	}
	if n := s.Unsent(); n != 0 {
		t.Errorf("%d messages were not sent", n)
	}
	return nil
}

func arrivesAtTheEngine(receiver *underlay.Receiver, by *net.UDPConn, own netip.Addr) error {
	if _, err := by.WriteToUDPAddrPort([]byte("arrives"), netip.AddrPortFrom(own, 4341)); err != nil {
		return err
	}
	end := time.AfterFunc(10*time.Second, func() { receiver.Close() })
	defer end.Stop()
	for {
		trains, err := receiver.Await()
		if err != nil {
			return err
		}
		for i := range trains {
			if train := receiver.Train(i); string(train.Payload) == "arrives" && train.To == own {
				return nil
			}
		}
	}
}

// TestDataPortOfAnother: a message that cannot leave is counted, and leaves once the port is free.
func TestDataPortOfAnother(t *testing.T) {
	testnet.RequireRoot(t)
	here, there := beside(t, netip.MustParsePrefix("192.0.2.1/24"))
	sink := listening(t, there, netip.MustParseAddr("192.0.2.2"))
	err := here.Do(func() error {
		own := netip.MustParseAddr("192.0.2.1")
		other, err := net.ListenUDP("udp4", &net.UDPAddr{Port: 4341})
		if err != nil {
			return err
		}
		var log strings.Builder
		s, err := Listen([]netip.Addr{own}, 0, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			return err
		}
		defer s.Close()
		said := control.SendPacket{Local: netip.AddrPortFrom(own, 4341), Remote: sink.LocalAddr().(*net.UDPAddr).AddrPort(), Payload: []byte("late")}
		for range 2 {
			s.Queue(said)
			s.EndIteration()
		}
		if s.Unsent() != 2 || strings.Count(log.String(), "cannot leave from the data port") != 1 {
			t.Errorf("%d unsent, logged %q", s.Unsent(), &log)
		}
		other.Close()
		s.sender.data.failedAt = s.sender.data.failedAt.Add(-2 * reopenPause)
		s.Queue(said)
		s.EndIteration()
		if payload, from, err := received(sink); err != nil || payload != "late" || from != said.Local {
			t.Errorf("%q from %s, %v", payload, from, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
