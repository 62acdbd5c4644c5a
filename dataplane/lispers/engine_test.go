// SPDX-License-Identifier: Apache-2.0

package lispers

// The Engine with a data plane written from the interface's description.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/dataplane"
	"loci/dataplane/conformance"
	"loci/lisp"
)

func newTestEngine(t testing.TB, d string) *Engine {
	t.Helper()
	e, err := OpenEngine(EngineOptions{
		Directory: d, WatchInterval: testInterval,
		Parameters: Parameters{ControlPlaneLogging: true, ETRNATPort: 51527, ITRCryptoPort: 46062},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func prefixAddr(t testing.TB, text string) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func rlocOf(text string) lisp.RLOC { return lisp.RLOCFromAddr(netip.MustParseAddr(text)) }

func mappingTo(prefix string, rlocs ...string) dataplane.PutMapping {
	var set []lisp.Locator
	for _, r := range rlocs {
		set = append(set, lisp.Locator{RLOC: rlocOf(r), Priority: 1, Weight: 100, Reachable: true})
	}
	locators, err := lisp.NewLocatorSet(set...)
	if err != nil {
		panic(err)
	}
	now := time.Now()
	return dataplane.PutMapping{Entry: dataplane.MapCacheEntry{
		Mapping:   lisp.Mapping{Prefix: lisp.MustParsePrefix(prefix), Locators: locators, TTLMinutes: 10, Action: lisp.ActionDrop},
		CreatedAt: now, ExpiresAt: now.Add(10 * time.Minute),
	}}
}

func apply(t testing.TB, plane dataplane.Plane, operations ...dataplane.Operation) {
	t.Helper()
	if err := errors.Join(plane.Apply(operations...)...); err != nil {
		t.Fatal(err)
	}
}

func siteSettings() dataplane.Settings {
	s := coreSettings
	s.Interfaces = append(slices.Clone(s.Interfaces), dataplane.Interface{Name: "eth0", Side: dataplane.SideSite})
	return s
}

func ownDatabase(prefix string) dataplane.PutDatabase {
	return dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{
		Prefix: lisp.MustParsePrefix(prefix), Locators: lisp.LocatorSet{{RLOC: coreSettings.LocalRLOCs[0], Priority: 1, Weight: 100, Reachable: true}},
	}}
}

// connected is an Engine and a data plane that was told the empty tables.
func connected(t *testing.T) (*Engine, *peer) {
	t.Helper()
	d := directory(t)
	p := dataPlanePeer(t, d)
	e := newTestEngine(t, d)
	eventually(t, "all is told", e.idle)
	for _, want := range []string{
		`{"type":"entire-map-cache","entries":[]}`,
		`{"type":"xtr-parameters","control-plane-logging":true,"data-plane-logging":false,"rtr":false}`,
		`{"type":"etr-nat-port","port":51527}`,
		`{"type":"itr-crypto-port","port":46062}`,
		`{"type":"interfaces","interfaces":[]}`,
		`{"type":"database-mappings","database-mappings":[]}`,
	} {
		m, _, _ := p.hear(watchdog)
		p.same(m, want)
	}
	return e, p
}

// The interface has no paths: the data plane is told where packets go, once where several paths have the same next hop.
func TestEngineTellsNextHopsOfPaths(t *testing.T) {
	e, p := connected(t)
	by := func(priority, weight, next uint8, hops ...lisp.RLOC) lisp.Locator {
		path, err := lisp.NewPath(hops...)
		if err != nil {
			t.Fatal(err)
		}
		return lisp.Locator{RLOC: path.RLOC, Behind: path.Behind, Next: next, Priority: priority, Weight: weight, Reachable: true}
	}
	m := mappingTo("10.3.0.0/16")
	var err error
	m.Entry.Mapping.Locators, err = lisp.NewLocatorSet(
		by(1, 200, 0, rlocOf("10.99.0.3"), rlocOf("10.99.0.4")), by(1, 100, 0, rlocOf("10.99.0.3"), rlocOf("10.99.0.5")),
		by(2, 7, 0, rlocOf("10.99.0.3"), rlocOf("10.99.0.6")), by(1, 9, 1, rlocOf("10.99.0.3"), rlocOf("10.99.0.7").WithPort(40001)),
	)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, e, m)
	p.same(p.await("map-cache"), `{"type":"map-cache","opcode":"add","instance-id":"0","eid-prefix":"10.3.0.0/16","rlocs":[
		{"rloc":"10.99.0.3","priority":"1","weight":"255","port":"4341"},{"rloc":"10.99.0.7","priority":"1","weight":"9","port":"40001"}]}`)
}

func TestEngineTellsWhatChanged(t *testing.T) {
	e, p := connected(t)
	apply(t, e, dataplane.SetSettings{Settings: siteSettings()})
	p.same(p.await("interfaces"), `{"type":"interfaces","interfaces":[{"interface":"eth0","instance-id":"0"}]}`)
	apply(t, e, ownDatabase("172.31.1.0/24"))
	p.same(p.await("database-mappings"), `{"type":"database-mappings","database-mappings":[{"instance-id":"0","eid-prefix":"172.31.1.0/24"}]}`)
	apply(t, e, ownDatabase("[7]2001:db8:1::/64"))
	p.same(p.await("database-mappings"), `{"type":"database-mappings","database-mappings":[
		{"instance-id":"0","eid-prefix":"172.31.1.0/24"},{"instance-id":"7","eid-prefix":"2001:db8:1::/64"}]}`)
	apply(t, e, mappingTo("[7]2001:db8:2::/64", "2001:db8:ff::3", "10.99.0.3"))
	p.same(p.await("map-cache"), `{"type":"map-cache","opcode":"add","instance-id":"7","eid-prefix":"2001:db8:2::/64","rlocs":[
		{"rloc":"10.99.0.3","priority":"1","weight":"100","port":"4341"},{"rloc":"2001:db8:ff::3","priority":"1","weight":"100","port":"4341"}]}`)
	apply(t, e, dataplane.PutLocatorState{RLOC: rlocOf("10.99.0.3"), State: dataplane.LocatorUnconfirmed})
	p.same(p.await("map-cache"), `{"type":"map-cache","opcode":"add","instance-id":"7","eid-prefix":"2001:db8:2::/64","rlocs":[
		{"rloc":"2001:db8:ff::3","priority":"1","weight":"100","port":"4341"}]}`)
	apply(t, e, dataplane.PutLocatorState{RLOC: rlocOf("2001:db8:ff::3"), State: dataplane.LocatorUnconfirmed})
	p.same(p.await("map-cache"), `{"type":"map-cache","opcode":"add","instance-id":"7","eid-prefix":"2001:db8:2::/64","rlocs":[
		{"rloc":"10.99.0.3","priority":"1","weight":"100","port":"4341"},{"rloc":"2001:db8:ff::3","priority":"1","weight":"100","port":"4341"}]}`)
	apply(t, e, dataplane.PutLocatorState{RLOC: rlocOf("10.99.0.3"), State: dataplane.LocatorHeard})
	p.same(p.await("map-cache"), `{"type":"map-cache","opcode":"add","instance-id":"7","eid-prefix":"2001:db8:2::/64","rlocs":[
		{"rloc":"10.99.0.3","priority":"1","weight":"100","port":"4341"}]}`)
	apply(t, e, dataplane.PutLocatorState{RLOC: rlocOf("10.99.0.3"), State: dataplane.LocatorDown})
	p.same(p.await("map-cache"), `{"type":"map-cache","opcode":"add","instance-id":"7","eid-prefix":"2001:db8:2::/64","rlocs":[
		{"rloc":"2001:db8:ff::3","priority":"1","weight":"100","port":"4341"}]}`)
	apply(t, e, dataplane.PutLocatorState{RLOC: rlocOf("2001:db8:ff::3"), State: dataplane.LocatorDown})
	p.same(p.await("map-cache"), `{"type":"map-cache","opcode":"add","instance-id":"7","eid-prefix":"2001:db8:2::/64","rlocs":[]}`)
	apply(t, e, mappingTo("10.3.0.0/16"))
	p.same(p.await("map-cache"), `{"type":"map-cache","opcode":"add","instance-id":"0","eid-prefix":"10.3.0.0/16","rlocs":[]}`)
	asking := mappingTo("10.3.0.0/16")
	asking.Entry.Mapping.Action = lisp.ActionSendMapRequest
	apply(t, e, asking) // so that its packets are discovered again
	p.same(p.await("map-cache"), `{"type":"map-cache","opcode":"delete","instance-id":"0","eid-prefix":"10.3.0.0/16","rlocs":[]}`)
	apply(t, e, dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix("[7]2001:db8:2::/64")})
	p.same(p.await("map-cache"), `{"type":"map-cache","opcode":"delete","instance-id":"7","eid-prefix":"2001:db8:2::/64","rlocs":[]}`)
	apply(t, e, dataplane.Flush{MapCache: true, Database: true})
	p.same(p.await("entire-map-cache"), `{"type":"entire-map-cache","entries":[]}`)
	p.same(p.await("database-mappings"), `{"type":"database-mappings","database-mappings":[]}`)
}

func TestEngineTellsKeys(t *testing.T) {
	e, p := connected(t)
	apply(t, e, mappingTo("172.31.2.0/24", "10.99.0.3"), mappingTo("172.31.3.0/24", "10.99.0.4"))
	p.await("map-cache")
	p.await("map-cache")
	if err := e.PutEncryptionKeys(rlocOf("10.99.0.3"), Key{ID: 1, Cipher: "d1b2", ICV: "43a7"}); err != nil {
		t.Fatal(err)
	}
	p.same(p.await("map-cache"), `{"type":"map-cache","opcode":"add","instance-id":"0","eid-prefix":"172.31.2.0/24","rlocs":[
		{"rloc":"10.99.0.3","priority":"1","weight":"100","port":"4341","keys":[{"key-id":"1","encrypt-key":"d1b2","icv-key":"43a7"}]}]}`)
	if err := e.PutDecryptionKeys(rlocOf("10.99.0.3"), 32808, Key{ID: 1, Cipher: "352a", ICV: "904f"}); err != nil {
		t.Fatal(err)
	}
	p.same(p.await("decap-keys"), `{"type":"decap-keys","rloc":"10.99.0.3","port":"32808","keys":[{"key-id":"1","decrypt-key":"352a","icv-key":"904f"}]}`)
	// A data plane that restarts is told both again.
	p.say(`{"type":"restart"}`)
	entire := p.await("entire-map-cache")
	if text := fmt.Sprint(entire); !strings.Contains(text, "d1b2") {
		t.Errorf("%s lacks the keys", text)
	}
	p.await("decap-keys")
	for _, bad := range []Key{{ID: 1, Cipher: "xyz"}, {ID: 1, ICV: strings.Repeat("a", maxKeyDigits+1)}} {
		if err := e.PutEncryptionKeys(rlocOf("10.99.0.3"), bad); !errors.Is(err, dataplane.ErrInvalid) || strings.Contains(err.Error(), "xyz") {
			t.Errorf("%v, want it refused without telling the key", err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v %s", Key{ID: 1, Cipher: "d1b2"}, Key{ID: 1, Cipher: "d1b2"}, Key{ID: 1, Cipher: "d1b2"}, Key{ID: 1, Cipher: "d1b2"}); strings.Contains(text, "d1b2") {
		t.Errorf("%s tells the key", text)
	}
}

func TestEngineAnswersRestarts(t *testing.T) {
	e, p := connected(t)
	apply(t, e, dataplane.SetSettings{Settings: siteSettings()}, ownDatabase("172.31.1.0/24"), mappingTo("172.31.2.0/24", "10.99.0.3"))
	p.await("map-cache")
	p.say(`{"type":"restart"}`)
	p.same(p.await("entire-map-cache"), `{"type":"entire-map-cache","entries":[{"type":"map-cache","opcode":"add","instance-id":"0",
		"eid-prefix":"172.31.2.0/24","rlocs":[{"rloc":"10.99.0.3","priority":"1","weight":"100","port":"4341"}]}]}`)
	for _, kind := range []string{"xtr-parameters", "etr-nat-port", "itr-crypto-port", "interfaces", "database-mappings"} {
		p.await(kind)
	}
	// A data plane that restarts all the time does not get everything each time.
	begin := time.Now()
	for range 50 {
		p.say(`{"type":"restart"}`)
	}
	eventually(t, "all restarts seen", func() bool { return e.tally.value(restarts) == 51 })
	if n := p.quiet("entire-map-cache"); n > 2+int(time.Since(begin)/resyncInterval) {
		t.Errorf("%d times the entire map-cache for 50 restarts at once", n)
	}
}

func TestEngineMeetsNewDataPlanes(t *testing.T) {
	d := directory(t)
	e := newTestEngine(t, d)
	apply(t, e, dataplane.SetSettings{Settings: siteSettings()}, ownDatabase("172.31.1.0/24"), mappingTo("172.31.2.0/24", "10.99.0.3"))
	for i := range 3 {
		p := dataPlanePeer(t, d)
		// What it had before is not known: it is cleared, then filled.
		p.same(p.await("entire-map-cache"), `{"type":"entire-map-cache","entries":[]}`)
		if entries := p.await("entire-map-cache")["entries"].([]any); len(entries) != 1 {
			t.Errorf("%d entries, want 1", len(entries))
		}
		p.same(p.await("database-mappings"), `{"type":"database-mappings","database-mappings":[{"instance-id":"0","eid-prefix":"172.31.1.0/24"}]}`)
		p.die()
		apply(t, e, dataplane.DeleteMapping{Prefix: lisp.MustParsePrefix("172.31.2.0/24")}, mappingTo("172.31.2.0/24", "10.99.0.4"))
		eventually(t, "the loss is seen", func() bool { return e.tally.value(peersLost) == uint64(i+1) && !e.Connected() })
	}
}

// TestEngineNeverWaits demands that a data plane that does not read holds up no caller,
// and finds the tables as they are when it reads.
func TestEngineNeverWaits(t *testing.T) {
	d := directory(t)
	p := dataPlanePeer(t, d)
	e := newTestEngine(t, d)
	const rounds, prefixes = 200, 100
	for round := range rounds {
		for i := range prefixes {
			apply(t, e, mappingTo(fmt.Sprintf("10.2.%d.0/24", i), fmt.Sprintf("10.99.0.%d", 1+round)))
		}
	}
	e.mu.Lock()
	noted := len(e.untold.mappings)
	e.mu.Unlock()
	if noted > prefixes {
		t.Errorf("%d changes are noted for %d prefixes", noted, prefixes)
	}
	last := map[string]string{}
	wanted := fmt.Sprintf("10.99.0.%d", rounds)
	eventually(t, "the data plane knows the last state", func() bool {
		m, _, ok := p.hear(time.Second)
		if !ok {
			return false
		}
		entries, _ := m["entries"].([]any)
		if m["type"] == "map-cache" {
			entries = []any{m}
		}
		for _, entry := range entries {
			rlocs := entry.(object)["rlocs"].([]any)
			last[entry.(object)["eid-prefix"].(string)] = rlocs[0].(object)["rloc"].(string)
		}
		for _, rloc := range last {
			if rloc != wanted {
				return false
			}
		}
		return len(last) == prefixes && e.idle()
	})
}

func TestEngineSplitsTheMapCache(t *testing.T) {
	d := directory(t)
	e := newTestEngine(t, d)
	const mappings = 500
	for i := range mappings {
		apply(t, e, mappingTo(fmt.Sprintf("2001:db8:%x::/48", 16+i), "2001:db8:ffff:ffff::3", "2001:db8:ffff:ffff::4"))
	}
	p := dataPlanePeer(t, d)
	seen := map[string]bool{}
	for entireSeen := 0; len(seen) < mappings; {
		m, octets, ok := p.hear(time.Minute)
		if !ok {
			t.Fatalf("%d mappings told, want %d", len(seen), mappings)
		}
		if octets > DefaultDatagramOctets {
			t.Errorf("%s of %d octets", m["type"], octets)
		}
		switch m["type"] {
		case "entire-map-cache":
			entries := m["entries"].([]any)
			if entireSeen++; entireSeen == 2 && octets < DefaultDatagramOctets*9/10 {
				t.Errorf("the first message has %d octets: it is not full", octets)
			}
			for _, entry := range entries {
				seen[entry.(object)["eid-prefix"].(string)] = true
			}
		case "map-cache":
			seen[m["eid-prefix"].(string)] = true
		}
	}
}

func TestEngineLimits(t *testing.T) {
	e := newTestEngine(t, directory(t))
	apply(t, e, dataplane.SetSettings{Settings: siteSettings()})
	var full error
	entries := 0
	for ; full == nil && entries < 5000; entries++ {
		full = errors.Join(e.Apply(ownDatabase(fmt.Sprintf("2001:db8:%x::/48", 1+entries)))...)
	}
	if !errors.Is(full, dataplane.ErrFull) || entries < 900 {
		t.Errorf("after %d entries: %v", entries, full)
	}
	e.mu.Lock()
	octets := len(encode(e.tables.databaseMessage().json()))
	e.mu.Unlock()
	if octets > MaxDatagram || octets < MaxDatagram-200 {
		t.Errorf("the full Database has a message of %d octets", octets)
	}
	group := mappingTo("224.1.0.0/16", "10.99.0.3")
	for i, err := range e.Apply(group, dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: group.Entry.Mapping.Prefix}}) {
		if !errors.Is(err, dataplane.ErrUnsupported) {
			t.Errorf("operation %d: %v", i, err)
		}
	}
	bad := siteSettings()
	bad.Interfaces[0].Name = "a-name-that-is-too-long"
	if err := errors.Join(e.Apply(dataplane.SetSettings{Settings: bad})...); !errors.Is(err, dataplane.ErrInvalid) {
		t.Errorf("%v", err)
	}
	for i := range maxKeyed + 1 {
		err := e.PutEncryptionKeys(lisp.RLOCFromAddr(netip.AddrFrom4([4]byte{10, 99, byte(i >> 8), byte(i)})), Key{ID: 1, Cipher: "00"})
		if (err != nil) != (i == maxKeyed) {
			t.Fatalf("keys of RLOC %d: %v", i, err)
		}
	}
}

func TestEngineHearsTheDataPlane(t *testing.T) {
	e, p := connected(t)
	apply(t, e, mappingTo("172.31.2.0/24", "10.99.0.3", "10.99.0.4"))
	const statistics = `{"type":"statistics","entries":[{"instance-id":"0","eid-prefix":"172.31.2.0/24","rlocs":[
		{"rloc":"10.99.0.3","port":"4341","packet-count":5,"byte-count":420,"seconds-last-packet":100},
		{"rloc":"10.99.0.4","port":"4341","packet-count":2,"byte-count":100,"seconds-last-packet":7.5}]},
		{"instance-id":"0","eid-prefix":"nonsense","rlocs":[]},
		{"instance-id":"0","eid-prefix":"10.77.0.0/16","rlocs":[{"rloc":"10.99.0.3","port":"4341","packet-count":1,"byte-count":1,"seconds-last-packet":0}]}]}`
	before, _ := e.Mapping(lisp.MustParsePrefix("172.31.2.0/24"))
	said := time.Now()
	p.say(statistics)
	p.say(statistics)
	eventually(t, "both are added", func() bool { return e.Counters().EncapsulatedPackets == 16 })
	entry, _ := e.Mapping(lisp.MustParsePrefix("172.31.2.0/24"))
	used := entry.Usage.LastUsedAt // 7.5 s before it was heard, which was between then and now
	if entry.Usage.Packets != 14 || entry.Usage.Octets != 1040 || used.Before(said.Add(-8*time.Second)) || used.After(time.Now().Add(-7*time.Second)) {
		t.Errorf("use %+v", entry.Usage)
	}
	if !entry.ExpiresAt.Equal(before.ExpiresAt) {
		t.Error("statistics changed a time that the control plane gave")
	}
	p.say(`{"type":"decap-statistics","good-packets":{"packet-count":3,"byte-count":252,"seconds-last-packet":0.1},
		"ICV-error":{"packet-count":4,"byte-count":1,"seconds-last-packet":0},"outer-header-error":{"packet-count":2,"byte-count":1,"seconds-last-packet":0}}`)
	eventually(t, "decapsulation is counted", func() bool { return e.Counters().DecapsulatedPackets == 3 })
	c := e.Counters()
	if c.Drops["icv-error"] != 4 || c.Drops["outer-header-error"] != 2 || c.DecapsulatedOctets != 252 {
		t.Errorf("counters %+v", c)
	}
	if c.Other["lispers_fields_refused"] != 2 || c.Other["lispers_statistics_unknown"] != 2 {
		t.Errorf("counters %v", c.Other)
	}
}

func TestEngineLimitsDiscoveries(t *testing.T) {
	e, p := connected(t)
	begin := time.Now()
	for i := range 30 {
		p.say(`{"type":"discovery","source-eid":"172.31.1.1","dest-eid":"2001:db8::%d","interface":"","instance-id":"7"}`, i%3)
	}
	eventually(t, "all are seen", func() bool { return e.tally.value(discoveries)+e.tally.value(discoveriesLimited) == 30 })
	// Seconds may turn while they come.
	if n := len(e.Events()); n < 3 || n > 3*(1+int(time.Since(begin)/discoveryInterval)) {
		t.Errorf("%d misses of 30 discoveries of 3 destinations", n)
	}
	if miss := (<-e.Events()).(dataplane.Miss); miss.Instance != 7 || miss.Destination.String() != "2001:db8::" {
		t.Errorf("miss %+v", miss)
	}
}

func TestEngineDetaches(t *testing.T) {
	d := directory(t)
	p := dataPlanePeer(t, d)
	e := newTestEngine(t, d)
	apply(t, e, dataplane.SetSettings{Settings: siteSettings()}, ownDatabase("172.31.1.0/24"), mappingTo("172.31.2.0/24", "10.99.0.3"))
	eventually(t, "all is told", e.idle)
	p.quiet("")
	ctx, cancel := context.WithTimeout(context.Background(), watchdog)
	defer cancel()
	for range 2 {
		if err := e.Detach(ctx); err != nil {
			t.Fatal(err)
		}
	}
	p.same(p.await("entire-map-cache"), `{"type":"entire-map-cache","entries":[]}`)
	p.same(p.await("interfaces"), `{"type":"interfaces","interfaces":[]}`)
	p.same(p.await("database-mappings"), `{"type":"database-mappings","database-mappings":[]}`)
	if _, open := <-e.Events(); open {
		t.Error("the events go on")
	}
}

// TestEngineDetachesFromADeafDataPlane: it gives up when its time is over, and says so.
func TestEngineDetachesFromADeafDataPlane(t *testing.T) {
	d := directory(t)
	dataPlanePeer(t, d)
	e := newTestEngine(t, d)
	apply(t, e, dataplane.SetSettings{Settings: siteSettings()})
	for i := range 3000 {
		apply(t, e, mappingTo(fmt.Sprintf("10.%d.%d.0/24", 2+i/250, i%250), "10.99.0.3"))
	}
	eventually(t, "the data plane's socket is full", func() bool { return e.tally.value(messagesUnsent) > 0 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := e.Detach(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if results := e.Apply(dataplane.Flush{}); len(results) != 1 || !errors.Is(results[0], dataplane.ErrClosed) {
		t.Errorf("after Detach: %v", results)
	}
}

// The rest of a test of the suite that asks for a native packet.
func TestPairCounts(t *testing.T) {
	p := newPair(t)
	apply(t, p.engine, dataplane.SetSettings{Settings: p.Settings()}, ownDatabase("10.1.0.0/24"), mappingTo("10.2.0.0/24", "192.0.2.2", "192.0.2.3"))
	packet := udp4(conformance.SiteHosts[0], netip.MustParseAddr("10.2.0.1"))
	for range 10 {
		p.SendFromSite(t, packet)
	}
	eventually(t, "the statistics come", func() bool { return p.engine.Counters().EncapsulatedPackets == 10 })
	entry, _ := p.engine.Mapping(lisp.MustParsePrefix("10.2.0.0/24"))
	if entry.Usage.Packets != 10 || entry.Usage.Octets != uint64(10*len(packet)) {
		t.Errorf("use %+v", entry.Usage)
	}
	p.SendFromSite(t, udp4(conformance.SiteHosts[0], netip.MustParseAddr("10.3.0.1")))
	select {
	case event := <-p.engine.Events():
		if miss := event.(dataplane.Miss); miss.Destination.String() != "10.3.0.1" || miss.Interface != "site0" {
			t.Errorf("miss %+v", miss)
		}
	case <-time.After(time.Minute):
		t.Fatal("no miss came")
	}
	// No locator is up: nothing leaves.
	for _, state := range []dataplane.LocatorState{dataplane.LocatorDown, dataplane.LocatorUp} {
		apply(t, p.engine, dataplane.PutLocatorState{RLOC: rlocOf("192.0.2.2"), State: state}, dataplane.PutLocatorState{RLOC: rlocOf("192.0.2.3"), State: state})
		for ok := true; ok; {
			_, ok = p.ReceiveAtCore(t)
		}
		p.SendFromSite(t, packet)
		if _, left := p.ReceiveAtCore(t); left != (state == dataplane.LocatorUp) {
			t.Errorf("locators %s, packet left: %t", state, left)
		}
	}
}

func TestEngineCountsWhatItDoesNotTake(t *testing.T) {
	_, e := endsWithoutSockets(t)
	const rloc = `{"type":"statistics","entries":[{"instance-id":"0","eid-prefix":"172.31.2.0/24","rlocs":[{"rloc":"10.99.0.3","port":"4341",%s}]}]}`
	const decap = `{"type":"decap-statistics","good-packets":%s}`
	for _, c := range []struct {
		counter string
		texts   []string
	}{
		{"lispers_messages_malformed", []string{`nonsense`, `7`}},
		{"lispers_messages_unknown", []string{`{"type":"` + strings.Repeat("x", 1000) + `"}`}},
		{"lispers_messages_unexpected", []string{`{"type":"database-mappings","database-mappings":[]}`, `{"type":"etr-nat-port","port":1}`}},
		{"lispers_multicast_refused", []string{`{"type":"discovery","source-eid":"172.31.1.1","dest-eid":"224.0.1.1","interface":"","instance-id":"0"}`}},
		{"lispers_eids_unsupported", []string{`{"type":"discovery","source-eid":"02:00:00:00:00:01","dest-eid":"10.0.0.1","interface":"","instance-id":"0"}`}},
		{"lispers_fields_refused", []string{
			`{"type":"discovery","source-eid":"172.31.1.1","dest-eid":"10.0.0.1","instance-id":"0"}`,
			`{"type":"discovery","source-eid":"172.31.1.1","dest-eid":"somewhere","interface":"","instance-id":"0"}`,
			`{"type":"discovery","source-eid":"172.31.1.1","dest-eid":"10.0.0.1","interface":"","instance-id":"-1"}`,
			`{"type":"discovery","source-eid":"172.31.1.1","dest-eid":"10.0.0.1","interface":"a-name-that-is-too-long","instance-id":"0"}`,
			fmt.Sprintf(rloc, `"byte-count":1,"seconds-last-packet":0`), fmt.Sprintf(rloc, `"packet-count":1,"seconds-last-packet":0`),
			fmt.Sprintf(rloc, `"packet-count":-1,"byte-count":1`), fmt.Sprintf(rloc, `"packet-count":18446744073709551615,"byte-count":1`),
			fmt.Sprintf(rloc, `"packet-count":1,"byte-count":1,"seconds-last-packet":-1`), fmt.Sprintf(rloc, `"packet-count":1,"byte-count":1,"seconds-last-packet":1e300`),
			fmt.Sprintf(rloc, `"port":"70000","packet-count":1,"byte-count":1`),
			fmt.Sprintf(decap, `{"packet-count":1.5,"byte-count":1}`), fmt.Sprintf(decap, `[]`), fmt.Sprintf(decap, `null`), `{"type":"statistics"}`,
		}},
	} {
		for _, text := range c.texts {
			before := e.Counters()
			e.handle([]byte(text))
			after := e.Counters()
			for name, n := range after.Other {
				want := before.Other[name]
				if name == c.counter || name == "lispers_messages_received" {
					want++
				}
				if n != want {
					t.Errorf("%.90q: %s went from %d to %d", text, name, before.Other[name], n)
				}
			}
			if after.EncapsulatedPackets+after.DecapsulatedPackets+after.MissPackets > 0 {
				t.Errorf("%.90q was counted: %+v", text, after)
			}
		}
	}
	// Of many bad entries each is counted, and few are told in words.
	m, err := decode([]byte(`{"type":"database-mappings","database-mappings":[` + repeated(`{"instance-id":"0","eid-prefix":"224.0.0.0/4"}`, 1000) + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	refused := m.(databaseMessage).refused
	e.refused(refused...)
	if n := e.tally.value(multicastRefused); n != 1001 || refused[maxExplained] != errMulticast {
		t.Errorf("%d counted, entry %d is %v", n, maxExplained, refused[maxExplained])
	}
}

// TestUntoldIsBounded: changes beyond the bound become one: everything.
func TestUntoldIsBounded(t *testing.T) {
	u := untold{limit: 10}
	prefix := func(i int) lisp.Prefix { return lisp.MustParsePrefix(fmt.Sprintf("10.2.%d.0/24", i)) }
	for i := range 10 {
		u.mapping(prefix(i))
		u.mapping(prefix(i))
	}
	if len(u.mappings) != 10 || u.entire != resyncNothing {
		t.Errorf("%d changes noted, %d", len(u.mappings), u.entire)
	}
	u.mapping(prefix(10))
	u.mapping(prefix(11))
	if len(u.mappings) != 0 || u.entire != resyncClear {
		t.Errorf("%d changes noted, %d", len(u.mappings), u.entire)
	}
	u.everything(false)
	if u.entire != resyncClear {
		t.Error("a restart made less of what is to be told")
	}
}

func TestEngineTellsParameters(t *testing.T) {
	e, p := connected(t)
	e.SetParameters(Parameters{RTR: true, ETRNATPort: 40000})
	p.same(p.await("xtr-parameters"), `{"type":"xtr-parameters","control-plane-logging":false,"data-plane-logging":false,"rtr":true}`)
	p.same(p.await("etr-nat-port"), `{"type":"etr-nat-port","port":40000}`)
	if n := p.quiet("itr-crypto-port"); n != 0 {
		t.Error("a port that is not set was told")
	}
}
