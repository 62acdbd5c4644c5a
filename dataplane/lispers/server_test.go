// SPDX-License-Identifier: Apache-2.0

package lispers

// The Server over the model engine, with a control plane written from the interface's
// description.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/dataplane/model"
	"loci/dataplane/model/packets"
	"loci/lisp"
)

// router is a Server over the model, and the control plane that drives it.
type router struct {
	*peer
	directory string
	server    *Server
	model     *model.Engine

	mu      sync.Mutex
	emitted []packets.Emission
}

func newRouter(t *testing.T) *router {
	t.Helper()
	return newRouterOf(t, func(e *model.Engine) dataplane.Plane { return e })
}

// newRouterOf has the server drive what is made of the engine.
func newRouterOf(t *testing.T, plane func(*model.Engine) dataplane.Plane) *router {
	t.Helper()
	r := &router{directory: directory(t)}
	r.model = model.New(model.Options{Emit: func(m packets.Emission) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.emitted = append(r.emitted, m)
	}})
	r.peer = controlPlanePeer(t, r.directory)
	r.server = newTestServer(t, r.directory, plane(r.model))
	serve(t, r.server)
	r.same(r.await("restart"), `{"type":"restart"}`)
	r.does(entire())
	r.does(`{"type":"interfaces","interfaces":[{"interface":"eth0","instance-id":"0"}]}`)
	r.does(`{"type":"database-mappings","database-mappings":[{"instance-id":"0","eid-prefix":"10.1.0.0/24"}]}`)
	return r
}

// does says something and waits until it is done.
func (r *router) does(text string) {
	r.Helper()
	before := r.server.tally.value(messagesReceived)
	r.say("%s", text)
	eventually(r, "the message is handled", func() bool { return r.server.tally.value(messagesReceived) > before })
}

// entire is the map-cache in one message.
func entire(entries ...string) string {
	return `{"type":"entire-map-cache","entries":[` + strings.Join(entries, ",") + `]}`
}

// sends passes a packet of the site and returns where it was encapsulated to, "none"
// when it was not sent at all. What its source is told about it does not count.
func (r *router) sends(to string) string {
	r.Helper()
	r.mu.Lock()
	r.emitted = nil
	r.mu.Unlock()
	r.model.Send("eth0", udp4(conformance.SiteHosts[0], netip.MustParseAddr(to)))
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := slices.DeleteFunc(r.emitted, func(m packets.Emission) bool { return m.Way == packets.ToSite })
	switch {
	case len(sent) == 0:
		return "none"
	case sent[0].Way != packets.ToCore:
		return "natively"
	}
	return sent[0].Destination.String()
}

func (r *router) expectCounter(name string, want uint64) {
	r.Helper()
	if got := r.server.Counters()[name]; got != want {
		r.Errorf("%s is %d, want %d", name, got, want)
	}
}

func add(prefix, rlocs string) string {
	return fmt.Sprintf(`{"type":"map-cache","opcode":"add","instance-id":"0","eid-prefix":"%s","rlocs":[%s]}`, prefix, rlocs)
}

func rloc(address, more string) string {
	return fmt.Sprintf(`{"rloc":"%s","priority":"1","weight":"100","port":"4341"%s}`, address, more)
}

func TestServerDoesWhatTheControlPlaneSays(t *testing.T) {
	r := newRouter(t)
	r.does(add("10.2.0.0/24", rloc("192.0.2.2", "")))
	if to := r.sends("10.2.0.1"); to != "192.0.2.2" {
		t.Errorf("sent to %s", to)
	}
	r.does(add("10.2.0.0/24", `{"rloc":"192.0.2.2","priority":"2","weight":"0","port":"4341"},`+rloc("2001:db8:ff00::3", "")))
	if to := r.sends("10.2.0.1"); to != "2001:db8:ff00::3" {
		t.Errorf("sent to %s, want the better priority", to)
	}
	r.does(add("10.2.0.0/24", ""))
	if to := r.sends("10.2.0.1"); to != "none" {
		t.Errorf("sent to %s without a usable locator", to)
	}
	r.does(entire(add("10.4.0.0/24", rloc("192.0.2.3", "")), add("10.5.0.0/24", rloc("192.0.2.3", ""))))
	if _, ok := r.model.Mapping(lisp.MustParsePrefix("10.2.0.0/24")); ok {
		t.Error("what the entire map-cache does not name is still there")
	}
	if to := r.sends("10.5.0.1"); to != "192.0.2.3" {
		t.Errorf("sent to %s", to)
	}
	r.does(`{"type":"map-cache","opcode":"delete","instance-id":"0","eid-prefix":"10.5.0.0/24","rlocs":[]}`)
	if _, ok := r.model.Mapping(lisp.MustParsePrefix("10.5.0.0/24")); ok {
		t.Error("deleted and there")
	}
	r.does(entire())
	for entry := range r.model.Mappings() {
		t.Errorf("%s is in the empty map-cache", entry.Mapping.Prefix)
	}
	r.does(`{"type":"database-mappings","database-mappings":[{"instance-id":"9","eid-prefix":"2001:db8:9::/64"}]}`)
	for entry := range r.model.Database() {
		if entry.Prefix.String() != "[9]2001:db8:9::/64" || len(entry.Locators) != 2 {
			t.Errorf("database %+v", entry)
		}
	}
	r.does(`{"type":"interfaces","interfaces":[{"interface":"eth1","instance-id":"9"},{"interface":"core0","instance-id":"9"}]}`)
	want := []dataplane.Interface{
		{Name: "core0", Side: dataplane.SideCore}, {Name: "eth1", Side: dataplane.SideSite, Instance: 9}, {Name: "core0", Side: dataplane.SideSite, Instance: 9},
	}
	if got := r.model.Settings().Interfaces; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("interfaces %v, want %v", got, want)
	}
}

// TestServerNeverSendsInClear holds what has keys back, whole, whatever else the
// mapping offers, and however the keys are written.
func TestServerNeverSendsInClear(t *testing.T) {
	const keys = `,"keys":[{"key-id":"1","encrypt-key":"d1b2","icv-key":"43a7"}]`
	for name, rlocs := range map[string]string{
		"one locator":         rloc("192.0.2.2", keys),
		"beside one without":  rloc("192.0.2.2", keys) + "," + rloc("192.0.2.3", ""),
		"behind one without":  rloc("192.0.2.3", "") + "," + rloc("192.0.2.2", keys),
		"keys that are wrong": rloc("192.0.2.2", `,"keys":[{"key-id":"1","encrypt-key":"not hex"}]`),
		"keys of a new kind":  rloc("192.0.2.2", `,"keys":"by reference"`),
		"the older spelling":  rloc("192.0.2.2", `,"encrypt-key":"d1b2","icv-key":"43a7"`),
		"at another port":     strings.ReplaceAll(rloc("192.0.2.2", keys), "4341", "32808"),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRouter(t)
			r.does(add("10.2.0.0/24", rloc("192.0.2.2", ""))) // in clear, at first
			r.does(add("10.2.0.0/24", rlocs))
			if to := r.sends("10.2.0.1"); to != "none" {
				t.Errorf("a packet was sent %s", to)
			}
			if n := r.model.Counters().Drops["policy-denied"]; n != 1 {
				t.Errorf("%d packets dropped by policy, want 1", n)
			}
			r.expectCounter("lispers_mappings_withheld_for_keys", 1)
		})
	}
	// No keys are no keys.
	for _, none := range []string{`,"keys":[]`, `,"keys":null`, `,"keys": [ ]`, `,"encrypt-key":""`} {
		r := newRouter(t)
		r.does(add("10.2.0.0/24", rloc("192.0.2.2", none)))
		if to := r.sends("10.2.0.1"); to != "192.0.2.2" {
			t.Errorf("%s: sent to %s", none, to)
		}
	}
}

// What is behind a NAT has the NAT's address and a port of its own.
func TestServerSendsToOtherPorts(t *testing.T) {
	r := newRouter(t)
	at := func(port string) string { return strings.Replace(rloc("192.0.2.2", ""), "4341", port, 1) }
	r.does(add("10.2.0.0/24", at("51527")))
	if to := r.sends("10.2.0.1"); to != "192.0.2.2:51527" {
		t.Errorf("sent to %s", to)
	}
	r.does(add("10.2.0.0/24", at("51527")+","+at("51528")+","+at("4341")))
	var found []string
	for entry := range r.model.Mappings() {
		for _, l := range entry.Mapping.Locators {
			found = append(found, l.RLOC.String())
		}
	}
	if want := []string{"192.0.2.2", "192.0.2.2:51527", "192.0.2.2:51528"}; !slices.Equal(found, want) {
		t.Errorf("locators %v, want %v", found, want)
	}
}

// TestServerSendsFromTheNATPort: the packets of mappings that are there, and of those that come, until the port is 0
// again.
func TestServerSendsFromTheNATPort(t *testing.T) {
	r := newRouter(t)
	ports := func(want uint16) {
		t.Helper()
		for entry := range r.model.Mappings() {
			for _, l := range entry.Mapping.Locators {
				if l.SourcePort != want {
					t.Errorf("%s: packets to %s leave from port %d, want %d", entry.Mapping.Prefix, l.RLOC, l.SourcePort, want)
				}
			}
		}
	}
	r.does(add("10.2.0.0/24", rloc("192.0.2.2", "")+","+rloc("192.0.2.3", "")))
	r.does(add("10.4.0.0/24", "")) // without a locator
	ports(0)
	for _, port := range []uint16{51527, 40000, 0} {
		r.does(fmt.Sprintf(`{"type":"etr-nat-port","port":%d}`, port))
		ports(port)
		r.does(add("10.3.0.0/24", rloc("2001:db8::2", "")))
		ports(port)
		if to := r.sends("10.2.0.1"); to != "192.0.2.2" && to != "192.0.2.3" {
			t.Errorf("packets go to %q", to)
		}
	}
	r.expectCounter("lispers_settings_not_told", 0)
	r.expectCounter("lispers_operations_failed", 0)
}

// portless is an engine that cannot send from a source port.
type portless struct{ dataplane.Plane }

func (p portless) Apply(operations ...dataplane.Operation) []error {
	return dataplane.ApplyEach(operations, func(o dataplane.Operation) error {
		if put, is := o.(dataplane.PutMapping); is {
			if err := dataplane.RefuseSourcePorts(put.Entry.Mapping.Locators); err != nil {
				return err
			}
		}
		return errors.Join(p.Plane.Apply(o)...)
	})
}

// TestServerWithoutTheNATPort: an engine that cannot send from the port forwards all the same.
func TestServerWithoutTheNATPort(t *testing.T) {
	r := newRouterOf(t, func(e *model.Engine) dataplane.Plane { return portless{e} })
	r.does(`{"type":"etr-nat-port","port":51527}`)
	r.does(add("10.2.0.0/24", rloc("192.0.2.2", "")))
	if to := r.sends("10.2.0.1"); to != "192.0.2.2" {
		t.Errorf("packets go to %q", to)
	}
	r.expectCounter("lispers_settings_not_told", 1)
	r.expectCounter("lispers_operations_failed", 0)
}

func TestServerCountsWhatItDoesNotTake(t *testing.T) {
	r := newRouter(t)
	for _, c := range []struct {
		counter string
		texts   []string
	}{
		{"lispers_messages_malformed", []string{``, `{`, `[]`, `"restart"`, `{"type":"map-cache"} trailing`, "\x00\xff", strings.Repeat("[", 20000)}},
		{"lispers_messages_unknown", []string{`{"type":"lisp-telemetry"}`, `{"type":""}`, `{"type":"MAP-CACHE"}`}},
		{"lispers_messages_unexpected", []string{`{"type":"restart"}`, `{"type":"decap-statistics"}`}},
		{"lispers_multicast_refused", []string{
			`{"type":"map-cache","opcode":"add","instance-id":"0","eid-prefix":"224.1.1.1/32","rles":[{"rle":"192.0.2.2","port":"4341"}]}`,
			`{"type":"map-cache","opcode":"add","instance-id":"0","eid-prefix":"10.0.0.0/8","rles":[]}`, add("ff1e::/16", ""),
		}},
		{"lispers_eids_unsupported", []string{add("02:00:00:00:00:01/48", "")}},
		{"lispers_fields_refused", []string{
			`{}`, `{"type":null}`, `{"type":7}`, `{"type":"map-cache"}`, `{"type":"map-cache","opcode":"change"}`,
			add("10.2.0.0/33", ""), add("10.2.0.0", ""), add("", ""), add("10.2.0.0/24", rloc("127.0.0.1", "")), add("10.2.0.0/24", rloc("somewhere", "")),
			add("10.2.0.0/24", `{"rloc":"192.0.2.2","priority":"256","weight":"1"}`), add("10.2.0.0/24", `{"rloc":"192.0.2.2","priority":"-1","weight":"1"}`),
			add("10.2.0.0/24", `{"rloc":"192.0.2.2","weight":"1"}`), add("10.2.0.0/24", `{"rloc":"192.0.2.2","priority":1.5,"weight":"1"}`),
			strings.Replace(add("10.2.0.0/24", ""), `"0"`, `"16777215"`, 1), strings.Replace(add("10.2.0.0/24", ""), `"0"`, `"-1"`, 1),
			add("10.2.0.0/24", strings.Repeat(rloc("192.0.2.2", "")+",", 32)+rloc("192.0.2.2", "")),
			`{"type":"etr-nat-port","port":65536}`, `{"type":"etr-nat-port"}`, `{"type":"xtr-parameters","rtr":"yes"}`, `{"type":"xtr-parameters"}`,
			`{"type":"database-mappings"}`, `{"type":"interfaces","interfaces":{}}`, `{"type":"decap-keys","rloc":"192.0.2.2"}`,
		}},
	} {
		for _, text := range c.texts {
			before := r.server.Counters()
			r.server.handle([]byte(text))
			for name, n := range r.server.Counters() {
				want := before[name]
				if name == c.counter || name == "lispers_messages_received" {
					want++
				}
				if n != want {
					t.Errorf("%.80q: %s went from %d to %d", text, name, before[name], n)
				}
			}
		}
	}
	r.server.handle(make([]byte, MaxDatagram+1))
	r.expectCounter("lispers_messages_too_long", 1)
	// One bad entry does not spoil the rest.
	r.does(entire(add("10.2.0.0/24", rloc("192.0.2.2", "")), "{}", "7", add("10.3.0.0/24", rloc("192.0.2.2", ""))))
	if to := r.sends("10.3.0.1"); to != "192.0.2.2" {
		t.Errorf("sent to %s", to)
	}
	var addresses []string
	for i := range maxInterfaces + 1 {
		addresses = append(addresses, fmt.Sprintf(`{"interface":"eth%d","instance-id":"0"}`, i))
	}
	before := r.model.Settings().Interfaces
	r.does(`{"type":"interfaces","interfaces":[` + strings.Join(addresses, ",") + `]}`)
	if after := r.model.Settings().Interfaces; len(after) != len(before) {
		t.Errorf("%d interfaces", len(after))
	}
}

func TestServerDiscovers(t *testing.T) {
	r := newRouter(t)
	r.sends("10.9.0.1")
	r.same(r.await("discovery"), `{"type":"discovery","source-eid":"10.1.0.10","dest-eid":"10.9.0.1","interface":"eth0","instance-id":"0"}`)
	now := time.Now()
	for i := range 20 {
		r.server.discover(dataplane.Miss{Source: lisp.EIDFromAddr(conformance.SiteHosts[0]), Destination: lisp.EIDFromAddr(netip.MustParseAddr("10.9.0.2")), Interface: fmt.Sprint("eth", i)})
	}
	if n := r.quiet("discovery"); n > 1+int(time.Since(now)/time.Second) {
		t.Errorf("%d discoveries of one destination at once", n)
	}
	if r.server.tally.value(discoveriesLimited) < 15 {
		t.Errorf("counters %v", r.server.Counters())
	}
}

func TestLimiterIsBounded(t *testing.T) {
	var l limiter
	now := time.Unix(1000, 0)
	to := func(i int) destination {
		return destination{eid: lisp.EIDFromAddr(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))}
	}
	passed := 0
	for i := range 3 * maxLimited {
		if l.allow(now, to(i)) {
			passed++
		}
	}
	if passed != maxLimited || len(l.passed) != maxLimited {
		t.Errorf("%d of %d passed and %d are remembered, want the bound %d", passed, 3*maxLimited, len(l.passed), maxLimited)
	}
	if l.allow(now.Add(discoveryInterval/2), to(0)) {
		t.Error("twice in half a second")
	}
	if !l.allow(now.Add(discoveryInterval), to(0)) || !l.allow(now.Add(2*discoveryInterval), to(3*maxLimited)) {
		t.Error("nothing passes after the interval")
	}
}

// TestServerSplitsStatistics demands messages that the control plane reads whole, and
// sums that are exact.
func TestServerSplitsStatistics(t *testing.T) {
	r := newRouter(t)
	const mappings, packets = 60, 7
	want := map[string]float64{}
	for i := range mappings {
		prefix := fmt.Sprintf("10.2.%d.0/24", i)
		var rlocs []string
		for j := range 1 + i%lisp.MaxLocators {
			rlocs = append(rlocs, fmt.Sprintf(`{"rloc":"2001:db8:ffff:ffff:ffff:ffff:ffff:%x","priority":"1","weight":"%d","port":"4341"}`, 0x1000+j, 1+j))
		}
		r.does(add(prefix, strings.Join(rlocs, ",")))
		for range packets {
			r.model.Send("eth0", udp4(conformance.SiteHosts[0], netip.MustParseAddr(fmt.Sprintf("10.2.%d.1", i))))
		}
		want[prefix] = packets
	}
	got, octetsOf := map[string]float64{}, float64(len(udp4(conformance.SiteHosts[0], netip.MustParseAddr("10.2.0.1"))))
	octets := 0.0
	for len(got) < mappings || octets < mappings*packets*octetsOf {
		m, length := r.awaitSized("statistics")
		if length > MaxToControlPlane {
			t.Errorf("a message of %d octets", length)
		}
		for _, entry := range m["entries"].([]any) {
			e := entry.(object)
			for _, use := range e["rlocs"].([]any) {
				u := use.(object)
				got[e["eid-prefix"].(string)] += u["packet-count"].(float64)
				octets += u["byte-count"].(float64)
				if age := u["seconds-last-packet"].(float64); age < 0 || age > 60 || u["port"] != "4341" {
					t.Errorf("%v", u)
				}
			}
		}
	}
	for prefix, n := range want {
		if got[prefix] != n {
			t.Errorf("%s: %v packets reported, want %v", prefix, got[prefix], n)
		}
	}
	if octets != mappings*packets*octetsOf {
		t.Errorf("%v octets reported, want %v", octets, mappings*packets*octetsOf)
	}
	if n := r.quiet("statistics"); n > 0 {
		t.Errorf("%d reports more without a packet", n)
	}
	r.expectCounter("lispers_messages_too_long", 0)
}

func TestServerReportsDecapsulation(t *testing.T) {
	r := newRouter(t)
	own, remote := conformance.OwnRLOC4, netip.MustParseAddr("10.2.0.1")
	good := udp4(remote, conformance.SiteHosts[0])
	header := []byte{0x80, 1, 2, 3, 0, 0, 0, 0}
	encrypted := []byte{0x81, 1, 2, 3, 0, 0, 0, 0} // KK bits
	for _, packet := range [][]byte{
		encapsulated(conformance.PeerRLOCs[0], own, header, good), encapsulated(conformance.PeerRLOCs[0], own, header, good),
		encapsulated(conformance.PeerRLOCs[0], own, header, []byte{0x45, 0}), encapsulated(conformance.PeerRLOCs[0], own, encrypted, good),
		encapsulated(conformance.PeerRLOCs[0], own, header[:4], nil),
	} {
		r.model.Send("core0", packet)
	}
	sums := map[string]float64{}
	eventually(t, "all is reported", func() bool {
		m := r.await("decap-statistics")
		for _, word := range decapWords {
			sums[word] += m[word].(object)["packet-count"].(float64)
		}
		return sums[wordGood] == 2 && sums[wordInnerVersion] == 1 && sums[wordNoKey] == 1 && sums[wordLISPHeader] == 1
	})
	if n := r.quiet("decap-statistics"); n > 0 || sums[wordICV]+sums[wordChecksum]+sums[wordOuterHeader] > 0 {
		t.Errorf("sums %v, and %d reports more", sums, n)
	}
}

// TestServerOutlivesTheControlPlane: forwarding goes on, what was not told is told to
// the one that comes, and that one is asked for the tables.
func TestServerOutlivesTheControlPlane(t *testing.T) {
	r := newRouter(t)
	r.does(add("10.2.0.0/24", rloc("192.0.2.2", "")))
	r.quiet("")
	for i := range 3 {
		r.die()
		eventually(t, "the loss is seen", func() bool { return r.server.tally.value(peersLost) == uint64(i+1) })
		if r.server.Status().Connected {
			t.Error("connected to no server")
		}
		if to := r.sends("10.2.0.1"); to != "192.0.2.2" {
			t.Errorf("without a control plane sent to %s", to)
		}
		r.sends("10.9.0.1") // a miss that no server hears
		time.Sleep(3 * testInterval)
		r.peer = controlPlanePeer(t, r.directory)
		r.await("restart")
		entries := r.await("statistics")["entries"].([]any)
		if n := entries[0].(object)["rlocs"].([]any)[0].(object)["packet-count"]; n != 1.0 {
			t.Errorf("%v packets reported, want the one sent meanwhile", n)
		}
		r.does(entire(add("10.2.0.0/24", rloc("192.0.2.2", ""))))
	}
}

// TestServerOutlivesADeafControlPlane: one that does not read holds up neither packets
// nor its own messages.
func TestServerOutlivesADeafControlPlane(t *testing.T) {
	r := newRouter(t)
	for i := range 2000 {
		r.sends(fmt.Sprintf("10.9.%d.%d", i/250, 1+i%250))
	}
	r.does(add("10.2.0.0/24", rloc("192.0.2.2", "")))
	if to := r.sends("10.2.0.1"); to != "192.0.2.2" {
		t.Errorf("sent to %s", to)
	}
	eventually(t, "what was not sent is counted", func() bool { return r.server.tally.value(messagesUnsent) > 0 })
}

// TestServerAsksAgain: a restart without an answer is sent again, but not for ever,
// and an entry that is told again keeps its age.
func TestServerAsksAgain(t *testing.T) {
	d, plane := directory(t), model.New(model.Options{})
	p := controlPlanePeer(t, d)
	now := time.Now()
	s, err := NewServer(plane, ServerOptions{Directory: d, Settings: coreSettings, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for range 10 {
		s.attend()
		s.attend()
		now = now.Add(restartPatience)
	}
	if n := p.quiet("restart"); n != restartTries {
		t.Errorf("%d restarts without an answer, want %d", n, restartTries)
	}
	p.die()
	s.attend()
	p = controlPlanePeer(t, d)
	s.attend()
	s.handle([]byte(entire(add("10.2.0.0/24", rloc("192.0.2.2", "")))))
	began := now
	for range 10 {
		now = now.Add(restartPatience)
		s.attend()
		s.handle([]byte(add("10.2.0.0/24", rloc("192.0.2.3", ""))))
	}
	if n := p.quiet("restart"); n != 1 {
		t.Errorf("%d restarts though it was answered", n)
	}
	entry, _ := plane.Mapping(lisp.MustParsePrefix("10.2.0.0/24"))
	if !entry.CreatedAt.Equal(began) || !entry.ExpiresAt.Equal(now.Add(adoptedLifetime)) {
		t.Errorf("entry %+v, want it created at %s", entry, began)
	}
}

func TestServerWantsOwnRLOCs(t *testing.T) {
	plane := model.New(model.Options{})
	if _, err := NewServer(plane, ServerOptions{Directory: directory(t)}); err == nil || !strings.Contains(err.Error(), "own RLOC") {
		t.Errorf("%v", err)
	}
	options := ServerOptions{Directory: directory(t), Settings: coreSettings, NoLocators: lisp.ActionSendMapRequest}
	if _, err := NewServer(plane, options); err == nil || !strings.Contains(err.Error(), "send-map-request") {
		t.Errorf("%v", err)
	}
	if err := plane.Close(); err != nil {
		t.Fatal(err)
	}
	options.NoLocators = lisp.ActionDrop
	if _, err := NewServer(plane, options); !errors.Is(err, dataplane.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// TestServerEndsWithThePlane: when the plane closes, there is nothing to drive.
func TestServerEndsWithThePlane(t *testing.T) {
	plane := model.New(model.Options{})
	s := newTestServer(t, directory(t), plane)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context()) }()
	_ = plane.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Serve goes on")
	}
}
