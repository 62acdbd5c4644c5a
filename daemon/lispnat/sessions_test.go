// SPDX-License-Identifier: Apache-2.0

//go:build !nolispnat

package lispnat

import (
	"encoding/binary"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"loci/config/translation"
)

func attribute(kind uint16, value ...byte) []byte {
	list := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	list = binary.NativeEndian.AppendUint16(list, kind)
	list = append(list, value...)
	return append(list, make([]byte, (4-len(value)%4)%4)...)
}

func tupleOf(kind uint16, from, to string, fromPort, toPort byte) []byte {
	ip := attribute(1, netip.MustParseAddr(from).AsSlice()...)
	ip = append(ip, attribute(2, netip.MustParseAddr(to).AsSlice()...)...)
	proto := append(append(attribute(1, 17), attribute(2, 0, fromPort)...), attribute(3, 0, toPort)...)
	return attribute(kind|0x8000, append(attribute(1|0x8000, ip...), attribute(2|0x8000, proto...)...)...)
}

func testSpec() *Spec {
	e := translation.Entry{
		From:      netip.MustParsePrefix("192.168.1.0/24"),
		Pool:      translation.PoolOf(netip.MustParsePrefix("203.0.113.0/24")),
		Translate: translation.Address,
	}
	return &Spec{
		Sites: []string{"lan0"}, LISP: "loci0", Marked: true, ControlPort: 4342, Entries: []Entry{{Entry: e}},
	}
}

func sessionMessage(source, translated string, status byte) []byte {
	message := append([]byte{2, 0, 0, 0}, tupleOf(1, source, "198.51.100.1", 10, 53)...)
	message = append(message, tupleOf(2, "198.51.100.1", translated, 53, 11)...)
	message = append(message, attribute(3, 0, 0, 0, status)...)
	return append(message, attribute(7, 0, 0, 0, 30)...)
}

func TestSessionsOfEntries(t *testing.T) {
	s := testSpec()
	got, ours := s.parseSession(sessionMessage("192.168.1.9", "203.0.113.9", ctSourceNAT))
	want := Session{
		Protocol: 17, Source: netip.MustParseAddrPort("192.168.1.9:10"),
		Translated:  netip.MustParseAddrPort("203.0.113.9:11"),
		Destination: netip.MustParseAddrPort("198.51.100.1:53"), Expires: 30 * time.Second,
	}
	if !ours || got != want {
		t.Errorf("%+v, %v; want %+v", got, ours, want)
	}
	for name, message := range map[string][]byte{
		"not translated":   sessionMessage("192.168.1.9", "192.168.1.9", 0),
		"of other sources": sessionMessage("192.168.2.9", "203.0.113.9", ctSourceNAT),
		"of another pool":  sessionMessage("192.168.1.9", "203.0.114.9", ctSourceNAT),
		"empty":            nil,
	} {
		if got, ours := s.parseSession(message); ours {
			t.Errorf("a session %s counts as ours: %+v", name, got)
		}
	}
}

func FuzzParseSession(f *testing.F) {
	f.Add(sessionMessage("192.168.1.9", "203.0.113.9", ctSourceNAT))
	f.Fuzz(func(_ *testing.T, message []byte) { testSpec().parseSession(message) })
}

// TestSpecsDifferByTheirComments: a start leaves a table as it is only where its rules would be the same.
func TestSpecsDifferByTheirComments(t *testing.T) {
	first := testSpec().comments()["private"][0]
	if again := testSpec().comments()["private"][0]; again != first {
		t.Errorf("%q, then %q", first, again)
	}
	for name, change := range map[string]func(*Spec){
		"pool":      func(s *Spec) { s.Entries[0].Pool.Last = s.Entries[0].Pool.First },
		"method":    func(s *Spec) { s.Entries[0].Translate = translation.AddressAndPort },
		"interface": func(s *Spec) { s.Sites[0] = "lan1" },
		"engine":    func(s *Spec) { s.Marked = false },
		"port":      func(s *Spec) { s.ControlPort++ },
	} {
		s := testSpec()
		change(s)
		if s.comments()["private"][0] == first {
			t.Errorf("another %s has the same comment", name)
		}
	}
}

func TestRefusalsStandForAMinute(t *testing.T) {
	var r refusals
	now := time.Unix(1_700_000_000, 0)
	if r.add(now, 0) || r.stands(now) {
		t.Error("nothing was refused, and is reported")
	}
	if !r.add(now, 3) || r.add(now.Add(time.Second), 2) || r.sum != 5 {
		t.Errorf("five in a row are reported once: %+v", r)
	}
	if !r.stands(now.Add(standsFor)) || r.stands(now.Add(2*standsFor)) {
		t.Error("refusals stand for a minute")
	}
	if !r.add(now.Add(3*standsFor), 1) {
		t.Error("refusals after a pause are not reported anew")
	}
}

// TestNoMoreRefusalsThanSessions: others translate on the same host, and the kernel counts for all.
func TestNoMoreRefusalsThanSessions(t *testing.T) {
	l := limits{known: true, begun: 4}
	l.look(time.Now(), 4, slog.New(slog.DiscardHandler))
	if l.ports.sum != 0 {
		t.Errorf("%d sessions refused, none began", l.ports.sum)
	}
}
