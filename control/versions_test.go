// SPDX-License-Identifier: Apache-2.0

package control

import (
	"slices"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/maprequest"
	"loci/control/internal/solicit"
	"loci/lisp"
	"loci/wire"
)

// withVersion is the configuration with a Map-Version for all its EID-Prefixes.
func withVersion(c Config, version uint16, addresses ...string) Config {
	c = withDatabase(c, addresses...)
	for i := range c.ETR.Database {
		c.ETR.Database[i].Version = version
	}
	return c
}

func TestVersionsTravelInRecords(t *testing.T) {
	for _, proxy := range []bool{false, true} {
		n, x1, x2, ms := twoSites(t)
		c := withVersion(x2.config, 4095, "192.0.2.2", "2001:db8:f::2")
		c.ETR.MapServers = slices.Clone(c.ETR.MapServers)
		c.ETR.MapServers[0].ProxyReply = proxy
		x2.configure(c)
		n.run(time.Second)
		x1.miss("10.1.0.5", "10.2.0.9")
		x1.miss("2001:db8:1::5", "2001:db8:2::9")
		x2.miss("10.2.0.9", "10.1.0.5") // with proxy replies x2 knows its peers by this alone
		n.run(time.Second)
		for _, p := range []string{"10.2.0.0/16", "2001:db8:2::/48"} {
			if got := x1.cache[lisp.MustParsePrefix(p)].Mapping.Version; got != 4095 {
				t.Errorf("proxy %v: %s is cached with Map-Version %d", proxy, p, got)
			}
		}
		x2.configure(withVersion(x2.config, lisp.NextMapVersion(4095), "192.0.2.2")) // 1 is newer
		n.run(time.Second)
		x1.wantCached("10.2.0.0/16", "192.0.2.2")
		ms.wantCounter(counter.RefusedVersion, 0)
		x1.wantCounter(counter.RefusedVersion, 0)
		x2.wantCounter(counter.MapVersionNotRaised, 0)
	}
}

// Shows RFC 9302 s.5 (1), (2).
func TestMapServerRefusesOlderVersions(t *testing.T) {
	send := func(ms *testNode, id byte, nonce uint64, version uint16) {
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) {
			m.XTRID, m.Nonce, m.MergeRequest, m.Records[0].Version = [16]byte{id}, nonce, true, version
		}, "10.1.2.0/24"))
	}
	for _, c := range []struct {
		name          string
		first, second uint16
		xtr           byte
		refused       uint64
	}{
		{"newer", 69, 70, 1, 0}, {"the same", 69, 69, 1, 0}, {"older", 69, 68, 1, 1}, {"much newer", 69, 69 + 2048, 1, 0},
		{"just too much", 69, 69 + 2049, 1, 1}, {"round the circle", 4095, 1, 1, 0}, {"back round it", 1, 4095, 1, 1},
		{"no version any more", 69, 0, 1, 0}, {"the first version", 0, 69, 1, 0},
		{"older, of another xTR", 69, 68, 2, 1}, {"newer, of another xTR", 69, 70, 2, 0},
	} {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
		send(ms, 1, 10, c.first)
		send(ms, c.xtr, 11, c.second)
		if got := ms.counter(counter.RefusedVersion); got != c.refused {
			t.Errorf("%s: refused %d, want %d", c.name, got, c.refused)
		}
		if told := slices.ContainsFunc(ms.notices, func(n Notice) bool { return n.Kind == NoticeRegistrationRefused }); told != (c.refused > 0) {
			t.Errorf("%s: notices %v", c.name, ms.notices)
		}
		ms.sent = nil
		send(ms, c.xtr, 12, c.second)
		if answered := len(sentMessages[*wire.MapNotify](ms)) > 0; answered == (c.refused > 0) {
			t.Errorf("%s: acknowledged is %v", c.name, answered)
		}
	}
}

func TestOlderMapReplyIsRefused(t *testing.T) {
	n, x := loneITR(t, Limits{})
	versioned := func(version uint16, address string) lisp.Mapping {
		m := positive("10.2.0.0/16", 10)
		m.Version, m.Locators = version, locators(address)
		return m
	}
	ask := func(m lisp.Mapping) {
		n.run(4 * time.Second)
		x.itr.Requester.Ask(maprequest.Request{Prefix: m.Prefix})
		x.drain()
		answerAll(x, m)
	}
	x.miss("10.1.0.1", "10.2.0.1")
	answerAll(x, versioned(7, "192.0.2.7"))
	ask(versioned(6, "192.0.2.6"))
	x.wantCached("10.2.0.0/16", "192.0.2.7")
	x.wantCounter(counter.RefusedVersion, 1)
	ask(versioned(8, "192.0.2.8"))
	x.wantCached("10.2.0.0/16", "192.0.2.8")
	ask(versioned(0, "192.0.2.10")) // no version: not compared
	x.wantCached("10.2.0.0/16", "192.0.2.10")
	ask(versioned(6, "192.0.2.6"))
	x.wantCached("10.2.0.0/16", "192.0.2.6")
	n.run(11 * time.Minute)
	x.wantNotCached("10.2.0.0/16") // refused or not, no mapping outlives its TTL
}

// Shows RFC 9302 s.7.1 (3), RFC 9302 s.6.1 (3), RFC 9302 s.7.1 (1), (4), RFC 9302 s.7.2 (1), (2), (4).
func TestVersionsOfDataPackets(t *testing.T) {
	n, x1, x2, _ := twoSites(t)
	x1.configure(withVersion(x1.config, 50, "192.0.2.1", "2001:db8:f::1"))
	x2.configure(withVersion(x2.config, 70, "192.0.2.2", "2001:db8:f::2"))
	n.run(time.Second)
	x1.miss("10.1.0.5", "10.2.0.9")
	x1.miss("2001:db8:1::5", "2001:db8:2::9")
	n.run(5 * time.Second)
	packet := func(source, destination string, sourceVersion, destinationVersion uint16) {
		x1.HandleMapVersions(n.now, MapVersions{
			Source: eid(source), Destination: eid(destination), From: rloc("192.0.2.2"), SourceVersion: sourceVersion, DestinationVersion: destinationVersion,
		})
		x1.drain()
	}
	requests := x1.counter(counter.MapRequestSent)
	for _, c := range []struct {
		name                string
		sourceVersion       uint16
		destinationVersion  uint16
		outdated, invalid   uint64
		requests, solicited uint64
	}{
		{"both as they are", 70, 50, 0, 0, 0, 0},
		{"source version Null", 0, 50, 0, 0, 0, 0},
		{"source newer", 71, 50, 1, 0, 1, 0},
		{"source older", 69, 50, 0, 0, 0, 0},
		{"destination newer", 70, 51, 0, 1, 0, 0},
		{"destination older", 70, 49, 1, 0, 0, 1},
	} {
		for _, pair := range [][2]string{{"10.2.0.9", "10.1.0.5"}, {"2001:db8:2::9", "2001:db8:1::5"}} {
			outdated, invalid := x1.counter(counter.MapVersionOutdated), x1.counter(counter.MapVersionInvalid)
			asked, solicited := x1.counter(counter.MapRequestSent), x1.counter(counter.SMRSent)
			packet(pair[0], pair[1], c.sourceVersion, c.destinationVersion)
			n.run(time.Second)
			got := []uint64{x1.counter(counter.MapVersionOutdated) - outdated, x1.counter(counter.MapVersionInvalid) - invalid,
				x1.counter(counter.MapRequestSent) - asked, x1.counter(counter.SMRSent) - solicited}
			if want := []uint64{c.outdated, c.invalid, c.requests, c.solicited}; !slices.Equal(got, want) {
				t.Errorf("%s, from %s: %v, want %v", c.name, pair[0], got, want)
			}
			n.run(20 * time.Second)
		}
		if told := slices.ContainsFunc(x1.notices, func(n Notice) bool { return n.Kind == NoticeMapVersionInvalid }); told != (c.invalid > 0) {
			t.Errorf("%s: the operator is told: %v", c.name, told)
		}
		x1.notices = nil
	}
	for range 1000 { // a flood of forged packets
		packet("10.2.0.9", "10.1.0.5", 71, 49)
	}
	before := x1.counter(counter.SMRSent)
	n.run(30 * time.Second)
	if x1.counter(counter.SMRSent)-before > solicit.SMRTries+1 || x1.counter(counter.MapRequestSent)-requests > 5 {
		t.Errorf("a flood caused %d SMRs and %d Map-Requests", x1.counter(counter.SMRSent)-before, x1.counter(counter.MapRequestSent)-requests)
	}
	packet("172.16.0.1", "172.16.0.2", 1, 1) // of no mapping
}

// Shows RFC 9302 s.6 (1), (5).
func TestVersionThatIsNotRaised(t *testing.T) {
	n, _, x2, _ := twoSites(t)
	x2.configure(withVersion(x2.config, 7, "192.0.2.2"))
	n.run(time.Second)
	x2.configure(withVersion(x2.config, 7, "192.0.2.2", "2001:db8:f::2"))
	x2.wantCounter(counter.MapVersionNotRaised, 2)
	if !slices.ContainsFunc(x2.notices, func(n Notice) bool { return n.Kind == NoticeMapVersionNotRaised }) {
		t.Error("the operator is not told")
	}
	x2.configure(withVersion(x2.config, 8, "192.0.2.2", "2001:db8:f::2"))
	x2.wantCounter(counter.MapVersionNotRaised, 2)
	for _, m := range x2.database {
		if m.Version != 8 {
			t.Errorf("the ETR made Map-Version %d of 8", m.Version)
		}
	}
}
