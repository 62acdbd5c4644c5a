// SPDX-License-Identifier: Apache-2.0

package underlay

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"loci/internal/testnet"
)

const dataPort = 4341

// fixedHost is a namespace with two addresses of each family, and a receiver at the data port for each.
func fixedHost(t *testing.T) (ns *testnet.Namespace, addresses [][2]netip.Addr, receivers []*Receiver) {
	t.Helper()
	ns, err := testnet.ForTest(t).Namespace("xtr")
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.SetUp("lo", true); err != nil {
		t.Fatal(err)
	}
	for i, pair := range [][2]string{{"192.0.2.1", "192.0.2.2"}, {"2001:db8::1", "2001:db8::2"}} {
		of := [2]netip.Addr{netip.MustParseAddr(pair[0]), netip.MustParseAddr(pair[1])}
		for _, a := range of {
			if err := ns.AddAddress("lo", netip.PrefixFrom(a, a.BitLen())); err != nil {
				t.Fatal(err)
			}
		}
		err := ns.Do(func() error {
			r, err := Receive(i == 1, dataPort)
			receivers = append(receivers, r)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { receivers[i].Close() })
		if err := receivers[i].socket.file.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, of)
	}
	return ns, addresses, receivers
}

func fixPort(t *testing.T, ns *testnet.Namespace, p *Pool, port uint16) {
	t.Helper()
	if err := ns.Do(func() error { return p.FixPort(port) }); err != nil {
		t.Fatal(err)
	}
}

// TestFixedPort: datagrams leave from the port, and all that arrives at it goes on to those that receive there.
func TestFixedPort(t *testing.T) {
	ns, addresses, receivers := fixedHost(t)
	p := poolThatTells(t, ns, func(*Pool, PathError) {})
	for range 2 {
		fixPort(t, ns, p, dataPort)
	}
	for i, of := range addresses {
		s := NewSender(p, func(r Refused) { t.Errorf("to %v: %v", r.To, r.Err) })
		const count = 50
		for n := range count {
			o := Outer{Source: of[0], To: netip.AddrPortFrom(of[1], dataPort), Flow: uint16(n), Marks: Marks{TTL: 9}}
			if n%2 == 0 {
				o.SourcePort = dataPort
			}
			s.Add(&o, []byte{uint8(n)})
		}
		s.Flush()
		for got := 0; got < count; {
			trains, err := receivers[i].Await()
			if err != nil {
				t.Fatal(err)
			}
			for j := range trains {
				d := receivers[i].Train(j)
				fixed := d.From.Port() == dataPort
				if d.From.Addr() != of[0] || fixed != (d.Payload[0]%2 == 0) || !fixed && d.From.Port() < firstPort {
					t.Errorf("datagram %d comes from %s", d.Payload[0], d.From)
				}
				got += len(d.Payload)
			}
		}
	}
}

// TestFixedPortReportsErrors: an ICMP error about what left from the port is reported where the port receives, which
// takes what arrives as before.
func TestFixedPortReportsErrors(t *testing.T) {
	ns, addresses, receivers := fixedHost(t)
	p := poolThatTells(t, ns, func(_ *Pool, e PathError) { t.Errorf("%+v", e) })
	fixPort(t, ns, p, dataPort)
	for i, of := range addresses {
		s := NewSender(p, func(r Refused) { t.Errorf("to %v: %v", r.To, r.Err) })
		closed := netip.AddrPortFrom(of[1], 9)
		for range 200 { // more than one call reads
			s.Add(&Outer{Source: of[0], To: closed, SourcePort: dataPort, Marks: Marks{TTL: 9}}, make([]byte, 8))
		}
		s.Add(&Outer{Source: of[0], To: netip.AddrPortFrom(of[1], dataPort), SourcePort: dataPort, Marks: Marks{TTL: 9}}, []byte("data"))
		s.Flush()
		reported, arrived := 0, false
		for !arrived || reported == 0 {
			trains, err := receivers[i].Await()
			if err != nil {
				t.Fatalf("%v; %d errors, the datagram arrived: %v", err, reported, arrived)
			}
			for _, e := range receivers[i].Failures() {
				if e.To != closed || !e.Unreachable() || !e.Ported {
					t.Errorf("%+v", e)
				}
				reported++
			}
			arrived = arrived || trains > 0
		}
	}
}

// TestFixedPortsAreBounded: beyond the limit a port is refused, and what is open stays.
func TestFixedPortsAreBounded(t *testing.T) {
	ns, addresses, _ := fixedHost(t)
	p := poolThatTells(t, ns, func(*Pool, PathError) {})
	for i := range maxFixedPorts {
		fixPort(t, ns, p, uint16(20000+i))
	}
	before := files(t)
	err := ns.Do(func() error { return p.FixPort(30000) })
	if !errors.Is(err, ErrPortLimit) || files(t) != before {
		t.Errorf("%v, want %v; %d files instead of %d", err, ErrPortLimit, files(t), before)
	}
	var refused error
	s := NewSender(p, func(r Refused) { refused = r.Err })
	s.Add(&Outer{Source: addresses[0][0], To: netip.AddrPortFrom(addresses[0][1], 9), SourcePort: 30000}, []byte("x"))
	if s.Flush(); refused == nil {
		t.Error("a datagram leaves from a port that is not open")
	}
}

// TestFixedPortTaken: a port at which somebody receives who does not share it is refused, and leaves no file.
func TestFixedPortTaken(t *testing.T) {
	ns, _, _ := fixedHost(t)
	p := poolThatTells(t, ns, func(*Pool, PathError) {})
	taken, err := ns.ListenUDP(netip.MustParseAddrPort("[::]:20001"))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	before := files(t)
	if err := ns.Do(func() error { return p.FixPort(20001) }); err == nil || files(t) != before {
		t.Errorf("%v; %d files instead of %d", err, files(t), before)
	}
}

// TestFixedPortFollowsInterfaces: datagrams bound to an interface leave from the port as well, whichever comes first.
func TestFixedPortFollowsInterfaces(t *testing.T) {
	ns, addresses, receivers := fixedHost(t)
	p := poolThatTells(t, ns, func(*Pool, PathError) {})
	lo, err := ns.Netlink().LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	bind := func(to netip.Addr, link int) {
		if err := ns.Do(func() error { return p.Bind(to, link) }); err != nil {
			t.Fatal(err)
		}
	}
	s := NewSender(p, func(r Refused) { t.Errorf("to %v: %v", r.To, r.Err) })
	send := func(port uint16) {
		t.Helper()
		o := Outer{Source: addresses[0][0], To: netip.AddrPortFrom(addresses[0][1], dataPort), SourcePort: port, Marks: Marks{TTL: 9}}
		s.Add(&o, []byte("x"))
		s.Flush()
		if trains, err := receivers[0].Await(); err != nil || trains != 1 || receivers[0].Train(0).From.Port() != port {
			t.Errorf("%d datagrams, error %v, from %v, want port %d", trains, err, receivers[0].Train(0).From, port)
		}
	}
	fixPort(t, ns, p, dataPort)
	bind(addresses[0][1], lo.Attrs().Index)
	send(dataPort)
	fixPort(t, ns, p, 4342)
	send(4342)
	bind(addresses[0][1], 0)
	send(dataPort)
	send(4342)
	before := files(t)
	bind(addresses[0][1], lo.Attrs().Index)
	send(4342)
	bind(addresses[0][1], 0)
	if got := files(t); got != before {
		t.Errorf("%d files are open, want %d: those of the interface stay", got, before)
	}
}
