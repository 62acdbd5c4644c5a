// SPDX-License-Identifier: Apache-2.0

package lispers

// The captured messages of lispers.net: each reads as what it means, is written again
// as the same JSON, and does what it should at either end.

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"loci/dataplane"
	"loci/dataplane/model"
	"loci/lisp"
)

type captured struct {
	toDataPlane bool
	text        string
}

func readCapture(t testing.TB) []captured {
	t.Helper()
	raw, err := os.ReadFile("../../testdata/vectors/lispers-ipc/capture.log")
	if err != nil {
		t.Fatal(err)
	}
	var list []captured
	for line := range strings.Lines(string(raw)) {
		_, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		direction, text, isMessage := strings.Cut(rest, " ")
		if ok && isMessage {
			list = append(list, captured{toDataPlane: direction == "CP->DP", text: text})
		}
	}
	if len(list) < 20 {
		t.Fatalf("%d messages in the capture", len(list))
	}
	return list
}

// written is the JSON object of a message.
func written(m message) any {
	switch m := m.(type) {
	case mapCacheMessage:
		return m.json()
	case entireMapCacheMessage:
		return m.json()
	case databaseMessage:
		return m.json()
	case interfacesMessage:
		return m.json()
	case decapKeysMessage:
		return m.json()
	case portMessage:
		return m.json()
	case parametersMessage:
		return m.json()
	case restartMessage:
		return m.json()
	case discoveryMessage:
		return m.json()
	case statisticsMessage:
		return m.json()
	case decapStatisticsMessage:
		return m.json()
	}
	return nil
}

func TestCapturedMessagesAreWrittenAsTheyWere(t *testing.T) {
	seen := map[string]bool{}
	statistics := strings.NewReplacer(`"port": "4341", "packet`, `"port": 4341, "packet`)
	for _, c := range readCapture(t) {
		m, err := decode([]byte(c.text))
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		seen[m.typeName()] = true
		want := parse(t, c.text)
		if got := parse(t, string(encode(written(m)))); !reflect.DeepEqual(got, want) {
			t.Errorf("written as %v\nwant %v", got, want)
		}
		// A number where the description has a string reads the same.
		if other, err := decode([]byte(statistics.Replace(c.text))); err != nil || !reflect.DeepEqual(other, m) {
			t.Errorf("%s: with a number for the port: %v, %v", c.text, other, err)
		}
	}
	for kind := range decoders {
		if !seen[kind] {
			t.Errorf("the capture has no %s", kind)
		}
	}
}

// TestCaptureDrivesServer plays lispers.net's part to the plane's end.
func TestCaptureDrivesServer(t *testing.T) {
	plane := model.New(model.Options{})
	s := newTestServer(t, directory(t), plane)
	prefix := lisp.MustParsePrefix("172.31.2.0/24")
	for _, c := range readCapture(t) {
		if !c.toDataPlane {
			continue
		}
		s.handle([]byte(c.text))
		m, _ := decode([]byte(c.text))
		if _, isAdd := m.(mapCacheMessage); isAdd {
			entry, ok := plane.Mapping(prefix)
			if !ok || !entry.Mapping.Negative() || entry.Mapping.Action != lisp.ActionDropPolicyDenied {
				t.Fatalf("the mapping with keys is %+v, %t: want it withheld", entry, ok)
			}
		}
	}
	want := Status{
		Parameters: Parameters{ControlPlaneLogging: true, DataPlaneLogging: true, ETRNATPort: 51527, ITRCryptoPort: 46062},
		Interfaces: []dataplane.Interface{{Name: "eth0", Side: dataplane.SideSite}}, EncryptionKeys: 1, DecryptionKeys: 1,
	}
	if got := s.Status(); !reflect.DeepEqual(got, want) {
		t.Errorf("status %+v, want %+v", got, want)
	}
	peer := lisp.RLOCFromAddr(prefixAddr(t, "10.99.0.3"))
	keys, ok := s.EncryptionKeys(peer)
	if !ok || len(keys) != 1 || keys[0] != (Key{ID: 1, Cipher: "d1b2f31c6769044679bb64a07e053bc0", ICV: "43a78463d65f37b3ece3c7ceebbf1ed7"}) {
		t.Errorf("encryption keys %v, %t", keys, ok)
	}
	if keys, ok := s.DecryptionKeys(peer, 32808); !ok || keys[0].Cipher != "352a73625f718cf34382866c53c807c9" {
		t.Errorf("decryption keys %v, %t", keys, ok)
	}
	database := slices.Collect(plane.Database())
	if len(database) != 1 || database[0].Prefix.String() != "172.31.1.0/24" || len(database[0].Locators) != 2 {
		t.Errorf("database %+v, want the captured prefix with both own RLOCs", database)
	}
	for name, n := range s.Counters() {
		switch name {
		case "lispers_messages_received", "lispers_mappings_withheld_for_keys":
		default:
			if n != 0 {
				t.Errorf("%s is %d", name, n)
			}
		}
	}
}

// TestCaptureDrivesEngine plays the captured data plane's part.
func TestCaptureDrivesEngine(t *testing.T) {
	e := newTestEngine(t, directory(t))
	apply(t, e, mappingTo("172.31.2.0/24", "10.99.0.3"))
	for _, c := range readCapture(t) {
		if !c.toDataPlane {
			e.handle([]byte(c.text))
		}
	}
	miss := (<-e.Events()).(dataplane.Miss)
	if miss.Source.String() != "172.31.1.1" || miss.Destination.String() != "172.31.2.1" || miss.Interface != "eth0" || miss.Instance != 0 {
		t.Errorf("miss %+v", miss)
	}
	entry, _ := e.Mapping(lisp.MustParsePrefix("172.31.2.0/24"))
	if entry.Usage.Packets != 5 || entry.Usage.Octets != 420 || entry.Usage.LastUsedAt.IsZero() {
		t.Errorf("use %+v, want the captured 5 packets of 420 octets", entry.Usage)
	}
	c := e.Counters()
	if c.EncapsulatedPackets != 5 || c.EncapsulatedOctets != 420 || c.DecapsulatedPackets != 3 || c.DecapsulatedOctets != 252 || c.MissPackets != 1 {
		t.Errorf("counters %+v", c)
	}
	if e.tally.value(restarts) != 2 {
		t.Errorf("%d restarts, want 2", e.tally.value(restarts))
	}
}
