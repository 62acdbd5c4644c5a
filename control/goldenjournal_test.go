// SPDX-License-Identifier: Apache-2.0

package control

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/lisp"
	"loci/wire"
)

// goldenJournalFile has a piece of a journal in each line. A Map-Server reads the journals of earlier versions: no line
// ever changes.
const goldenJournalFile = "testdata/golden/journal.txt"

// TestGoldenJournal writes the journal of the file octet for octet, and a Map-Server that reads it knows all that was
// registered.
func TestGoldenJournal(t *testing.T) {
	content, err := os.ReadFile(goldenJournalFile)
	if err != nil {
		t.Fatal(err)
	}
	wrote := goldenJournal(t)
	isEnd := func(p Journal) bool { return len(p.Octets) == 0 } // of a checkpoint
	written := slices.DeleteFunc(slices.Clone(wrote.pieces), isEnd)
	lines := strings.Fields(string(content))
	if len(lines) != len(written) {
		t.Errorf("%d pieces, want %d", len(written), len(lines))
	}
	var pieces []Journal
	for i, line := range lines {
		octets, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		pieces = append(pieces, Journal{Octets: octets})
		if i < len(written) && !slices.Equal(written[i].Octets, octets) {
			t.Fatalf("piece %d is\n%x, want\n%x", i, written[i].Octets, octets)
		}
	}
	read := newJournalledServer(t, wrote.config, wrote.now, pieces...)
	read.wait(0)
	wrote.wait(0)
	sameRegistrations(t, read, wrote)
	if len(read.list()) == 0 {
		t.Error("nothing is registered")
	}
}

// goldenJournal is a Map-Server after registrations with all that a locator can have, and many others.
func goldenJournal(t *testing.T) *journalledServer {
	t.Helper()
	s := newJournalledServer(t, journalledConfig(), epoch)
	random := rand.New(rand.NewPCG(30, 6))
	nonce := uint64(1)
	for _, name := range []string{
		"explicit locator path", "path of both families", "path of one hop", "path with reserved bits",
		"replication list", "JSON", "distinguished name",
	} {
		nonce++
		s.take(journalXTRs[1], registerAddresses(t, nonce, unhex(t, registeredAddresses[name])))
		s.wait(time.Millisecond)
	}
	for i, l := range everyLocator() {
		nonce++
		s.take(journalXTRs[1], registerAddressed(t, nonce, fmt.Sprintf("10.1.%d.0/24", 16+i), l))
	}
	s.Checkpoint(s.now)
	s.drain()
	for range 60 {
		nonce++
		from, b := anyRegister(t, random, nonce)
		s.take(from, b)
		s.wait(time.Duration(random.IntN(8000)) * time.Millisecond)
	}
	return s
}

// everyLocator is a locator with each number at its ends, and each bit.
func everyLocator() []wire.LocatorRecord {
	plain := wire.LocatorRecord{Address: wire.RLOCAddress(lisp.RLOCFromAddr(journalLocal.Addr()))}
	list := []wire.LocatorRecord{plain}
	for _, set := range []func(*wire.LocatorRecord){
		func(l *wire.LocatorRecord) { l.Priority = 1 },
		func(l *wire.LocatorRecord) { l.Priority = 255 },
		func(l *wire.LocatorRecord) { l.Weight = 1 },
		func(l *wire.LocatorRecord) { l.Weight = 255 },
		func(l *wire.LocatorRecord) { l.MulticastPriority = 1 },
		func(l *wire.LocatorRecord) { l.MulticastPriority = 255 },
		func(l *wire.LocatorRecord) { l.MulticastWeight = 1 },
		func(l *wire.LocatorRecord) { l.MulticastWeight = 255 },
		func(l *wire.LocatorRecord) { l.Local = true },
		func(l *wire.LocatorRecord) { l.Probed = true },
		func(l *wire.LocatorRecord) { l.Reachable = true },
		func(l *wire.LocatorRecord) { l.Address = wire.RLOCAddress(lisp.RLOCFromAddr(journalXTRs[2].Addr())) },
	} {
		l := plain
		set(&l)
		list = append(list, l)
	}
	return list
}

// registerAddressed is a signed Map-Register of an EID-Prefix with one locator.
func registerAddressed(t *testing.T, nonce uint64, prefix string, l wire.LocatorRecord) []byte {
	t.Helper()
	return register(t, func(m *wire.MapRegister) {
		m.Nonce = nonce
		m.Records[0].Locators = []wire.LocatorRecord{l}
	}, prefix)
}
