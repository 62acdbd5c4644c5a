// SPDX-License-Identifier: Apache-2.0

package temptcp

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestParameters: the file is whole, equal rounds draw equal RTTs within their limits, and a network follows from it.
func TestParameters(t *testing.T) {
	p := parametersOf(t)
	if a, b, c := p.draw(1), p.draw(1), p.draw(2); !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("%v\n%v\n%v", a, b, c)
	}
	for round := range 100 {
		for i, rtt := range p.draw(round) {
			if q := p.Pairs[i]; rtt < q.From || rtt > q.To {
				t.Errorf("%v: %v", q.Between, rtt)
			}
		}
	}
	_, err := p.network()
	must(t, err)
	if listed, err := List(); err != nil || listed.Name != Name || listed.Origin == "" {
		t.Errorf("%+v, %v", listed, err)
	}
	for was, is := range map[string]string{
		"{between: [lip6, nss], from: 1200us": "{between: [lip6, nss], from: 0s",
		"paths: [lip6, rezopole, nss, vnu]":   "paths: [rezopole, lip6, nss, vnu]",
		"paths: [nss, rezopole, lip6, vnu]":   "paths: [nss, rezopole, lip6, umkc]",
		"sweep: {source: lip6":                "sweep: {source: inria",
		"{site: nss, rate":                    "{site: vnu, rate",
		"seed: ":                              "seeds: ",
	} {
		changed := strings.Replace(string(parametersFile), was, is, 1)
		if _, err := readParameters([]byte(changed)); err == nil || changed == string(parametersFile) {
			t.Errorf("%s is taken", is)
		}
	}
}

// TestSweepMovesOnePath: the RTT of the second path is that of the first and the difference.
func TestSweepMovesOnePath(t *testing.T) {
	p := parametersOf(t)
	s := p.source(p.Sweep.Source)
	for _, difference := range p.Sweep.Differences {
		d := p.apart(*s, difference)
		if found := p.pathRTT(d, s.Site, s.Paths[1]) - p.pathRTT(d, s.Site, s.Paths[0]); found != difference {
			t.Errorf("%v, want %v", found, difference)
		}
	}
}

// TestChoices: the set that is chosen has no higher differential RTT than the paper's, and never goes by VNU.
func TestChoices(t *testing.T) {
	p := parametersOf(t)
	for round := range 20 {
		for _, s := range p.Sources {
			for _, c := range p.choices(p.draw(round), s, round) {
				if len(c.Chosen) != c.Paths || c.Differential > c.PapersDifferential || c.PapersDifferential <= 0 ||
					strings.Contains(strings.Join(c.Chosen, " "), "vnu") {
					t.Errorf("%s\n%+v", c.text(), c)
				}
			}
		}
	}
}

// frame is a packet of LISP with TCP inside, as a capture has it.
func frame(from, to netip.AddrPort, flags byte) []byte {
	f := make([]byte, ethernetOctets+ipv4Octets+udpOctets+lispOctets+2*ipv4Octets)
	inner := f[ethernetOctets+ipv4Octets+udpOctets+lispOctets:]
	inner[0], inner[9] = 0x45, protocolTCP
	copy(inner[12:], from.Addr().AsSlice())
	copy(inner[16:], to.Addr().AsSlice())
	binary.BigEndian.PutUint16(inner[20:], from.Port())
	binary.BigEndian.PutUint16(inner[22:], to.Port())
	inner[33] = flags
	return f
}

// TestDeviation: a subflow may be anywhere until two round trips after its handshake, and then on its path only, in both
// directions.
func TestDeviation(t *testing.T) {
	client, server := netip.MustParseAddrPort("10.1.0.12:40000"), netip.MustParseAddrPort("10.7.1.12:5001")
	type packet struct {
		at   int // ms
		site string
		back bool
		syn  bool
	}
	handshake := []packet{{0, "a", false, true}, {60, "b", true, true}, {100, "a", false, false}}
	for name, c := range map[string]struct {
		more      []packet
		deviation string
	}{
		"on its paths":               {[]packet{{400, "a", false, false}, {450, "b", true, false}}, ""},
		"elsewhere until two trips":  {[]packet{{300, "c", false, false}, {450, "b", true, false}, {290, "a", true, false}}, ""},
		"elsewhere after them":       {[]packet{{301, "c", false, false}, {400, "a", false, false}}, "the RTR of c was sent packets 0.201 s"},
		"back, elsewhere after them": {[]packet{{301, "a", true, false}}, "the RTR of a was sent packets"},
	} {
		w := &watch{servers: netip.MustParsePrefix("10.7.0.0/16"), seen: map[flow]*[2]sight{}}
		start := time.Unix(1000, 0)
		for _, q := range append(slices.Clone(handshake), c.more...) {
			from, to, flags := client, server, byte(0x10)
			if q.back {
				from, to = to, from
			}
			if q.syn {
				flags |= flagSYN
			}
			w.take(q.site, start.Add(time.Duration(q.at)*time.Millisecond), frame(from, to, flags))
		}
		found := w.deviation(flow{client, server}, "a", "b")
		if (found == "") != (c.deviation == "") || !strings.Contains(found, c.deviation) {
			t.Errorf("%s: %q, want %q", name, found, c.deviation)
		}
		for _, paths := range [][2]string{{"a", ""}, {"d", "b"}} {
			if found := w.deviation(flow{client, server}, paths[0], paths[1]); found == "" {
				t.Errorf("%s: %q is taken for its paths", name, paths)
			}
		}
		w.forget()
		if found := w.deviation(flow{client, server}, "a", "b"); !strings.Contains(found, "handshake") {
			t.Errorf("%s: nothing was seen, but: %q", name, found)
		}
	}
	for length := range len(frame(client, server, 0)) { // nothing that is cut off is read beyond its end
		if _, _, _, ok := tcpIn(frame(client, server, 0)[:length]); ok {
			t.Errorf("%d octets are taken for a packet", length)
		}
	}
}
