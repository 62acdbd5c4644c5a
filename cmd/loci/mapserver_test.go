// SPDX-License-Identifier: Apache-2.0

package main_test

// A Map-Server that is killed: its registrations and the nonces that it saw are there again,
// for EIDs and RLOCs of both families (RFC 9301 s.5.6).

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/lisp"
	"loci/wire"
)

// msIPv6 is the Map-Server's address beside 172.16.9.2.
const msIPv6 = "2001:db8:9::2"

// Shows RFC 9301 s.5.6 (6).
func TestKilledMapServerKnowsItsRegistrations(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	configuration := fmt.Sprintf("%smap-server: {state-directory: %s, sites: [%s, %s]}\nmap-resolver: {}\n",
		n.common("ms"), filepath.Join(n.dir, "state"), siteText(1), siteText(2))
	n.run("ms", configuration)
	first, second := siteRegister(t, 1, 1000), siteRegister(t, 1, 1001)
	overIPv6 := siteRegister(t, 2, 1000)
	for _, m := range []struct {
		from, to string
		payload  []byte
	}{{"xtr1", "172.16.9.2:4342", first}, {"xtr1", "172.16.9.2:4342", second}, {"xtr2", "[" + msIPv6 + "]:4342", overIPv6}} {
		if !n.acknowledged(m.from, m.to, m.payload) {
			t.Fatalf("no Map-Notify from %s", m.to)
		}
	}
	n.awaitRegistrations(4)
	before := n.registrations()
	time.Sleep(time.Second) // what is at risk is at most this old
	n.kill("ms")
	n.start("ms")

	after := n.registrations()
	if !slices.EqualFunc(before, after, sameRegistration) {
		t.Errorf("registrations before the crash:\n%+v\nafter it:\n%+v", before, after)
	}
	// A replay from before the crash is refused; the very last message is acknowledged again.
	if n.acknowledged("xtr1", "172.16.9.2:4342", first) {
		t.Error("a replay over IPv4 was acknowledged")
	}
	if n.counter("ms", "refused_replay_total") != 1 {
		t.Errorf("%d replays were refused, want 1", n.counter("ms", "refused_replay_total"))
	}
	if !n.acknowledged("xtr1", "172.16.9.2:4342", second) || !n.acknowledged("xtr2", "["+msIPv6+"]:4342", overIPv6) {
		t.Error("the last Map-Register before the crash is not acknowledged")
	}
	if n.counter("ms", "refused_replay_total") != 1 {
		t.Error("an exact duplicate is called a replay")
	}
	// A second daemon does not write into the same directory.
	n.must(os.WriteFile(n.file("xtr1"), []byte(fmt.Sprintf("%smap-server: {state-directory: %s, sites: [%s]}\n",
		n.common("xtr1"), filepath.Join(n.dir, "state"), siteText(1))), 0o600))
	if out, status := n.loci("xtr1", "run", "--config", n.file("xtr1")); status == 0 {
		t.Errorf("a second daemon runs with the same state-directory: %s", out)
	}
}

func siteText(number int) string {
	s := testSite{number}
	return fmt.Sprintf("{name: site%d, authentication-keys: [{auth-key-value: %s}], eid-prefixes: [{eid: %s}, {eid: '%s'}]}",
		number, siteKey(number), s.eid4(), s.eid6())
}

// siteRegister is a Map-Register of both EID-Prefixes of a site with locators of both families.
func siteRegister(t *testing.T, number int, nonce uint64) []byte {
	t.Helper()
	s := testSite{number}
	set, err := lisp.NewLocatorSet(
		lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(s.rloc4())), Priority: 1, Weight: 100, Reachable: true},
		lisp.Locator{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(fmt.Sprintf("2001:db8:%d::2", number))), Priority: 1, Weight: 100, Reachable: true})
	if err != nil {
		t.Fatal(err)
	}
	m := &wire.MapRegister{
		WantMapNotify: true, XTRIDPresent: true, XTRID: [16]byte{byte(number)}, Nonce: nonce, AlgorithmID: wire.AlgorithmHMACSHA256HKDF,
		Authentication: make([]byte, wire.FullMACOctets(wire.AlgorithmHMACSHA256HKDF)),
	}
	for _, p := range []string{s.eid4(), s.eid6()} {
		m.Records = append(m.Records, wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix(p), TTLMinutes: 60, Locators: set}))
	}
	b, err := wire.AppendSigned(nil, m, []byte(siteKey(number)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// acknowledged sends a Map-Register and reports whether a Map-Notify comes to port 4342.
func (n *lispNetwork) acknowledged(from, to string, payload []byte) bool {
	n.t.Helper()
	remote := netip.MustParseAddrPort(to)
	local := netip.AddrPortFrom(netip.IPv6Unspecified(), wire.ControlPort)
	if remote.Addr().Is4() {
		local = netip.AddrPortFrom(netip.IPv4Unspecified(), wire.ControlPort)
	}
	conn, err := n.at[from].ListenUDP(local)
	n.must(err)
	defer conn.Close()
	_, err = conn.WriteToUDPAddrPort(payload, remote)
	n.must(err)
	n.must(conn.SetReadDeadline(time.Now().Add(2 * time.Second)))
	b := make([]byte, 2000)
	size, err := conn.Read(b)
	return err == nil && size > 0 && wire.MessageType(b[0]>>4) == wire.TypeMapNotify
}

func (n *lispNetwork) registrations() []api.Registration {
	n.t.Helper()
	list, err := n.client("ms").Registrations(context.Background())
	n.must(err)
	return list
}

func sameRegistration(a, b api.Registration) bool {
	return a.EIDPrefix == b.EIDPrefix && a.Site == b.Site && a.ETR == b.ETR && a.XTRID == b.XTRID && reflect.DeepEqual(a.Locators, b.Locators) &&
		a.FirstRegisteredAt.Sub(b.FirstRegisteredAt).Abs() < time.Second && a.ExpiresAt.Sub(b.ExpiresAt).Abs() < time.Second
}

func (n *lispNetwork) counter(name, counter string) uint64 {
	n.t.Helper()
	c, err := n.client(name).Counters(context.Background())
	n.must(err)
	return c.Control[counter]
}
