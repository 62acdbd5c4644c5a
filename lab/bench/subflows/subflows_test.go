// SPDX-License-Identifier: Apache-2.0

package subflows

import (
	"net/netip"
	"testing"

	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

// TestFiguresAreJudged: each figure that is not as wanted misses its own target, and no other.
func TestFiguresAreJudged(t *testing.T) {
	for _, bad := range []string{"", kindSYN, kindBinding, kindFlood} {
		r := &report.Report{}
		for _, c := range []struct {
			kind, metric, base string
			good, bad          float64
		}{
			{kindSYN, "p50", armPlain, 1, 1.2},
			{kindBinding, "p50", armMiss, 0.7, 1.1},
			{kindFlood, "rate", armPlainSYNs, 1, 0.9},
		} {
			ratio := c.good
			if bad == c.kind {
				ratio = c.bad
			}
			for family := range families {
				r.Add(c.kind+"/"+family, c.base, []report.Sample{report.Figure(c.metric, "", 10)})
				r.Add(c.kind+"/"+family, testbed.ArmTCSubflows, []report.Sample{report.Figure(c.metric, "", 10*ratio)})
			}
		}
		r.SumUp()
		judge(r)
		want := 2 // families
		if bad == "" {
			want = 0
		}
		if len(r.Targets) != 6 || len(r.Missed()) != want {
			t.Errorf("%q: %+v", bad, r.Targets)
		}
	}
}

// TestFrames: what is sent is what captures look for, as it is and in a LISP packet of either family.
func TestFrames(t *testing.T) {
	o := &link{from: []byte{2, 0, 0, 0, 0, 1}, to: []byte{2, 0, 0, 0, 0, 2}}
	for family, pair := range families {
		var lengths []int
		for _, s := range []segment{
			{pair.Source(), pair.Destination(), 20007, capable, false},
			{pair.Source(), pair.Destination(), 20007, capable, true},
			{source: pair.Source(), destination: pair.Destination(), port: 20007},
		} {
			frame, err := s.frame(o)
			if err != nil {
				t.Fatal(err)
			}
			lengths = append(lengths, len(frame))
			want := seen{port: 20007, syn: s.option != nil}
			if got, ok := see(frame, false); !ok || got != want {
				t.Errorf("%s: %+v, %t", family, got, ok)
			}
			for _, four := range []bool{true, false} {
				outer := testbed.OuterHeaders(netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"))
				if four {
					outer = testbed.OuterHeaders(netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"))
				}
				want.outer4 = four
				packet := append(append(make([]byte, testbed.EthernetOctets), outer...), frame[testbed.EthernetOctets:]...)
				if got, ok := see(packet, true); !ok || got != want {
					t.Errorf("%s, IPv4 outside %t: %+v, %t", family, four, got, ok)
				}
				for length := range packet {
					see(packet[:length], true)
				}
			}
		}
		if lengths[0] != lengths[1] {
			t.Errorf("%s: a SYN of Multipath TCP has %d octets, a padded one %d", family, lengths[0], lengths[1])
		}
	}
}
