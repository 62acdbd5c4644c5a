// SPDX-License-Identifier: Apache-2.0

package main_test

// Packets are lost between two routers whose control messages pass: the daemons' own checks find it, and the end of it. What must not
// be taken for it is here as well.

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/daemon/api"
	"loci/internal/testnet"
)

const (
	// lostToldWithin and lostOverWithin are how soon loci status of one of the routers reports it, and of both that
	// it is over.
	lostToldWithin, lostOverWithin = 30 * time.Second, 60 * time.Second
	// lostPathFor is how long each fault lasts where tests may take long.
	lostPathFor = time.Minute
)

// stream is UDP at 50 packets a second from a host to another, without return traffic.
type stream struct{ from, to int }

// startStreams runs streams of both families until the test ends, and returns where they arrive.
func (n *lispNetwork) startStreams(list ...stream) (receivers []*net.UDPConn) {
	n.t.Helper()
	const port = 4000
	for _, s := range list {
		a, b := testSite{s.from}, testSite{s.to}
		for source, destination := range map[netip.Addr]netip.Addr{a.host4(): b.host4(), a.host6(): b.host6()} {
			in, err := n.at["host"+b.name()[3:]].ListenUDP(netip.AddrPortFrom(destination, port))
			n.must(err)
			out, err := n.at["host"+a.name()[3:]].DialUDP(netip.AddrPortFrom(source, 0), netip.AddrPortFrom(destination, port))
			n.must(err)
			stop := make(chan struct{})
			n.t.Cleanup(func() { close(stop); in.Close() })
			go sendUntil(stop, out)
			receivers = append(receivers, in)
		}
	}
	return receivers
}

func sendUntil(stop <-chan struct{}, out *net.UDPConn) {
	defer out.Close()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_, _ = out.Write(make([]byte, 100))
		case <-stop:
			return
		}
	}
}

// awaitDataPath waits until `loci show locators` says so of the data paths to both RLOC families that are in use.
func (n *lispNetwork) awaitDataPath(name, rloc, state string, octets bool) {
	n.t.Helper()
	n.await(name+" says that its data path to "+rloc+" is "+state, func(ctx context.Context) bool {
		d := n.locator(ctx, name, rloc).DataPath
		return d != nil && d.State == state && (!octets || d.Octets != nil)
	})
}

// problemKinds are those that are critical or warnings.
func (n *lispNetwork) problemKinds(names ...string) (kinds []string) {
	for _, name := range names {
		h, _ := n.status(name)
		for _, p := range h.Problems {
			if p.Urgency != "notice" {
				kinds = append(kinds, name+" "+p.Kind)
			}
		}
	}
	return kinds
}

// tellsLostPath fails the test unless the router that has the problem says the same by its other commands.
func (n *lispNetwork) tellsLostPath(what, kind string, events map[string]func(string) api.Event) {
	n.t.Helper()
	for number := 1; number <= 2; number++ {
		name, other := testSite{number}.name(), testSite{3 - number}
		h, _ := n.status(name)
		at := slices.IndexFunc(h.Problems, func(p api.HealthProblem) bool { return p.Kind == kind })
		if at < 0 {
			continue
		}
		p := h.Problems[at]
		if !strings.Contains(p.What, "octets") || !strings.Contains(p.What, "control messages pass") || p.Since == nil || p.Effect == "" || p.Remedy == "" {
			n.t.Errorf("%s: %+v", what, p)
		}
		words := map[string]*regexp.Regexp{ // the largest inner packet depends on the family of the RLOC
			"data-path-lost": regexp.MustCompile("lost for"), "path-mtu-black-hole": regexp.MustCompile("loses 14[46]4 octets for"),
		}[kind]
		if out, _ := n.loci(name, "show", "locators", "--socket", n.socket(name)); !words.MatchString(out) {
			n.t.Errorf("%s: loci show locators has no %s:\n%s", what, words, out)
		}
		list, err := n.client(name).Locators(n.t.Context())
		n.must(err)
		if !slices.ContainsFunc(list, func(l api.LocatorState) bool {
			return strings.Contains(p.Subject, l.RLOC.String()) && l.DataPath != nil && l.DataPath.Since != nil && l.DataPath.Since.Equal(*p.Since)
		}) {
			n.t.Errorf("%s: loci show locators --json differs from %+v", what, p)
		}
		explained := false
		for _, eid := range []netip.Addr{other.host4(), other.host6()} {
			out, _ := n.loci(name, "explain", eid.String(), "--socket", n.socket(name))
			explained = explained || strings.Contains(out, "lost on the way")
		}
		if !explained {
			n.t.Errorf("%s: loci explain does not tell", what)
		}
		if e := events[name](kind); e.RLOC == "" || e.Fields["octets"] == "" {
			n.t.Errorf("%s: loci monitor: %+v", what, e)
		}
		return
	}
	n.t.Errorf("%s: the problem is over already", what)
}

// unitCapabilities runs a command with the capabilities of the systemd unit, and no other.
func unitCapabilities(t *testing.T) []string {
	t.Helper()
	testnet.RequireProgram(t, "setpriv")
	unit, err := os.ReadFile("../../packaging/debian/loci.service")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(unit), "\nCapabilityBoundingSet=")
	line, _, _ = strings.Cut(line, "\n")
	set := "-all"
	for name := range strings.FieldsSeq(line) {
		set += ",+" + strings.ToLower(strings.TrimPrefix(name, "CAP_"))
	}
	return []string{"setpriv", "--bounding-set=" + set, "--inh-caps=-all", "--no-new-privs"}
}

// cutPath has the core drop something and follows what the two routers report.
func (n *lispNetwork) cutPath(what, rule, kind string) {
	n.t.Helper()
	events := map[string]func(string) api.Event{}
	for _, name := range []string{"xtr1", "xtr2"} {
		await, stop := n.followEvents(name)
		defer stop()
		events[name] = await
	}
	n.nft("core", forwarded(rule))
	began := time.Now()
	n.awaitWithin(lostToldWithin, what+": one of the two says problems", func(context.Context) bool {
		return slices.ContainsFunc(n.problemKinds("xtr1", "xtr2"), func(k string) bool { return strings.HasSuffix(k, " "+kind) })
	})
	told := time.Since(began)
	n.tellsLostPath(what, kind, events)
	if os.Getenv(longTests) == "1" {
		time.Sleep(time.Until(began.Add(lostPathFor)))
	}
	if kinds := n.problemKinds("xtr1", "xtr2"); slices.ContainsFunc(kinds, func(k string) bool { return !strings.HasSuffix(k, " "+kind) }) {
		n.t.Errorf("%s: %v", what, kinds)
	}
	n.nft("core", "")
	began = time.Now()
	n.awaitWithin(lostOverWithin, what+" is over: both are healthy", func(context.Context) bool { return len(n.problemKinds("xtr1", "xtr2")) == 0 })
	n.t.Logf("%s: told after %s, over %s after its end", what, told.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond))
}

func TestLostDataPathsAreTold(t *testing.T) {
	testnet.RequireProgram(t, "nft")
	t.Parallel() // it mostly waits
	for _, engine := range []string{"kernel", "user"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			n := newLISPNetwork(t)
			n.engine, n.confine = engine, unitCapabilities(t)
			n.runAll()
			n.startStreams(stream{1, 2}, stream{2, 1})
			for number, rloc := range map[string]string{"xtr1": testSite{2}.rloc4(), "xtr2": testSite{1}.rloc4()} {
				n.awaitDataPath(number, rloc, "passes", true)
			}
			const toTwo, toOne = `iifname "to-xtr1" oifname "to-xtr2" `, `iifname "to-xtr2" oifname "to-xtr1" `
			faults := []struct{ what, rule, kind string }{
				{"4341 towards site 2", toTwo + "udp dport 4341 drop", "data-path-lost"},
				{"large packets towards site 2", toTwo + "meta length > 1400 drop", "path-mtu-black-hole"},
				{"4341 both ways", "udp dport 4341 drop", "data-path-lost"},
				{"4341 towards site 1", toOne + "udp dport 4341 drop", "data-path-lost"},
				{"large packets towards site 1", toOne + "meta length > 1400 drop", "path-mtu-black-hole"},
				{"4341 of one RLOC of two", toTwo + "meta nfproto ipv6 udp dport 4341 drop", "data-path-lost"},
				{"large packets both ways", "meta length > 1400 drop", "path-mtu-black-hole"},
			}
			if os.Getenv(longTests) != "1" {
				faults = faults[:2]
			}
			for _, f := range faults {
				n.cutPath(f.what, f.rule, f.kind)
			}
		})
	}
}

// expectNoProblems fails the test if a router has a problem within some time: ten minutes where tests may take long.
func (n *lispNetwork) expectNoProblems(short time.Duration, names ...string) {
	n.t.Helper()
	limit := short
	if os.Getenv(longTests) == "1" {
		limit = 10 * time.Minute
	}
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Second) {
		for _, name := range names {
			h, err := n.client(name).Health(n.t.Context())
			n.must(err)
			for _, p := range h.Problems {
				if p.Urgency != api.UrgencyNotice {
					n.t.Fatalf("%s: %s", name, p.What)
				}
			}
		}
	}
}

// TestNoLostDataPathIsTold: none is reported where data packets go in one direction only, hosts are down, ICMP is
// filtered, or relays answer. LOCI_LONG_TESTS=1 watches each for ten minutes.
func TestNoLostDataPathIsTold(t *testing.T) {
	testnet.RequireProgram(t, "nft")
	t.Parallel() // it mostly waits
	engines := []string{"kernel"}
	cases := map[string]func(*lispNetwork){
		"one-way UDP to a host that is down": func(n *lispNetwork) {
			n.startStreams(stream{1, 2})
			n.awaitDataPath("xtr1", testSite{2}.rloc4(), "passes", true)
			n.keepAddresses("host2")
			n.must(n.at["host2"].SetUp("eth0", false))
		},
	}
	if os.Getenv(longTests) == "1" {
		cases["one-way UDP"] = func(n *lispNetwork) {
			n.startStreams(stream{1, 2})
			n.awaitDataPath("xtr1", testSite{2}.rloc4(), "passes", true)
		}
		cases["a peer filters ICMP"] = func(n *lispNetwork) {
			n.nft("xtr2", "chain out { type filter hook output priority 0; policy accept; icmp type { echo-reply, time-exceeded, destination-unreachable } drop; "+
				"icmpv6 type { echo-reply, time-exceeded, destination-unreachable } drop; }")
			n.startStreams(stream{1, 2})
			n.await("it is in use", func(ctx context.Context) bool {
				d := n.locator(ctx, "xtr1", testSite{2}.rloc4()).DataPath
				return d != nil && d.State == "not-known" && d.CheckedAt != nil
			})
		}
		cases["a relay answers"] = (*lispNetwork).answerByRelay
		cases["another RLOC of the mapping answers"] = func(n *lispNetwork) { n.answerByAnotherRLOC(true) }
		cases["an RLOC of no mapping answers"] = func(n *lispNetwork) { n.answerByAnotherRLOC(false) }
		cases["a hundred peers"] = func(n *lispNetwork) { n.reachHundred(false) }
		cases["a hundred peers with IPv6 EIDs"] = func(n *lispNetwork) { n.reachHundred(true) }
		engines = append(engines, "user")
	}
	for name, begin := range cases {
		for _, engine := range engines {
			t.Run(name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				n := newRelayNetwork(t, "rtr1")
				n.engine = engine
				n.runAll()
				begin(n)
				n.expectNoProblems(35*time.Second, "xtr1", "xtr2")
			})
		}
	}
}

// answerByRelay has the packets of site 2 go by a relay: none come from the locators that site 1 sends to.
func (n *lispNetwork) answerByRelay() {
	n.t.Helper()
	one, two := testSite{1}, testSite{2}
	n.run("rtr1", n.rtr("rtr1", one.eid4(), one.eid6()))
	rlocs := fmt.Sprintf("[{address: %s}, {address: '%s', priority: 2}]", rlocOf("rtr1", false), rlocOf("rtr1", true))
	n.reconfigure("xtr2", n.xtrBehindRTR(2, rlocs))
	n.startStreams(stream{1, 2}, stream{2, 1})
	n.awaitDataPath("xtr1", two.rloc4(), "passes", false)
}

// answerByAnotherRLOC has all packets of site 2 leave from RLOCs at a second link, while those to it come to the RLOCs
// of the first one. Site 1 knows the second ones where they are registered.
func (n *lispNetwork) answerByAnotherRLOC(registered bool) {
	n.t.Helper()
	two := testSite{2}
	second := []string{"172.16.22.1/30", "172.16.22.2/30", "2001:db8:22::1/64", "2001:db8:22::2/64"}
	n.link("core", "to-xtr2b", "xtr2", "core1", second...)
	for to, via := range map[string]string{"172.16.1.0/30": "172.16.22.1", "2001:db8:1::/64": "2001:db8:22::1"} {
		route := testnet.Route{Destination: netip.MustParsePrefix(to), Via: netip.MustParseAddr(via)}
		n.must(n.at["xtr2"].AddRoute(route))
	}
	// The router sends from RLOCs of the first core interface; others send to the RLOCs of the best priority.
	const other4, other6 = "{address: 172.16.22.2, priority: 2}, ", "{address: '2001:db8:22::2', priority: 2}, "
	configuration := n.xtrOfFamilies(2, other4, other6)
	n.reconfigure("xtr2", strings.Replace(configuration, "core: [core0]", "core: [core1, core0]", 1))
	configuration = n.xtrOfFamilies(1, "", "")
	if !registered {
		const itr = "itr: {map-resolvers: [172.16.9.2]"
		static := fmt.Sprintf("{eid: %s, rlocs: [{address: %s}]}, {eid: '%s', rlocs: [{address: '%s'}]}",
			two.eid4(), two.rloc4(), two.eid6(), rlocOf("xtr2", true))
		configuration = strings.Replace(configuration, itr, itr+", map-cache: {mappings: ["+static+"]}", 1)
	}
	n.reconfigure("xtr1", configuration)
	byFirst, bySecond := n.watchCore("xtr2"), n.watchCore("xtr2b")
	n.startStreams(stream{1, 2}, stream{2, 1})
	for _, ipv6 := range []bool{false, true} {
		to := rlocOf("xtr1", ipv6)
		n.await("packets come by the second link to "+to, func(context.Context) bool {
			count, _, _ := bySecond.to(to)
			return count > 100
		})
		n.awaitDataPath("xtr1", rlocOf("xtr2", ipv6), "passes", false)
		n.awaitDataPath("xtr2", to, "passes", false)
		if count, _, _ := byFirst.to(to); count > 0 {
			n.t.Errorf("%d packets come by the first link to %s", count, to)
		}
	}
}

// xtrOfFamilies is a site's configuration with IPv4 RLOCs for IPv4 EIDs and IPv6 RLOCs for IPv6 EIDs: these, and the
// site's own ones behind them.
func (n *lispNetwork) xtrOfFamilies(number int, rlocs4, rlocs6 string) string {
	s := testSite{number}
	eid4, eid6 := "{eid: "+s.eid4(), "{eid: '"+s.eid6()+"'"
	return strings.NewReplacer(
		eid4+"}", eid4+", rlocs: ["+rlocs4+"{address: "+s.rloc4()+"}]}",
		eid6+"}", eid6+", rlocs: ["+rlocs6+"{address: '"+rlocOf(s.name(), true)+"'}]}",
	).Replace(n.xtr(number))
}

// reachHundred has site 1 send to a hundred EIDs of site 2, each with an RLOC of its own. One kernel answers the checks
// of all, with Linux's icmp_ratelimit: a hundred peers with a kernel each answer more.
func (n *lispNetwork) reachHundred(by6 bool) {
	n.t.Helper()
	one, two := testSite{1}, testSite{2}
	source, format := one.host4(), "10.2.0.%d"
	if by6 {
		source, format = one.host6(), "fd00:2::%d"
	}
	// Linux limits echo replies only where it is asked to. Nothing but checks is answered.
	n.must(n.at["xtr2"].SetSysctl("net.ipv4.icmp_ratemask", "6169"))
	n.must(n.at["xtr2"].SetSysctl("net.ipv6.icmp.ratemask", "0-1,3-127,129"))
	n.nft("xtr2", "chain out { type filter hook output priority 0; policy accept; "+
		"icmp type destination-unreachable drop; icmpv6 type destination-unreachable drop; }")
	static, sockets, own := "", []*net.UDPConn{}, map[int]string{}
	for i := 100; i < 200; i++ {
		eid, rloc := netip.MustParseAddr(fmt.Sprintf(format, i)), fmt.Sprintf("172.16.2.%d", i)
		n.must(n.at["xtr2"].AddAddress("lo", netip.MustParsePrefix(rloc+"/32")))
		n.must(n.at["core"].AddRoute(testnet.Route{
			Destination: netip.MustParsePrefix(rloc + "/32"), Via: netip.MustParseAddr(two.rloc4()),
		}))
		n.must(n.at["xtr2"].AddAddress("lo", netip.PrefixFrom(eid, eid.BitLen())))
		static += fmt.Sprintf("{eid: '%s/%d', rlocs: [{address: %s}]}, ", eid, eid.BitLen(), rloc)
		own[i/25] += "{address: " + rloc + "}, "
		out, err := n.at["host1"].DialUDP(netip.AddrPortFrom(source, 0), netip.AddrPortFrom(eid, 4000))
		n.must(err)
		sockets = append(sockets, out)
	}
	n.ownHundred(own)
	const itr = "itr: {map-resolvers: [172.16.9.2]"
	n.reconfigure("xtr1", strings.Replace(n.xtr(1), itr, itr+", map-cache: {mappings: ["+static+"]}", 1))
	stop := make(chan struct{})
	n.t.Cleanup(func() { close(stop) })
	go sendToEach(stop, sockets)
	manyPass := func(ctx context.Context) bool {
		list, err := n.client("xtr1").Locators(ctx)
		passing := 0
		for _, l := range list {
			if l.DataPath != nil && l.DataPath.State == "passes" {
				passing++
			}
		}
		return err == nil && passing >= 20 && n.counter("xtr1", "data_path_check_unanswered_total") >= 20
	}
	n.awaitWithin(3*time.Minute, "many paths pass, and many checks are not answered", manyPass)
}

// ownHundred has the router of site 2 decapsulate what comes to these RLOCs, each set for an EID-Prefix of its own, and
// answer the RLOC-probes of all, as a hundred routers would.
func (n *lispNetwork) ownHundred(rlocs map[int]string) {
	n.t.Helper()
	two := testSite{2}
	registered, local := "", ""
	for i, set := range rlocs {
		registered += fmt.Sprintf(", {eid: 10.102.%d.0/24}", i)
		local += fmt.Sprintf(", {eid: 10.102.%d.0/24, rlocs: [%s]}", i, set)
	}
	last := "{eid: '" + two.eid6() + "'}"
	n.reconfigure("ms", strings.Replace(n.mappingSystem(), last, last+registered, 1))
	rlocs4 := ", rlocs: [{address: " + two.rloc4() + "}]}"
	local = two.eid4() + rlocs4 + ", {eid: '" + two.eid6() + "'" + rlocs4 + local + "]"
	n.reconfigure("xtr2", strings.Replace(n.xtr(2), two.eid4()+"}, "+last+"]", local, 1)+
		"limits: {rloc-probe-replies: {rate: 100/s, burst: 200}}\n")
	n.awaitRegistrations(4 + len(rlocs))
}

// sendToEach sends one packet a second by each socket.
func sendToEach(stop <-chan struct{}, sockets []*net.UDPConn) {
	ticker := time.NewTicker(time.Second / time.Duration(len(sockets)))
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ticker.C:
			_, _ = sockets[i%len(sockets)].Write(make([]byte, 100))
		case <-stop:
			return
		}
	}
}
