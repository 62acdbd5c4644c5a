// SPDX-License-Identifier: Apache-2.0

package mapsock

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/dataplane"
	"loci/lisp"
)

// goldenFile has the octets of goldenMessages as written by the version that introduced the last attribute in it.
// Clients of that version read and write them: no line ever changes.
const goldenFile = "testdata/golden/messages.txt"

// TestGoldenMessages writes each message of the file, octet for octet, and reads it back as it was.
func TestGoldenMessages(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the octets are those of a little-endian host")
	}
	content, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	messages := goldenMessages(t)
	for line := range strings.Lines(string(content)) {
		name, want, _ := strings.Cut(strings.TrimSpace(line), ": ")
		m := messages[name]
		if m == nil {
			t.Fatalf("no message %q", name)
		}
		delete(messages, name)
		if got := hex.EncodeToString(written(t, nil, m)); got != want {
			t.Errorf("%s is\n%s, want\n%s", name, got, want)
		}
		octets, err := hex.DecodeString(want)
		if err != nil {
			t.Fatal(err)
		}
		var read Message
		if _, err := read.Parse(octets); err != nil || hex.EncodeToString(written(t, nil, &read)) != want {
			t.Errorf("%s reads as %+v (%v)", name, read, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(messages)) {
		t.Errorf("%s is not in %s: %x", name, goldenFile, written(t, nil, messages[name]))
	}
}

// goldenMessages are a message with everything, one with each attribute by itself, and one of each operation and
// event.
func goldenMessages(t *testing.T) map[string]*Message {
	everything := full()
	everything.Sibling, everything.RTRs, everything.Outer = netip.Addr{}, nil, [2]netip.AddrPort{} // not in the file
	everything.has &^= 1<<AttributeSibling | 1<<AttributeRTR | 1<<AttributeOuter | 1<<AttributeMarkNative
	everything.has &^= 1<<AttributeFlow | 1<<AttributeTables | 1<<AttributeSubflows | 1<<AttributePathIdentification
	everything.MarkNative = 0
	messages := map[string]*Message{"everything": everything}
	for a := AttributeInstance; a <= AttributeRecursionDepth; a++ {
		messages[fmt.Sprintf("attribute %d", a)] = withOne(t, a)
	}
	for _, a := range []Attribute{AttributeFlow, AttributeTables, AttributeSubflows, AttributePathIdentification} {
		messages[fmt.Sprintf("attribute %d", a)] = withOne(t, a)
	}
	for i, operation := range goldenOperations() {
		m := &Message{}
		if err := m.SetOperation(operation); err != nil {
			t.Fatal(err)
		}
		m.Seq = uint32(i)
		messages[fmt.Sprintf("operation %d %T", i, operation)] = m
	}
	for _, event := range goldenEvents() {
		m := &Message{}
		if !m.SetEvent(event) {
			t.Fatalf("no message for %T", event)
		}
		messages[fmt.Sprintf("event %T", event)] = m
	}
	return messages
}

// withOne has one of the attributes of full.
func withOne(t *testing.T, a Attribute) *Message {
	t.Helper()
	all := full()
	m := &Message{Type: TypeAdd}
	switch a {
	case AttributeEID:
		m.SetPrefix(lisp.MustParsePrefix("02:00:00:00:00:00/17"))
		return m
	case AttributeHops:
		m.Locators = all.Locators
		return m
	}
	whole := *all
	m = &whole
	m.HasEID, m.HasMask, m.Locators, m.Flags, m.MapVersion, m.Sibling = false, false, nil, 0, 0, netip.Addr{}
	m.RTRs, m.Outer = nil, [2]netip.AddrPort{}
	m.has = 0
	m.Mark(a)
	for of, clear := range map[Attribute]func(){
		AttributeWatched:       func() { m.Watched = nil },
		AttributeLocalRLOC:     func() { m.LocalRLOCs = nil },
		AttributeMissPolicyOf:  func() { m.MissPolicies = nil },
		AttributeEncapsulation: func() { m.Encapsulations = nil },
		AttributeList:          func() { m.Lists = nil },
		AttributeRole:          func() { m.Roles = nil },
		AttributePath:          func() { m.Paths = nil },
	} {
		if a != of {
			clear()
		}
	}
	m.Counts = slices.DeleteFunc(m.Counts, func(c Count) bool { return c.Attribute != a })
	return m
}

func goldenOperations() []dataplane.Operation {
	at := time.Unix(1700000000, 123456789)
	all := full()
	set := lisp.LocatorSet{all.Locators[0].Locator, all.Locators[1].Locator}
	mapping := dataplane.MapCacheEntry{
		Mapping: lisp.Mapping{
			Prefix: lisp.MustParsePrefix("[7]10.2.0.0/16"), Locators: set, TTLMinutes: 1440, Version: 0xABC,
			Authoritative: true, EchoNonce: true,
		},
		CreatedAt: at, ExpiresAt: at.Add(24 * time.Hour), Gleaned: true,
	}
	negative := dataplane.MapCacheEntry{
		Mapping: lisp.Mapping{
			Prefix: lisp.MustParsePrefix("2001:db8::/33"), TTLMinutes: 15,
			Action: lisp.ActionDropPolicyDenied,
		},
		CreatedAt: at, Static: true,
	}
	settings := dataplane.Settings{
		Interfaces: all.Watched, LocalRLOCs: all.LocalRLOCs,
		MissPolicy: all.MissPolicy, MissPolicies: all.MissPolicies,
		MissForm: dataplane.MissFormHeader, Wait: all.Wait,
		Header: all.Header, Encapsulations: all.Encapsulations,
		Lists: all.Lists, Roles: all.Roles, RecursionDepth: 2,
	}
	prefix := mapping.Mapping.Prefix
	return []dataplane.Operation{
		dataplane.PutMapping{Entry: mapping},
		dataplane.PutMapping{Entry: negative},
		dataplane.DeleteMapping{Prefix: negative.Mapping.Prefix},
		dataplane.PutDatabase{Entry: dataplane.DatabaseEntry{Prefix: prefix, Locators: set, Version: 0x123}},
		dataplane.DeleteDatabase{Prefix: prefix},
		dataplane.PutLocatorState{RLOC: set[1].RLOC, Behind: set[1].Behind, State: dataplane.LocatorDown},
		dataplane.SetSettings{Settings: settings},
		dataplane.SetSettings{},
		dataplane.Flush{MapCache: true},
		dataplane.Flush{MapCache: true, Database: true},
		dataplane.Flush{MapCache: true, Flows: true},
		dataplane.PutFlow{Flow: boundFlow(), Path: set[1].Path()},
		dataplane.PutFlow{Flow: flow6(), Path: set[0].Path()},
		dataplane.DeleteFlow{Flow: boundFlow()},
	}
}

// flow6 is a flow in Instance-ID 0.
func flow6() lisp.Flow {
	return lisp.Flow{
		Protocol: 17, SourcePort: 1, DestinationPort: 65535,
		Source:      lisp.EIDFromAddr(netip.MustParseAddr("2001:db8:1::1")),
		Destination: lisp.EIDFromAddr(netip.MustParseAddr("2001:db8:2::1")),
	}
}

func goldenEvents() []dataplane.Event {
	rloc := lisp.RLOCFromAddr(netip.MustParseAddr("2001:db8::9"))
	from, to := lisp.EIDFromAddr(netip.MustParseAddr("10.1.0.1")), lisp.EIDFromAddr(netip.MustParseAddr("10.2.0.1"))
	versions := dataplane.PacketVersions{
		Instance: 7, Source: from, Destination: to, From: rloc, SourceVersion: 1, DestinationVersion: 2,
	}
	prefix := lisp.MustParsePrefix("10.2.0.0/16")
	return []dataplane.Event{
		dataplane.Miss{
			Instance: 7, Source: from, Destination: to, Interface: "site0",
			Packet: []byte{0x45, 0, 0}, Handed: true, Form: dataplane.MissFormPacket,
		},
		dataplane.Expired{Prefix: prefix},
		dataplane.StatusBitsChanged{Prefix: prefix, From: rloc, Bits: 5, Count: 8},
		dataplane.LocalVersionStale{PacketVersions: versions},
		dataplane.RemoteVersionStale{PacketVersions: versions},
		dataplane.NonceMismatch{RLOC: rloc, Sent: 1, Received: 2},
		dataplane.Gleaned{Instance: 7, Source: from, Destination: to, From: rloc},
		dataplane.LocatorUnreachable{RLOC: rloc, Type: 3, Code: 1},
		dataplane.MTUChanged{RLOC: rloc, MTU: 1400},
		dataplane.Subflow{Flow: boundFlow(), FromCore: true, TCP: []byte{0x9c, 0x40, 1, 0xbb}},
	}
}
