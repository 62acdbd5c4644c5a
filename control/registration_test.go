// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/control/internal/counter"
	"loci/control/internal/settings"
	"loci/lisp"
	"loci/wire"
)

// Shows RFC 9301 s.1.1 (4), RFC 9301 s.5.6 (1), (10), (11), RFC 9301 s.9 (2).
func TestRegistration(t *testing.T) {
	for _, algorithm := range []uint8{1, 2, 3, 0} {
		for _, truncated := range []bool{false, true} {
			key := Key{ID: 4, Algorithm: algorithm, Secret: []byte("x"), TruncatedMAC: truncated}
			n := newNetwork(t)
			c := mapServerConfig("10.1.0.0/16")
			c.MapServer.Sites[0].Keys = []Key{secret(1), key}
			ms := n.add("ms", c, "192.0.2.100")
			x := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16")
			x.ETR.MapServers[0].Key = key
			x1 := n.add("x1", x, "192.0.2.1")
			n.run(time.Second)
			list := ms.registered()
			if len(list) != 1 {
				t.Fatalf("algorithm %d: %d registrations, counters of refusal %v", algorithm, len(list), refusals(ms))
			}
			r := list[0]
			if r.Prefix.String() != "10.1.0.0/16" || r.KeyID != 4 || r.XTRID != [16]byte{1} || r.SiteID != 7 || r.From.String() != "192.0.2.1:4342" {
				t.Errorf("algorithm %d: registered %+v", algorithm, r)
			}
			if algorithm == 0 && r.Algorithm != 3 {
				t.Errorf("the default algorithm is %d", r.Algorithm)
			}
			for s := range x1.MapServers() {
				if s.State != MapServerRegistered || s.Prefixes != 1 || s.LastNotifyAt.IsZero() {
					t.Errorf("algorithm %d: status %+v", algorithm, s)
				}
			}
		}
	}
}

func refusals(d *testNode) []string {
	var list []string
	for i, n := range d.host.Counters {
		if c := Counter(i); c.IsRefusal() && n > 0 {
			list = append(list, c.Reason())
		}
	}
	return list
}

// Shows RFC 9301 s.8.2 (3).
func TestRegistrationIsPeriodicAndExpires(t *testing.T) {
	n, x1, _, ms := twoSites(t)
	n.run(10*time.Minute + 30*time.Second)
	if got := x1.counter(counter.MapRegisterSent); got != 11 {
		t.Errorf("%d Map-Registers in ten minutes and a half", got)
	}
	x1.wantCounter(counter.MapRegisterRetransmitted, 0)
	ms.wantCounter(counter.RefusedReplay, 0)
	if len(ms.registered()) != 4 {
		t.Errorf("%d registrations", len(ms.registered()))
	}
	n.lose = func(from *testNode, _ SendPacket) bool { return from == x1 }
	n.run(2 * time.Minute)
	if len(ms.registered()) != 4 {
		t.Errorf("%d registrations after two minutes of silence", len(ms.registered()))
	}
	n.run(70 * time.Second)
	if len(ms.registered()) != 2 {
		t.Errorf("%d registrations after more than three minutes of silence", len(ms.registered()))
	}
	ms.wantCounter(counter.RegistrationExpired, 2)
	for s := range x1.MapServers() {
		if s.State != MapServerWaiting || s.Unacknowledged == 0 {
			t.Errorf("status %+v", s)
		}
	}
	n.lose = nil
	n.run(time.Minute)
	if len(ms.registered()) != 4 {
		t.Errorf("%d registrations after the silence", len(ms.registered()))
	}
}

// TestRegisterRetransmission: after 1, 2, 4 s and so on, a minute at most. Of the Map-Registers to a Map-Server that
// acknowledges nothing exactly one has a maximum of 3.5 s, so that its return is noticed; the others still double to a
// minute.
//
// Shows RFC 9301 s.5.7 (1).
func TestRegisterRetransmission(t *testing.T) {
	prefixes := []string{"10.1.0.0/16", "10.2.0.0/16", "2001:db8:1::/48", "2001:db8:2::/48"}
	n := newNetwork(t)
	n.lose = func(*testNode, SendPacket) bool { return true }
	x1 := n.add("x1", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, prefixes...), "192.0.2.1")
	n.run(100 * time.Minute) // for ever
	x1.keepMapRegisters()
	var last uint64
	sent := map[lisp.Prefix][]time.Time{}
	for i, p := range x1.sent {
		m, err := wire.Parse(p.Payload)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range m.(*wire.MapRegister).Records {
			prefix, _ := record.Prefix()
			sent[prefix] = append(sent[prefix], x1.sentAt[i])
		}
		nonce := nonceOf(p.Payload)
		if nonce <= last {
			t.Errorf("nonce %d after %d", nonce, last)
		}
		last = nonce
	}
	often := 0
	for prefix, times := range sent {
		// All go in one message. After three in vain each has one of its own; its first one has no backoff.
		if len(times) > 1000 {
			often++
			wantGaps(t, prefix, times, []int{1, 2, 3, 1, 2}, 2625*time.Millisecond, 3500*time.Millisecond)
			continue
		}
		wantGaps(t, prefix, times, []int{1, 2, 3, 1, 2, 4, 8, 16, 32}, 45*time.Second, time.Minute)
		if len(times) < 100 {
			t.Errorf("%s is in %d Map-Registers in 100 minutes", prefix, len(times))
		}
	}
	if often != 1 || len(sent) != len(prefixes) {
		t.Errorf("%d of %d EID-Prefixes go every three seconds, want 1 of %d", often, len(sent), len(prefixes))
	}
	if !slices.ContainsFunc(x1.notices, func(n Notice) bool { return n.Kind == NoticeMapServerSilent }) {
		t.Error("no notice that the Map-Server is silent")
	}
}

// wantGaps checks how far apart the Map-Registers of an EID-Prefix were sent: the first ones so many seconds (those of
// a maximum with its jitter, all with the spacing of several messages), the others at least and at most so far.
func wantGaps(t *testing.T, prefix lisp.Prefix, sent []time.Time, first []int, least, most time.Duration) {
	t.Helper()
	for i := 1; i < len(sent); i++ {
		gap, shortest, longest := sent[i].Sub(sent[i-1]), least, most
		if i <= len(first) {
			shortest = time.Duration(first[i-1]) * time.Second
			longest = shortest + 100*time.Millisecond
			if first[i-1] == 3 {
				shortest, longest = 2625*time.Millisecond, 3500*time.Millisecond
			}
		}
		if gap < shortest || gap > longest {
			t.Errorf("%s: Map-Register %d after %s, want %s to %s", prefix, i+1, gap, shortest, longest)
		}
	}
}

// Shows RFC 9301 s.5.6 (4).
func TestNonceGrowsOverRestarts(t *testing.T) {
	n, x1, _, ms := twoSites(t)
	for range 5 {
		n.run(3 * time.Second)
		x1.start()
	}
	n.run(3 * time.Second)
	ms.wantCounter(counter.RefusedReplay, 0)
	x1.wantCounter(counter.MapRegisterRetransmitted, 0)
	if len(x1.sent) != 6 {
		t.Fatalf("%d Map-Registers", len(x1.sent))
	}
	for i := 1; i < len(x1.sent); i++ {
		if nonceOf(x1.sent[i].Payload) <= nonceOf(x1.sent[i-1].Payload) {
			t.Errorf("nonce %d after %d", nonceOf(x1.sent[i].Payload), nonceOf(x1.sent[i-1].Payload))
		}
	}
	if r := ms.registered()[0]; n.now.Sub(r.LastRegisteredAt) > 4*time.Second {
		t.Errorf("the last registration is of %s", r.LastRegisteredAt)
	}
}

// TestNonceGrowsThoughTheClockGoesBack between two runs, where the last nonce is known; elsewhere it is refused until the clock has caught up.
func TestNonceGrowsThoughTheClockGoesBack(t *testing.T) {
	for _, known := range []bool{true, false} {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
		x := n.add("x", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16"), "192.0.2.1")
		n.run(time.Second)
		last := uint64(0)
		if known {
			last = x.LastRegisterNonce()
		}
		again, err := Restarted(x.config, epoch.Add(-time.Hour), testRandom(9), last)
		if err != nil {
			t.Fatal(err)
		}
		for e, ok := again.Poll(); ok; e, ok = again.Poll() {
			if p, ok := e.(SendPacket); ok {
				ms.inject("192.0.2.100:4342", "192.0.2.1:4342", p.Payload)
			}
		}
		if refused := ms.counter(counter.RefusedReplay) > 0; refused == known {
			t.Errorf("the last nonce is known: %v; refused as a replay: %v", known, refused)
		}
	}
}

func TestLostMapNotifyIsRepeated(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	lost := 0
	n.lose = func(from *testNode, p SendPacket) bool {
		lose := from == ms && lost < 2
		if lose {
			lost++
		}
		return lose
	}
	x1 := n.add("x1", xtrConfig(1, "192.0.2.100", []string{"192.0.2.1"}, "10.1.0.0/16"), "192.0.2.1")
	n.run(10 * time.Second)
	x1.wantCounter(counter.MapRegisterSent, 3)
	x1.wantCounter(counter.MapNotifyReceived, 1)
	ms.wantCounter(counter.MapNotifySent, 3)
	ms.wantCounter(counter.RefusedReplay, 0)
}

func TestMapNotifyGoesToTheControlPort(t *testing.T) {
	n, x1, _, ms := twoSites(t)
	payload := bytes.Clone(x1.sent[0].Payload)
	ms.inject("192.0.2.100:4342", "192.0.2.1:61000", payload)
	last := ms.sent[len(ms.sent)-1]
	if last.Remote.String() != "192.0.2.1:4342" || last.Local.String() != "192.0.2.100:4342" {
		t.Errorf("the Map-Notify went from %s to %s", last.Local, last.Remote)
	}
	n.run(time.Second)
	if m := sentMessages[*wire.MapNotify](ms)[0]; m.Nonce != nonceOf(payload) || len(m.Records) != 2 {
		t.Errorf("the Map-Notify is %+v", m)
	}
}

// register makes a signed Map-Register, changed before it is signed.
func register(t *testing.T, change func(*wire.MapRegister), prefixes ...string) []byte {
	t.Helper()
	m := wire.MapRegister{
		WantMapNotify: true, XTRIDPresent: true, XTRID: [16]byte{1}, SiteID: 7, Nonce: 1000, KeyID: 1, AlgorithmID: 3,
		Authentication: make([]byte, 32),
	}
	for _, p := range prefixes {
		m.Records = append(m.Records, wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix(p), TTLMinutes: 10, Locators: locators("192.0.2.1")}))
	}
	if change != nil {
		change(&m)
	}
	b, err := wire.AppendSigned(nil, &m, secret(1).Secret)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Shows RFC 9301 s.5.1 (1), RFC 9301 s.8.2 (2), RFC 9301 s.9 (3).
func TestRefusedRegistrations(t *testing.T) {
	valid := func(t *testing.T) []byte { return register(t, nil, "10.1.2.0/24") }
	for _, c := range []struct {
		name    string
		refused string
		message func(t *testing.T) []byte
	}{
		{"nothing", "", valid},
		{"wrong key", "authentication", func(t *testing.T) []byte {
			m, _ := wire.Parse(valid(t))
			b, _ := wire.AppendSigned(nil, m, []byte("another secret"))
			return b
		}},
		{"changed octet", "authentication", func(t *testing.T) []byte { b := valid(t); b[len(b)-26]++; return b }},
		{"changed xTR-ID", "authentication", func(t *testing.T) []byte { b := valid(t); b[len(b)-10]++; return b }},
		{"changed MAC", "authentication", func(t *testing.T) []byte { b := valid(t); b[20]++; return b }},
		{"no MAC", "algorithm", func(t *testing.T) []byte {
			return append([]byte(nil), unsigned(t, func(m *wire.MapRegister) { m.AlgorithmID = 0 })...)
		}},
		{"weaker algorithm", "algorithm", func(t *testing.T) []byte {
			return register(t, func(m *wire.MapRegister) { m.AlgorithmID, m.Authentication = 1, make([]byte, 20) }, "10.1.2.0/24")
		}},
		{"unknown key", "unknown-key", func(t *testing.T) []byte {
			return register(t, func(m *wire.MapRegister) { m.KeyID = 9 }, "10.1.2.0/24")
		}},
		{"no record", "no-record", func(t *testing.T) []byte { return register(t, nil) }},
		{"unknown site", "unknown-site", func(t *testing.T) []byte { return register(t, nil, "10.9.0.0/16") }},
		{"another Instance-ID", "unknown-site", func(t *testing.T) []byte { return register(t, nil, "[5]10.1.2.0/24") }},
		{"aggregate of the site's", "unknown-site", func(t *testing.T) []byte { return register(t, nil, "10.0.0.0/8") }},
		{"more specific than allowed", "more-specific", func(t *testing.T) []byte { return register(t, nil, "10.3.1.0/24") }},
		{"truncated", "truncated", func(t *testing.T) []byte { return valid(t)[:60] }},
		{"trailing", "trailing-octets", func(t *testing.T) []byte { return append(valid(t), 0) }},
		{"oversized", "oversized", func(t *testing.T) []byte { return append(valid(t), make([]byte, 10000)...) }},
		{"empty", "truncated", func(*testing.T) []byte { return nil }},
		{"unknown AFI", "unknown-afi", func(t *testing.T) []byte {
			b := valid(t)
			at := bytes.Index(b, []byte{0, 1, 10, 1, 2, 0})
			b[at+1] = 99
			return b
		}},
	} {
		n := newNetwork(t)
		cfg := mapServerConfig("10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16")
		cfg.MapServer.Sites[2].Prefixes[0].AcceptMoreSpecifics = false
		ms := n.add("ms", cfg, "192.0.2.100")
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", c.message(t))
		want := []string{c.refused}
		if c.refused == "" {
			want = nil
		}
		if got := refusals(ms); !slices.Equal(got, want) {
			t.Errorf("%s: refused as %v, want %v", c.name, got, want)
		}
		if accepted := len(ms.registered()) > 0; accepted != (c.refused == "") {
			t.Errorf("%s: registered: %v", c.name, ms.registered())
		}
		if answered := len(ms.sent) > 0; answered != (c.refused == "") {
			t.Errorf("%s: answered with %v", c.name, ms.sent)
		}
		told := slices.ContainsFunc(ms.notices, func(n Notice) bool { return n.Kind == NoticeRegistrationRefused || n.Kind == NoticeMessageRefused })
		if told != (c.refused != "") {
			t.Errorf("%s: notices %v", c.name, ms.notices)
		}
	}
}

func unsigned(t *testing.T, change func(*wire.MapRegister)) []byte {
	t.Helper()
	parsed, err := wire.Parse(register(t, nil, "10.1.2.0/24"))
	if err != nil {
		t.Fatal(err)
	}
	m := parsed.(*wire.MapRegister)
	change(m)
	b, err := m.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Shows RFC 9301 s.5.6 (7).
func TestReplay(t *testing.T) {
	at := func(nonce uint64) func(*wire.MapRegister) { return func(m *wire.MapRegister) { m.Nonce = nonce } }
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	send := func(b []byte) { ms.inject("192.0.2.100:4342", "192.0.2.1:4342", b) }
	first := register(t, at(1000), "10.1.2.0/24")
	send(first)
	n.run(2 * time.Minute)
	send(first) // an exact duplicate: acknowledged again, nothing changed
	ms.wantCounter(counter.MapNotifySent, 2)
	ms.wantCounter(counter.RefusedReplay, 0)
	if r := ms.registered()[0]; !r.LastRegisteredAt.Equal(epoch) {
		t.Error("a duplicate refreshed the registration")
	}
	send(register(t, at(1000), "10.1.3.0/24")) // same nonce, another message
	send(register(t, at(999), "10.1.2.0/24"))
	ms.wantCounter(counter.RefusedReplay, 2)
	ms.wantCounter(counter.MapNotifySent, 2)
	n.run(90 * time.Second)
	if len(ms.registered()) != 0 {
		t.Error("replays kept the registration alive")
	}
	send(first) // even when nothing of it is left
	if len(ms.registered()) != 0 {
		t.Error("a replay brought the registration back")
	}
	send(register(t, at(1001), "10.1.2.0/24"))
	if len(ms.registered()) != 1 {
		t.Error("a greater nonce was refused")
	}
	// Another xTR has its own nonces; without an xTR-ID the key has.
	send(register(t, func(m *wire.MapRegister) { m.Nonce, m.XTRID = 5, [16]byte{2} }, "10.1.2.0/24"))
	send(register(t, func(m *wire.MapRegister) { m.Nonce, m.XTRIDPresent = 5, false }, "10.1.2.0/24"))
	ms.wantCounter(counter.RefusedReplay, 2)
	ms.inject("192.0.2.100:4342", "192.0.2.77:4342", register(t, func(m *wire.MapRegister) { m.Nonce, m.XTRIDPresent = 4, false }, "10.1.2.0/24"))
	ms.wantCounter(counter.RefusedReplay, 3)
}

func TestXTRIDOutsideTheMACIsNotTrusted(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	b := register(t, nil, "10.1.2.0/24")
	if err := wire.SignOver(b, secret(1).Secret, wire.CoverRecords); err != nil {
		t.Fatal(err)
	}
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", b)
	if r := ms.registered(); len(r) != 1 || r[0].XTRID != [16]byte{} {
		t.Errorf("registered %+v", r)
	}
	b[len(b)-10]++ // another xTR-ID, the MAC still verifies
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", b)
	if r := ms.registered(); len(r) != 1 {
		t.Errorf("registered %+v", r)
	}
	n.run(time.Second)
}

func TestAcceptAnyNonce(t *testing.T) {
	n := newNetwork(t)
	c := mapServerConfig("10.1.0.0/16")
	c.MapServer.Sites[0].AcceptAnyNonce = true
	ms := n.add("ms", c, "192.0.2.100")
	for _, nonce := range []uint64{7, 3, 3, 0} {
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.Nonce = nonce }, "10.1.2.0/24"))
	}
	ms.wantCounter(counter.RegistrationAccepted, 4)
	ms.wantCounter(counter.MapNotifySent, 4)
}

func TestUseTTLAndWithdrawal(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.UseTTL = true }, "10.1.2.0/24"))
	n.run(9 * time.Minute)
	if len(ms.registered()) != 1 {
		t.Error("T is not obeyed")
	}
	n.run(2 * time.Minute)
	if len(ms.registered()) != 0 {
		t.Error("the registration outlives its TTL")
	}
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.Nonce = 1001 }, "10.1.2.0/24", "10.1.3.0/24"))
	ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.Nonce, m.Records[0].TTLMinutes = 1002, 0 }, "10.1.2.0/24"))
	if r := ms.registered(); len(r) != 1 || r[0].Prefix.String() != "10.1.3.0/24" {
		t.Errorf("registered %+v", r)
	}
	ms.wantCounter(counter.RegistrationWithdrawn, 1)
	ms.wantCounter(counter.MapNotifySent, 3)
}

func TestMerging(t *testing.T) {
	from := func(id byte, nonce uint64, merge bool, addresses ...string) func(*wire.MapRegister) {
		return func(m *wire.MapRegister) {
			m.XTRID, m.Nonce, m.MergeRequest, m.ProxyReply = [16]byte{id}, nonce, merge, true
			m.Records = []wire.Record{wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix("10.1.2.0/24"), TTLMinutes: 10, Locators: locators(addresses...)})}
		}
	}
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	send := func(source string, change func(*wire.MapRegister)) {
		t.Helper()
		ms.inject("192.0.2.100:4342", source+":4342", register(t, change, "10.1.2.0/24"))
	}
	want := func(addresses ...string) {
		t.Helper()
		list := ms.registered()
		if len(list) == 0 || !list[0].Merged.Locators.Equal(locators(addresses...)) {
			t.Errorf("the answer is %+v, want %v", list, addresses)
		}
	}
	send("192.0.2.1", from(1, 10, true, "192.0.2.1"))
	want("192.0.2.1")
	send("192.0.2.2", from(2, 10, true, "192.0.2.2"))
	want("192.0.2.1", "192.0.2.2")
	send("192.0.2.1", from(1, 11, true, "192.0.2.11")) // the set of that xTR is replaced
	want("192.0.2.2", "192.0.2.11")
	send("192.0.2.3", from(3, 10, false, "192.0.2.3")) // without a, it speaks for all
	want("192.0.2.3")
	send("192.0.2.1", from(1, 12, true, "192.0.2.1"))
	want("192.0.2.1", "192.0.2.2")
	n.run(2 * time.Minute)
	send("192.0.2.1", from(1, 13, true, "192.0.2.1"))
	n.run(70 * time.Second) // the others expire
	want("192.0.2.1")
	if len(ms.registered()) != 1 {
		t.Errorf("registered %+v", ms.registered())
	}
}

func TestMergedLocatorsAreBounded(t *testing.T) {
	n := newNetwork(t)
	ms := n.add("ms", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	for id := range byte(3) {
		var addresses []string
		for i := range byte(15) {
			addresses = append(addresses, netip.AddrFrom4([4]byte{198, 51, id, i + 1}).String())
		}
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) {
			m.XTRID, m.MergeRequest = [16]byte{id + 1}, true
			m.Records[0] = wire.RecordOf(lisp.Mapping{Prefix: lisp.MustParsePrefix("10.1.2.0/24"), TTLMinutes: 10, Locators: locators(addresses...)})
		}, "10.1.2.0/24"))
	}
	ms.wantCounter(counter.RefusedLocators, 1)
	if got := len(ms.registered()[0].Merged.Locators); got != 30 {
		t.Errorf("%d locators", got)
	}
}

func TestRegistrationLimits(t *testing.T) {
	for _, c := range []struct {
		limits  Limits
		refused Counter
	}{
		{Limits{Registrations: 5}, counter.RefusedRegistrationTable},
		{Limits{RegistrationsPerSite: 5}, counter.RefusedSiteTable},
	} {
		n := newNetwork(t)
		cfg := mapServerConfig("10.1.0.0/16")
		cfg.Limits = c.limits
		ms := n.add("ms", cfg, "192.0.2.100")
		for i := range 20 {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i), 0}), 24).String()
			ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.Nonce = uint64(i) + 1 }, p))
		}
		if len(ms.registered()) != 5 {
			t.Errorf("%d registrations", len(ms.registered()))
		}
		ms.wantCounter(c.refused, 15)
	}
	n := newNetwork(t)
	cfg := mapServerConfig("10.1.0.0/16")
	cfg.Limits = Limits{RegistrantsPerPrefix: 3, ReplayEntriesPerSite: 10}
	ms := n.add("ms", cfg, "192.0.2.100")
	for i := range byte(20) {
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.XTRID = [16]byte{i + 1} }, "10.1.0.0/16"))
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", register(t, func(m *wire.MapRegister) { m.XTRID, m.Nonce = [16]byte{i + 1}, 1001 },
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, i, 0}), 24).String()))
	}
	if got := len(ms.registered()); got != 3+10 {
		t.Errorf("%d registrations", got)
	}
	ms.wantCounter(counter.RefusedRegistrants, 7)
	ms.wantCounter(counter.RefusedReplayTable, 20)
}

// Shows RFC 9301 s.5 (2).
func TestRegistrationsSplit(t *testing.T) {
	for _, c := range []struct {
		ms, x string
		limit int
	}{{"192.0.2.100", "192.0.2.1", 548}, {"2001:db8:f::100", "2001:db8:f::1", 1232}} {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.1.0.0/16"), c.ms)
		var prefixes []string
		for i := range 200 {
			prefixes = append(prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i), 0}), 24).String())
		}
		x1 := n.add("x1", xtrConfig(1, c.ms, []string{c.x}, prefixes...), c.x)
		n.run(2 * time.Minute)
		if len(ms.registered()) != 200 {
			t.Errorf("%d registrations", len(ms.registered()))
		}
		x1.wantCounter(counter.MapRegisterRetransmitted, 0)
		for _, p := range x1.sent {
			if len(p.Payload) > c.limit || len(p.Payload) < c.limit/3 {
				t.Errorf("a Map-Register of %d octets, want up to %d", len(p.Payload), c.limit)
			}
		}
	}
}

func TestDatabaseChangeRegistersAtOnce(t *testing.T) {
	n, x1, _, ms := twoSites(t)
	n.run(10 * time.Second)
	c := x1.config
	etr := *c.ETR
	etr.Database = []DatabaseMapping{
		{Prefix: lisp.MustParsePrefix("10.1.0.0/16"), Locators: locators("192.0.2.1")}, // changed
		{Prefix: lisp.MustParsePrefix("10.1.9.0/24"), Locators: locators("192.0.2.1")}, // new; the IPv6 one is gone
	}
	c.ETR = &etr
	x1.configure(c)
	n.run(100 * time.Millisecond)
	var got []string
	for _, r := range ms.registered() {
		if r.Site == "site 10.1.0.0/16 2001:db8:1::/48" {
			got = append(got, r.Merged.String())
		}
	}
	want := []string{"10.1.0.0/16 -> [192.0.2.1 1/100]", "10.1.9.0/24 -> [192.0.2.1 1/100]"}
	if !slices.Equal(got, want) {
		t.Errorf("registered %v, want %v", got, want)
	}
	if len(x1.database) != 2 {
		t.Errorf("the data plane's Database is %v", x1.database)
	}
	sent := len(x1.sent)
	x1.configure(c) // the same again
	if len(x1.sent) != sent {
		t.Error("an unchanged configuration sent something")
	}
	n.run(5 * time.Minute)
	x1.wantCounter(counter.MapRegisterRetransmitted, 0)
}

func TestSeveralMapServers(t *testing.T) {
	n := newNetwork(t)
	a := n.add("a", mapServerConfig("10.1.0.0/16"), "192.0.2.100")
	b := n.add("b", mapServerConfig("10.1.0.0/16"), "2001:db8:f::100")
	c := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1", "2001:db8:f::1"}, "10.1.0.0/16")
	c.ETR.MapServers = append(c.ETR.MapServers, MapServerPeer{Address: addrPort("2001:db8:f::100"), Key: secret(1), UseTTL: true})
	x1 := n.add("x1", c, "192.0.2.1", "2001:db8:f::1")
	n.run(5*time.Minute + time.Second)
	if len(a.registered()) != 1 || len(b.registered()) != 1 {
		t.Errorf("registered %v and %v", a.registered(), b.registered())
	}
	a.wantCounter(counter.MapNotifySent, 6)
	b.wantCounter(counter.MapNotifySent, 0)
	for s := range x1.MapServers() {
		if s.Address.Addr().Is6() && s.State != MapServerSent {
			t.Errorf("status %+v", s)
		}
	}
}

func TestUnsolicitedMapNotifyIsAcknowledged(t *testing.T) {
	n, x1, _, ms := twoSites(t)
	n.run(time.Second)
	notify := wire.MapNotify{Nonce: 4711, KeyID: 1, AlgorithmID: 3, Authentication: make([]byte, 32),
		Records: []wire.Record{wire.RecordOf(positive("10.1.0.0/16", 10))}}
	b, _ := wire.AppendSigned(nil, &notify, secret(1).Secret)
	x1.inject("192.0.2.1:4342", "192.0.2.100:4342", b)
	n.run(time.Second)
	x1.wantCounter(counter.MapNotifyAckSent, 1)
	ms.wantCounter(counter.MapNotifyAckReceived, 1)
	b[30]++
	x1.inject("192.0.2.1:4342", "192.0.2.100:4342", b)
	x1.wantCounter(counter.RefusedAuthentication, 1)
	x1.wantCounter(counter.MapNotifyAckSent, 1)
}

func TestReplayedMapNotifyAcknowledgesNothing(t *testing.T) {
	n, x1, _, ms := twoSites(t)
	n.run(time.Second)
	old := bytes.Clone(ms.sent[0].Payload)
	n.lose = func(from *testNode, _ SendPacket) bool { return from == ms }
	n.run(65 * time.Second)
	x1.inject("192.0.2.1:4342", "192.0.2.100:4342", old)
	for s := range x1.MapServers() {
		if s.State != MapServerWaiting {
			t.Errorf("status %+v", s)
		}
	}
	x1.wantCounter(counter.MapNotifyAckSent, 0)
}

func TestKeyRotationAndStaleKeys(t *testing.T) {
	n, _, _, ms := twoSites(t)
	n.run(time.Second)
	local, from := netip.MustParseAddrPort("192.0.2.100:4342"), netip.MustParseAddrPort("192.0.2.1:4342")
	late := register(t, func(m *wire.MapRegister) { m.XTRID = [16]byte{9} }, "10.1.0.0/16")
	received, refused := Inspect(ms.Keyring(), local, from, late)
	if refused != nil {
		t.Fatal(refused)
	}
	c := mapServerConfig("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16 2001:db8:2::/48")
	c.MapServer.Sites[0].Keys = []Key{{ID: 1, Secret: []byte("new")}}
	ms.configure(c)
	ms.HandleReceived(n.now, received)
	ms.wantCounter(counter.RefusedStaleKeys, 1)
	ms.inject(local.String(), from.String(), late)
	ms.wantCounter(counter.RefusedAuthentication, 1)
	if list, _ := ms.RefusedRegistrations(); len(list) != 1 || list[0].Count != 1 || !list[0].LastAt.Equal(n.now) || list[0].Site == "" {
		t.Errorf("refused: %+v", list)
	}
	if len(ms.registered()) != 4 {
		t.Errorf("the change of a key dropped registrations: %v", ms.registered())
	}
}

func TestConfigureDropsWhatItNoLongerAllows(t *testing.T) {
	n, _, _, ms := twoSites(t)
	n.run(time.Second)
	ms.configure(mapServerConfig("10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16"))
	if len(ms.registered()) != 1 { // the first site keeps its name, the second has another one
		for _, r := range ms.registered() {
			if r.Site != "site 10.1.0.0/16 2001:db8:1::/48" {
				t.Errorf("still registered: %+v", r)
			}
		}
	}
}

func TestShutdown(t *testing.T) {
	for _, withdraw := range []bool{false, true} {
		n, x1, _, ms := twoSites(t)
		n.run(time.Second)
		c := x1.config
		c.ETR.WithdrawOnShutdown = withdraw
		x1.start()
		n.run(time.Second)
		x1.Shutdown(n.now)
		x1.drain()
		n.run(time.Second)
		want := 4
		if withdraw {
			want = 2
		}
		if len(ms.registered()) != want {
			t.Errorf("withdraw %v: %d registrations", withdraw, len(ms.registered()))
		}
	}
}

// Shows RFC 9300 s.14 (1), RFC 9301 s.5.2 (10), RFC 9301 s.8.1 (1), RFC 9301 s.8.2 (1), RFC 9301 s.5.4 (11), (12).
func TestRefusedConfigurations(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(*Config)
	}{
		{"link-local RLOC", "not reachable", func(c *Config) { c.LocalRLOCs = []lisp.RLOC{rloc("fe80::1")} }},
		{"doubled RLOC", "twice", func(c *Config) { c.LocalRLOCs = append(c.LocalRLOCs, c.LocalRLOCs[0]) }},
		{"no key", "is empty", func(c *Config) { c.ETR.MapServers[0].Key.Secret = nil }},
		{"unknown algorithm", "want 1, 2 or 3", func(c *Config) { c.ETR.MapServers[0].Key.Algorithm = 9 }},
		{"doubled Map-Server", "twice", func(c *Config) { c.ETR.MapServers = append(c.ETR.MapServers, c.ETR.MapServers[0]) }},
		{"multicast Map-Resolver", "one system", func(c *Config) { c.ITR.MapResolvers[0] = addrPort("224.0.0.9") }},
		{"Map-Resolver in the site", "must be an RLOC", func(c *Config) { c.ITR.MapResolvers[0] = addrPort("10.1.0.9") }},
		{"doubled EID-Prefix", "twice", func(c *Config) { c.ETR.Database = append(c.ETR.Database, c.ETR.Database[0]) }},
		{"large version", "at most 4095", func(c *Config) { c.ETR.Database[0].Version = 4096 }},
		{"site without key", "no key", func(c *Config) {
			c.MapServer = mapServerConfig("10.1.0.0/16").MapServer
			c.MapServer.Sites[0].Keys = nil
		}},
		{"sites with one prefix", "twice", func(c *Config) { c.MapServer = mapServerConfig("10.1.0.0/16", "10.1.0.0/16 10.2.0.0/16").MapServer }},
		{"negative limit", "1 or more", func(c *Config) { c.Limits.PendingRequests = -1 }},
		{"senseless rate", "rate of", func(c *Config) { c.Limits.MapReplies = Rate{PerSecond: -1, Burst: 1} }},
	} {
		n, x1, _, _ := twoSites(t)
		n.run(time.Second)
		cfg := xtrConfig(1, "192.0.2.100", []string{"192.0.2.1", "2001:db8:f::1"}, "10.1.0.0/16", "2001:db8:1::/48")
		c.change(&cfg)
		err := x1.Configure(n.now, cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if e, ok := x1.Poll(); ok {
			t.Errorf("%s: a refused configuration had the effect %+v", c.name, e)
		}
	}
}

// TestRegistrationComesBackSoon has a Map-Server away for long. After its return the first Map-Register of each xTR
// comes within the maximum for a silent Map-Server, or its interval where that is shorter, and the others of that xTR
// within a second of the first Map-Notify. The xTRs, which all began at the same moment, do not all come back at one.
func TestRegistrationComesBackSoon(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute} {
		const xtrs = 20
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.0.0.0/8 2001:db8::/32"), "192.0.2.100")
		for i := byte(1); i <= xtrs; i++ {
			rloc := fmt.Sprint("192.0.2.", i)
			eids := []string{fmt.Sprintf("10.%d.0.0/16", i), fmt.Sprintf("2001:db8:%d::/48", i)}
			c := xtrConfig(i, "192.0.2.100", []string{rloc}, eids...)
			c.ETR.MapServers[0].RegistrationInterval = interval
			n.add("x"+rloc, c, rloc)
		}
		n.lose = func(*testNode, SendPacket) bool { return true }
		n.run(20 * time.Minute)
		ms.start()
		most := min(interval, settings.RegisterQuestionMax)
		back, came := map[int]int{}, map[*testNode]bool{}
		n.lose = func(from *testNode, p SendPacket) bool {
			first := from != ms && p.Payload[0]>>4 == byte(wire.TypeMapRegister) && !came[from]
			if first { // its others go once the first is answered
				came[from] = true
				back[int(10*n.now.Sub(epoch.Add(20*time.Minute))/most)]++
			}
			return false
		}
		n.run(most + oneWay)
		if len(came) != xtrs {
			t.Errorf("interval %s: %d of %d xTRs register within %s", interval, len(came), xtrs, most)
		}
		if interval > time.Second {
			n.run(time.Second)
		}
		n.run(3 * oneWay)
		if got := len(ms.registered()); got != 2*xtrs {
			t.Errorf("interval %s: %d registrations %s after the Map-Server's return, want %d",
				interval, got, n.now.Sub(epoch.Add(20*time.Minute)), 2*xtrs)
		}
		for tenth, count := range back {
			if count > xtrs/2 && interval >= 10*time.Second {
				t.Errorf("interval %s: %d xTRs in the tenth %d of %s", interval, count, tenth+1, most)
			}
		}
	}
}

// TestAuthenticationMismatchNamesSiteAndEID of the message, whatever is wrong with the key; the first EID-Prefix of that site.
func TestAuthenticationMismatchNamesSiteAndEID(t *testing.T) {
	signed := func(secret string, prefixes ...string) []byte {
		m, err := wire.Parse(register(t, nil, prefixes...))
		if err != nil {
			t.Fatal(err)
		}
		b, err := wire.AppendSigned(nil, m, []byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		name, reason, prefix string
		message              []byte
	}{
		{"another secret", "authentication", "10.1.2.0/24", signed("another secret", "10.1.2.0/24")},
		{"IPv6", "authentication", "2001:db8:1::/48", signed("another secret", "2001:db8:1::/48", "10.1.2.0/24")},
		{"after an EID of no site", "authentication", "10.1.2.0/24", signed("another secret", "10.9.0.0/16", "10.1.2.0/24")},
		{"another key", "unknown-key", "10.1.2.0/24", register(t, func(m *wire.MapRegister) { m.KeyID = 9 }, "10.1.2.0/24")},
	} {
		n := newNetwork(t)
		ms := n.add("ms", mapServerConfig("10.1.0.0/16 2001:db8:1::/48"), "192.0.2.100")
		ms.inject("192.0.2.100:4342", "192.0.2.1:4342", c.message)
		want := Notice{Kind: NoticeRegistrationRefused, Prefix: lisp.MustParsePrefix(c.prefix), Site: "site 10.1.0.0/16 2001:db8:1::/48", Reason: c.reason}
		if len(ms.notices) != 1 {
			t.Fatalf("%s: notices %v", c.name, ms.notices)
		}
		if got := ms.notices[0]; got.Kind != want.Kind || got.Prefix != want.Prefix || got.Site != want.Site || got.Reason != want.Reason {
			t.Errorf("%s: notice %+v, want %+v", c.name, got, want)
		}
	}
}
