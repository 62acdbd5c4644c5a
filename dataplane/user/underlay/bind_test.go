// SPDX-License-Identifier: Apache-2.0

package underlay

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"loci/internal/testnet"
)

const patience = 20 * time.Second

// files is how many files this process has open.
func files(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// poolThatTells is a pool of a namespace, which has to end.
func poolThatTells(t *testing.T, ns *testnet.Namespace, tell func(*Pool, PathError)) (p *Pool) {
	t.Helper()
	err := ns.Do(func() (err error) {
		p, err = NewPool()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	p.Errors(&running, func(e PathError) { tell(p, e) })
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		ended := make(chan struct{})
		go func() { running.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("somebody still waits for errors of the closed pool")
		}
	})
	return p
}

var boundAddresses = []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}

// TestBindFollowsInterfaces: an interface that comes again and again by another index costs no more each time, and an attempt that
// failed nothing, also of the next one.
func TestBindFollowsInterfaces(t *testing.T) {
	ns, err := testnet.ForTest(t).Namespace("xtr")
	if err != nil {
		t.Fatal(err)
	}
	p := poolThatTells(t, ns, func(*Pool, PathError) {})
	bind := func(to netip.Addr, link int) (err error) {
		return ns.Do(func() error { return p.Bind(to, link) })
	}
	const refused = -1 // an index that is gone is bound to
	before, bound := files(t), 0
	for round := range 2 * maxLinks {
		name := fmt.Sprintf("core%d", round)
		if err := ns.Netlink().LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
			t.Fatal(err)
		}
		link, err := ns.Netlink().LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range boundAddresses {
			if err := bind(to, refused); err == nil || p.IsBound(to, refused) {
				t.Errorf("%s is bound to what no interface is", to)
			}
			if err := bind(to, link.Attrs().Index); err != nil || !p.IsBound(to, link.Attrs().Index) {
				t.Errorf("%s: %v", to, err)
			}
		}
		if round == 0 {
			bound = files(t)
		} else if now := files(t); now != bound {
			t.Fatalf("%d files are open after the interface came for the %dth time, %d after the first", now, round+1, bound)
		}
		if err := ns.Netlink().LinkDel(link); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range boundAddresses {
		if err := bind(to, 0); err != nil {
			t.Error(err)
		}
	}
	if now := files(t); now != before {
		t.Errorf("%d files are open after the last was bound, %d before the first", now, before)
	}
}

// TestBoundIsBounded: addresses that get no datagrams any more do not keep sockets of ever more interfaces.
func TestBoundIsBounded(t *testing.T) {
	ns, err := testnet.ForTest(t).Namespace("xtr")
	if err != nil {
		t.Fatal(err)
	}
	p := poolThatTells(t, ns, func(*Pool, PathError) {})
	for n := range 2 * maxLinks {
		name := fmt.Sprintf("core%d", n)
		if err := ns.Netlink().LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err != nil {
			t.Fatal(err)
		}
		link, err := ns.Netlink().LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		to := netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})
		if err := ns.Do(func() error { return p.Bind(to, link.Attrs().Index) }); err != nil || !p.IsBound(to, link.Attrs().Index) {
			t.Fatalf("%s: %v", to, err)
		}
		if opened := len(p.bound.Load().sockets); opened > maxLinks {
			t.Fatalf("sockets of %d interfaces", opened)
		}
	}
}

// TestErrorsMayUnbind: who is told of an ICMP error may have the socket closed that it came to.
func TestErrorsMayUnbind(t *testing.T) {
	ns, err := testnet.ForTest(t).Namespace("xtr")
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.SetUp("lo", true); err != nil {
		t.Fatal(err)
	}
	for _, host := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
		told := make(chan PathError, 16)
		p := poolThatTells(t, ns, func(p *Pool, e PathError) {
			if err := p.Bind(e.To.Addr(), 0); err != nil {
				t.Error(err)
			}
			told <- e
		})
		lo := 0
		err := ns.Do(func() error {
			link, err := net.InterfaceByName("lo")
			if err != nil {
				return err
			}
			lo = link.Index
			return p.Bind(host, lo)
		})
		if err != nil {
			t.Fatal(err)
		}
		s := NewSender(p, func(r Refused) { t.Errorf("to %v: %v", r.To, r.Err) })
		s.Add(&Outer{Source: host, To: netip.AddrPortFrom(host, 9), Marks: Marks{TTL: 9}}, make([]byte, 8))
		s.Flush()
		select {
		case e := <-told:
			if !e.Unreachable() || e.To.Addr() != host || !p.IsBound(host, 0) || len(p.bound.Load().sockets) != 0 {
				t.Errorf("%+v, sockets of %d interfaces", e, len(p.bound.Load().sockets))
			}
		case <-time.After(patience):
			t.Errorf("%s: the closed port is not told", host)
		}
	}
}
