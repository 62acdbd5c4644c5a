// SPDX-License-Identifier: Apache-2.0

// Tests of NAT boxes, in real namespaces. They need root.

package testnet

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// asker is a socket behind a NAT, and the server that says from where it hears it.
type asker struct {
	inside, server *net.UDPConn
}

func newAsker(t *testing.T, inside, outside *Namespace, server netip.Addr) asker {
	t.Helper()
	listening, err := outside.ListenUDP(netip.AddrPortFrom(server, 4342))
	must(t, err)
	dialed, err := inside.DialUDP(netip.AddrPort{}, netip.AddrPortFrom(server, 4342))
	must(t, err)
	t.Cleanup(func() { dialed.Close(); listening.Close() })
	return asker{dialed, listening}
}

// seenAs is the source that the server sees.
func (a asker) seenAs(t *testing.T) netip.AddrPort {
	t.Helper()
	_, err := a.inside.Write([]byte("from where?"))
	must(t, err)
	must(t, a.server.SetReadDeadline(time.Now().Add(5*time.Second)))
	_, from, err := a.server.ReadFromUDPAddrPort(make([]byte, 100))
	must(t, err)
	return from
}

// answered says whether an answer to an earlier source comes through.
func (a asker) answered(t *testing.T, to netip.AddrPort) bool {
	t.Helper()
	_, err := a.server.WriteToUDPAddrPort([]byte("answer"), to)
	must(t, err)
	must(t, a.inside.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	_, err = a.inside.Read(make([]byte, 100))
	return err == nil
}

func TestNAT(t *testing.T) {
	hosts := newTwoHosts(t)
	nat := NAT{Namespace: hosts.r, Outside: "to-b", UDPTimeout: time.Second}
	must(t, nat.Start())
	for family, server := range map[string]netip.Addr{"ipv4": b4, "ipv6": b6} {
		t.Run(family, func(t *testing.T) {
			ask := newAsker(t, hosts.a, hosts.b, server)
			inside := ask.inside.LocalAddr().(*net.UDPAddr).AddrPort()
			first := ask.seenAs(t)
			if first.Addr() == inside.Addr() || first.Port() == inside.Port() {
				t.Errorf("%v is seen as %v: want another address and another port", inside, first)
			}
			if again := ask.seenAs(t); again != first {
				t.Errorf("seen as %v and then as %v", first, again)
			}
			if !ask.answered(t, first) {
				t.Error("an answer within the time-out does not come through")
			}
			must(t, nat.Forget())
			if ask.answered(t, first) {
				t.Error("an answer comes through although the binding is forgotten")
			}
			second := ask.seenAs(t)
			if second == first {
				t.Errorf("seen as %v as before, although the binding is forgotten", second)
			}
			time.Sleep(2500 * time.Millisecond) // beyond the time-out, which the kernel rounds up to a second
			if ask.answered(t, second) {
				t.Error("an answer comes through long after the time-out")
			}
		})
	}
}

func TestNATRefusesNonsense(t *testing.T) {
	network := ForTest(t)
	ns, err := network.Namespace("r")
	must(t, err)
	for _, name := range []string{"", strings.Repeat("x", 20)} {
		if err := (NAT{Namespace: ns, Outside: name}).Start(); err == nil || !strings.Contains(err.Error(), "not a name of an interface") {
			t.Errorf("interface %q: %v", name, err)
		}
	}
}
