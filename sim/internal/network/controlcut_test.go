// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net/netip"
	"testing"
	"time"

	"loci/sim/internal/report"
	"loci/sim/internal/virtual"
)

// TestControlCut: control messages are lost where the cut says, and until it ends; data packets and what siblings say to each
// other pass.
func TestControlCut(t *testing.T) {
	const a, b, c = 0, 1, 2 // a and b are of one site
	for _, test := range []struct {
		name string
		cut  func(s []Station[int]) ControlCut[int]
		lost map[[2]int]bool
	}{
		{"everywhere", func([]Station[int]) ControlCut[int] { return ControlCut[int]{} },
			map[[2]int]bool{{a, b}: true, {a, c}: true, {b, a}: true, {b, c}: true, {c, a}: true, {c, b}: true}},
		{"towards", func(s []Station[int]) ControlCut[int] { return ControlCut[int]{At: &s[a], Towards: true} },
			map[[2]int]bool{{b, a}: true, {c, a}: true}},
		{"from", func(s []Station[int]) ControlCut[int] { return ControlCut[int]{At: &s[a], From: true} },
			map[[2]int]bool{{a, b}: true, {a, c}: true}},
		{"both", func(s []Station[int]) ControlCut[int] { return ControlCut[int]{At: &s[a], Towards: true, From: true} },
			map[[2]int]bool{{b, a}: true, {c, a}: true, {a, b}: true, {a, c}: true}},
		{"nothing", func(s []Station[int]) ControlCut[int] { return ControlCut[int]{At: &s[a]} }, nil},
	} {
		now, stats := time.Duration(0), report.Stats{}
		var arrivals []*Mail
		n := New(Surroundings[int]{Now: &now, Random: virtual.NewRandom(1, 1), Stats: &stats, Lose: func(*Mail) { t.Errorf("%s: a data packet is lost", test.name) },
			Queue: func(_ time.Duration, _ int, m *Mail) { arrivals = append(arrivals, m) }})
		n.Routers, n.MaxDelay = 3, time.Millisecond
		stations := make([]Station[int], 3)
		for i := range stations {
			stations[i] = Station[int]{Number: i, Router: i, Site: 1 + i/2, Links: []Link{{Addr: n.New(true)}}, Inside: Link{Addr: n.New(true)}}
			n.Attach(&stations[i])
		}
		arrives := func(from, to int, address func(int) netip.Addr, data bool) bool {
			n.Carry(&stations[from], &Mail{From: netip.AddrPortFrom(address(from), 1), To: netip.AddrPortFrom(address(to), 1), Data: data})
			m := arrivals[len(arrivals)-1]
			at, arrived := n.Arrive(&stations[to], m)
			return arrived && at == to
		}
		outside := func(i int) netip.Addr { return stations[i].Links[0].Addr }
		inside := func(i int) netip.Addr { return stations[i].Inside.Addr }
		mend := n.CutControl(test.cut(stations))
		for from := range stations {
			for to := range stations {
				if from == to {
					continue
				}
				if got, want := arrives(from, to, outside, false), !test.lost[[2]int{from, to}]; got != want {
					t.Errorf("%s: a message from %d to %d arrives: %t, want %t", test.name, from, to, got, want)
				}
				if !arrives(from, to, outside, true) {
					t.Errorf("%s: a data packet from %d to %d does not arrive", test.name, from, to)
				}
			}
		}
		if !arrives(a, b, inside, false) {
			t.Errorf("%s: a sibling's message does not arrive", test.name)
		}
		if mend(); !arrives(c, a, outside, false) || !arrives(a, c, outside, false) {
			t.Errorf("%s: messages are lost after its end", test.name)
		}
	}
}
