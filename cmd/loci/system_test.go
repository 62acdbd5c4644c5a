// SPDX-License-Identifier: Apache-2.0

package main_test

// What users rely on, from outside: hosts, packets, files and the command.

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/command"
	"loci/internal/testnet"
	"loci/lisp"
	"loci/wire"
)

// Shows RFC 9300 s.5 (3).
func TestHostsAndRoutersReachEachOther(t *testing.T) {
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	// The first packet of each pair waits for its mapping, and none is lost.
	n.ping("host1", one.host4(), two.host4(), 5)
	n.ping("host2", two.host6(), one.host6(), 5)
	// EIDs on the router itself, in both directions.
	n.ping("xtr1", one.router4(), two.host4(), 5)
	n.ping("xtr1", one.router6(), two.host6(), 5)
	n.ping("host2", two.host4(), one.router4(), 5)
	n.ping("host2", two.host6(), one.router6(), 5)
	n.ping("xtr1", one.router4(), two.router4(), 5)
	n.ping("xtr1", one.router6(), two.router6(), 5)

	var cache []api.MapCacheEntry
	n.show("xtr1", &cache, "map-cache", "10.2.0.10")
	if len(cache) != 1 || cache[0].EIDPrefix.String() != two.eid4() || len(cache[0].Locators) != 2 || cache[0].Packets == 0 {
		t.Errorf("map-cache of xtr1 for 10.2.0.10: %+v", cache)
	}
	if reachable, _ := n.at["core"].HasRoute(two.host4()); reachable {
		t.Error("the core has a route to an EID: the test proves nothing")
	}
}

// TestRouterThatDoesNotForward has EIDs on the router alone, as a mobile node has.
func TestRouterThatDoesNotForward(t *testing.T) {
	n := newLISPNetwork(t)
	n.must(n.at["xtr1"].SetSysctl("net.ipv4.ip_forward", "0"))
	n.must(n.at["xtr1"].SetSysctl("net.ipv6.conf.all.forwarding", "0"))
	n.runAll()
	one, two := testSite{1}, testSite{2}
	n.ping("xtr1", one.router4(), two.host4(), 3)
	n.ping("xtr1", one.router6(), two.host6(), 3)
	n.ping("host2", two.host4(), one.router4(), 3)
	n.ping("host2", two.host6(), one.router6(), 3)
	n.stop("xtr1", n.daemons["xtr1"])
	if value, err := n.at["xtr1"].Sysctl("net.ipv4.conf.lo.forwarding"); err != nil || value != "0" {
		t.Errorf("after a detach, forwarding of lo is %q, %v", value, err)
	}
}

func TestCrashAndRestartLoseNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	n.ping("host1", one.host4(), two.host4(), 1)
	var before, after []api.MapCacheEntry
	n.show("xtr1", &before, "map-cache")

	pinging := n.startPinging()
	for _, name := range []string{"xtr1", "xtr2"} {
		time.Sleep(300 * time.Millisecond)
		n.kill(name)
		time.Sleep(500 * time.Millisecond) // only the kernel forwards now
		n.start(name)
	}
	sent := pinging.end("two crashes and restarts")
	n.show("xtr1", &after, "map-cache")
	if len(before) != 1 || len(after) != 1 {
		t.Fatalf("map-cache before %+v, after %+v", before, after)
	}
	b, a := before[0], after[0]
	const rounding = 10 * time.Millisecond // between the clocks of kernel and wall
	if a.EIDPrefix != b.EIDPrefix || a.CreatedAt.Sub(b.CreatedAt).Abs() > rounding || a.ExpiresAt.Sub(*b.ExpiresAt).Abs() > rounding {
		t.Errorf("the entry was %+v, is %+v: age and TTL must survive", b, a)
	}
	if a.Packets < uint64(sent) {
		t.Errorf("the entry's counter shows %d packets after %d: it must survive", a.Packets, sent)
	}
}

func TestFirstPacketOfEachFlowArrives(t *testing.T) {
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	listener, err := n.at["host2"].ListenUDP(netip.AddrPortFrom(two.host4(), 5000))
	n.must(err)
	defer listener.Close()
	for port := uint16(6001); port <= 6002; port++ { // two flows, one unresolved EID
		conn, err := n.at["host1"].DialUDP(netip.AddrPortFrom(one.host4(), port), netip.AddrPortFrom(two.host4(), 5000))
		n.must(err)
		defer conn.Close()
		for sequence := byte(0); sequence < 3; sequence++ {
			_, err := conn.Write([]byte{sequence})
			n.must(err)
		}
	}
	next := map[uint16]byte{6001: 0, 6002: 0}
	n.must(listener.SetReadDeadline(time.Now().Add(30 * time.Second)))
	for range 6 {
		var b [16]byte
		_, from, err := listener.ReadFromUDPAddrPort(b[:])
		n.must(err)
		if b[0] != next[from.Port()] {
			t.Errorf("flow %d: packet %d instead of %d", from.Port(), b[0], next[from.Port()])
		}
		next[from.Port()]++
	}
}

func TestTCPConnectsThroughAMissWithoutRetransmission(t *testing.T) {
	n := newLISPNetwork(t)
	n.runAll()
	one, two := testSite{1}, testSite{2}
	result, err := testnet.TCP{
		Client: n.at["host1"], Source: one.host4(), Server: n.at["host2"], Destination: two.host4(), Octets: 1 << 20, Verify: true,
	}.Run(t.Context())
	n.must(err)
	if result.Octets != 1<<20 {
		t.Errorf("%d octets arrived", result.Octets)
	}
	if again := n.synRetransmissions("host1"); again != 0 {
		t.Errorf("%d SYNs were sent again: the first one was lost", again)
	}
}

// synRetransmissions reads the kernel's counter TCPSynRetrans of a namespace.
func (n *lispNetwork) synRetransmissions(at string) int {
	n.t.Helper()
	var text []byte
	n.must(n.at[at].Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/netstat")
		return err
	}))
	lines := strings.Split(string(text), "\n") // "TcpExt: names", "TcpExt: values"
	names, values := strings.Fields(lines[0]), strings.Fields(lines[1])
	value, err := strconv.Atoi(values[slices.Index(names, "TCPSynRetrans")])
	n.must(err)
	return value
}

// TestMapServerRefuses sends what an attacker might and reads the counters.
func TestMapServerRefuses(t *testing.T) {
	n := newLISPNetwork(t)
	n.run("ms", strings.Replace(n.mappingSystem(), "level: debug", "level: info", 1))
	conn, err := n.at["xtr1"].DialUDP(netip.AddrPort{}, netip.MustParseAddrPort("172.16.9.2:4342"))
	n.must(err)
	defer conn.Close()
	good := n.register(siteKey(1), 1000, "10.1.0.0/24")
	sent := [][]byte{
		n.register("wrong", 999, "10.1.0.0/24"),
		good,
		n.register(siteKey(1), 500, "10.1.0.0/24"), // the nonce did not grow
		n.register(siteKey(1), 2000, "10.3.0.0/24"),
		n.register(siteKey(1), 2001, "10.1.0.0/24", "10.2.0.0/24"), // the second one is the other site's
		n.register(siteKey(1), 2002, "10.1.0.0/25"),
		good[:len(good)-3],
		make([]byte, 20000),
	}
	for _, b := range sent {
		_, err := conn.Write(b)
		n.must(err)
	}
	want := []string{"authentication", "replay", "unknown_site", "prefix_outside_site", "more_specific", "truncated", "oversized"}
	var counters api.Counters
	n.await("every refusal is counted", func(ctx context.Context) bool {
		counters, err = n.client("ms").Counters(ctx)
		return err == nil && counters.Control["map_register_received_total"] > 0 && countedRefusals(counters, want) == len(want)
	})
	var list []api.Registration
	n.show("ms", &list, "registrations")
	if len(list) != 1 || list[0].EIDPrefix.String() != "10.1.0.0/24" {
		t.Errorf("registrations: %+v", list)
	}
	text, _ := n.loci("ms", "show", "counters", "--socket", n.socket("ms"))
	if countedWords(text, want) != len(want) {
		t.Errorf("loci show counters does not tell all refusals:\n%s", text)
	}
	n.await("refusals are in the log at its usual level", func(context.Context) bool {
		log := n.logs["ms"].String()
		return strings.Contains(log, `level=WARN msg=registration-refused`) && mismatchIsNamed(log) && strings.Contains(log, `reason=replay detail="nonce`) && strings.Contains(log, "reason=truncated ")
	})
}

// mismatchIsNamed reports whether the log names site and EID-Prefix of a message that did not authenticate.
func mismatchIsNamed(log string) bool {
	return slices.ContainsFunc(strings.Split(log, "\n"), func(line string) bool {
		return strings.Contains(line, `reason=authentication detail="key 0`) && strings.Contains(line, "site=site1") && strings.Contains(line, "eid_prefix=10.1.0.0/24")
	})
}

// register is a signed Map-Register for EID-Prefixes at site 1's RLOC.
func (n *lispNetwork) register(key string, nonce uint64, prefixes ...string) []byte {
	n.t.Helper()
	m := &wire.MapRegister{
		Nonce: nonce, AlgorithmID: wire.AlgorithmHMACSHA256HKDF, WantMapNotify: true,
		Authentication: make([]byte, wire.FullMACOctets(wire.AlgorithmHMACSHA256HKDF)),
	}
	for _, prefix := range prefixes {
		m.Records = append(m.Records, wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), TTLMinutes: 10, Locators: lisp.LocatorSet{
			{RLOC: lisp.RLOCFromAddr(netip.MustParseAddr(testSite{1}.rloc4())), Priority: 1, Weight: 100, Local: true, Reachable: true},
		}}))
	}
	b, err := wire.AppendSigned(nil, m, []byte(key))
	n.must(err)
	return b
}

func TestWrongConfigurationChangesNothing(t *testing.T) {
	n := newLISPNetwork(t)
	good := n.mappingSystem()
	n.must(os.WriteFile(n.file("ms"), []byte(good+"no-such-key: 1\n"), 0o600))
	out, status := n.loci("ms", "run", "--config", n.file("ms"))
	if status != 78 || !strings.Contains(out, "no-such-key") { // EX_CONFIG
		t.Fatalf("a wrong file: status %d, %s", status, out)
	}
	if _, err := os.Stat(n.socket("ms")); err == nil {
		t.Error("a daemon that did not start left its socket")
	}

	n.run("ms", good)
	n.run("xtr1", n.xtr(1))
	n.awaitRegistrations(2)
	n.must(os.WriteFile(n.file("ms"), []byte(strings.Replace(good, "site1", "site1\n      wrong: true", 1)), 0o600))
	out, status = n.loci("ms", "reload", "--socket", n.socket("ms"))
	if status != command.StatusRefused || !strings.Contains(out, "wrong") {
		t.Errorf("reload of a wrong file: status %d, %s", status, out)
	}
	n.must(n.daemons["ms"].Process.Signal(syscall.SIGHUP))
	n.await("the refused file in the log", func(context.Context) bool {
		return strings.Contains(n.logs["ms"].String(), "the configuration was not reloaded: nothing changed")
	})
	n.awaitRegistrations(2)

	n.must(os.WriteFile(n.file("ms"), []byte(strings.Replace(good, "{eid: 10.1.0.0/24}, ", "", 1)), 0o600))
	out, status = n.loci("ms", "reload", "--json", "--socket", n.socket("ms"))
	var done api.Reload
	if err := json.Unmarshal([]byte(out), &done); status != 0 || err != nil || len(done.Changes) == 0 {
		t.Errorf("reload of a right file: status %d, %s", status, out)
	}
	n.awaitRegistrations(1) // a prefix that is no longer the site's
}

func TestLigAsksAnyMapResolver(t *testing.T) {
	t.Parallel() // it mostly waits
	n := newLISPNetwork(t)
	n.runAll()
	for _, c := range []struct {
		arguments []string
		prefix    string
		negative  bool
	}{
		{[]string{"10.2.0.10", "to", "172.16.9.2"}, "10.2.0.0/24", false},
		{[]string{"fd00:2::10", "to", "2001:db8:9::2"}, "fd00:2::/64", false},
		{[]string{"fd00:2::10", "to", "172.16.9.2", "count", "1"}, "fd00:2::/64", false},
		{[]string{"192.0.2.1", "to", "172.16.9.2"}, "128.0.0.0/1", true},
		{[]string{"self"}, "10.1.0.0/24", false},
		{[]string{"self6"}, "fd00:1::/64", false},
	} {
		var answer struct {
			Mappings []api.MapCacheEntry `json:"mappings"`
		}
		out, status := n.loci("xtr1", append(append([]string{"lig"}, c.arguments...), "--json", "--socket", n.socket("xtr1"))...)
		if err := json.Unmarshal([]byte(out), &answer); status != 0 || err != nil {
			t.Errorf("lig %v: status %d, %s", c.arguments, status, out)
			continue
		}
		if len(answer.Mappings) == 0 || answer.Mappings[0].EIDPrefix.String() != c.prefix || (answer.Mappings[0].Action != nil) != c.negative {
			t.Errorf("lig %v: %s", c.arguments, out)
		}
	}
	if out, status := n.loci("xtr1", "lig", "10.2.0.10", "to", "172.16.2.1", "count", "1", "--timeout", "1s"); status != 1 || !strings.Contains(out, "no Map-Reply") {
		t.Errorf("lig to a router without LISP: status %d, %s", status, out)
	}
}

func TestDetachLeavesNoTrace(t *testing.T) {
	n := newLISPNetwork(t)
	n.runAll()
	cmd := n.daemons["xtr1"]
	n.stop("xtr1", cmd)
	err := n.at["xtr1"].Do(func() error {
		if _, err := net.InterfaceByName("loci0"); err == nil {
			t.Error("the LISP interface is still there")
		}
		return nil
	})
	n.must(err)
	if _, err := os.Stat("/sys/fs/bpf/" + n.net.Name() + "/xtr1"); err == nil {
		t.Error("the pins are still there")
	}
}

func TestVersionAndCompletion(t *testing.T) {
	for _, arguments := range [][]string{{"version"}, {"version", "--json"}, {"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"}, {"--help"}, {"show", "--help"}} {
		out, err := exec.Command(binary, arguments...).Output()
		if err != nil || len(out) == 0 {
			t.Errorf("loci %v: %v, %d octets", arguments, err, len(out))
		}
	}
}

// TestMistypedCommands: help is no answer to a script.
func TestMistypedCommands(t *testing.T) {
	for _, arguments := range [][]string{{"shov"}, {"show", "map-cash"}, {"datapath", "detatch"}, {"bench", "controll"}} {
		out, err := exec.Command(binary, arguments...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "unknown command \""+arguments[len(arguments)-1]) {
			t.Errorf("loci %v: %v, %s", arguments, err, out)
		}
	}
}

// countedRefusals counts the words that name a counter above zero.
func countedRefusals(c api.Counters, words []string) (found int) {
	for _, word := range words {
		for name, value := range c.Control {
			if strings.Contains(name, word) && value > 0 {
				found++
				break
			}
		}
	}
	return found
}

func countedWords(text string, words []string) (found int) {
	for _, word := range words {
		if strings.Contains(text, word) {
			found++
		}
	}
	return found
}
