// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"loci/config"
	"loci/internal/testnet"
)

// sentEvery is a stream of a datagram each second, of which some did not arrive.
func sentEvery(from, to, count int, lost ...int) *stream {
	s := &stream{from: from, to: to, source: host4(from), destination: host6(to)}
	for number := range count {
		at := time.Duration(number) * time.Second
		arrived := at + time.Millisecond
		if slices.Contains(lost, number) {
			arrived = 0
		}
		s.sent, s.arrived = append(s.sent, at), append(s.arrived, arrived)
	}
	return s
}

func TestLossesWithoutACause(t *testing.T) {
	cut := excuse{from: 10 * time.Second, to: 13 * time.Second, site: 1}
	shrunk := excuse{from: 20 * time.Second, to: 30 * time.Second, site: -1, largeOnly: true}
	done := []Done{{"freeze", "xtr2", 15 * time.Second, 16 * time.Second}, {"link-down", "xtr1", 10 * time.Second, 12 * time.Second}, {"mtu", "xtr0", 20 * time.Second, 25 * time.Second}}
	all := []*stream{
		sentEvery(0, 1, 40, 0, 1, 10, 11, 14, 15, 24, 25), // 10, 11 by the cut, 24 is a large one
		sentEvery(2, 0, 40, 11, 39),
	}
	got, sent, excused := losses(all, 2*time.Second, []excuse{cut, shrunk}, done)
	want := []Loss{
		{"10.0.0.10 to fd00:1::10", 14 * time.Second, 2, 1, "link-down xtr1"}, {"10.0.0.10 to fd00:1::10", 25 * time.Second, 1, 0, "mtu xtr0"},
		{"10.2.0.10 to fd00:0::10", 11 * time.Second, 1, 0, "link-down xtr1"}, {"10.2.0.10 to fd00:0::10", 39 * time.Second, 1, 1, "mtu xtr0"},
	}
	for i := range want {
		want[i].Stream = all[min(i/2, 1)].source.String() + " to " + all[min(i/2, 1)].destination.String()
	}
	if !slices.Equal(got, want) || sent != 76 || excused != 3 {
		t.Errorf("%v, %d sent, %d excused; want %v", got, sent, excused, want)
	}
	if r := (&Report{Losses: got}); r.Failed() == nil {
		t.Error("losses are no failure")
	}
	if r := (&Report{}); r.Failed() != nil {
		t.Error("a failure of nothing")
	}
}

// TestDiscoveriesAreJudged: a smaller MTU that routers remember explains one large datagram of a stream, if the next
// one arrives; not a small one, a second one, or one of another site.
func TestDiscoveriesAreJudged(t *testing.T) {
	excuses := tooBig("xtr1b", 2*time.Second, 6*time.Second)
	for _, c := range []struct {
		name    string
		to      int
		lost    []int
		excused int
		losses  int
	}{
		{"one", 1, []int{24}, 1, 0},
		{"a second one", 1, []int{24, 34}, 1, 1},
		{"those after it as well", 1, []int{24, 29}, 1, 1},
		{"a small one", 1, []int{23}, 0, 1},
		{"to another site", 2, []int{24}, 0, 1},
		{"the last one", 1, []int{39}, 0, 1},
	} {
		got, _, excused := losses([]*stream{sentEvery(0, c.to, 40, c.lost...)}, time.Second, excuses, nil)
		if len(got) != c.losses || excused != c.excused {
			t.Errorf("%s: %v, %d excused; want %d losses, %d excused", c.name, got, excused, c.losses, c.excused)
		}
	}
}

// TestWrongDeliveries: a datagram counts where it was sent to alone.
func TestWrongDeliveries(t *testing.T) {
	traffic := &traffic{begun: time.Now(), streams: []*stream{{source: host4(0), destination: host4(1), sent: make([]time.Duration, largeEach), arrived: make([]time.Duration, largeEach)}}}
	datagram := make([]byte, small)
	binary.BigEndian.PutUint32(datagram, marker)
	for _, c := range []struct {
		what     string
		datagram []byte
		at, from netip.Addr
		stream   uint32
		number   uint32
		want     string
	}{
		{"cut", datagram[:small-1], host4(1), host4(0), 0, 0, otherSize},
		{"as sent", datagram, host4(1), host4(0), 0, 0, ""},
		{"again", datagram, host4(1), host4(0), 0, 0, again},
		{"a small one in place of a large one", datagram, host4(1), host4(0), 0, largeEach - 1, otherSize},
		{"another host", datagram, host4(2), host4(0), 0, 0, unsent},
		{"another source", datagram, host4(1), host4(2), 0, 0, unsent},
		{"never sent", datagram, host4(1), host4(0), 0, largeEach, unsent},
		{"no such stream", datagram, host4(1), host4(0), 1, 0, foreign},
		{"a header cut off", datagram[:header-1], host4(1), host4(0), 0, 0, foreign},
		{"of others", make([]byte, small), host4(1), host4(0), 0, 0, foreign},
	} {
		if len(c.datagram) >= header {
			binary.BigEndian.PutUint32(c.datagram[4:], c.stream)
			binary.BigEndian.PutUint32(c.datagram[8:], c.number)
		}
		if got := traffic.take(c.datagram, c.at, c.from); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestReportOfPairsThatWereNotBack does not say that they were.
func TestReportOfPairsThatWereNotBack(t *testing.T) {
	for _, c := range []struct {
		notBack []string
		want    bool
	}{{nil, true}, {[]string{"kill xtr0"}, false}} {
		var text strings.Builder
		(&Report{NotBack: c.notBack}).Write(&text)
		if got := strings.Contains(text.String(), "all back"); got != c.want {
			t.Errorf("%q: %s", c.notBack, text.String())
		}
	}
}

// TestCutsAreFound by their names; one that kills daemons is none for an engine that ends with them.
func TestCutsAreFound(t *testing.T) {
	killed := slices.IndexFunc(Cuts(), Cut.HasKill)
	for _, c := range []struct {
		names  []string
		engine config.EngineChoice
		want   int // variants, -1: an error
		first  string
	}{
		{nil, config.EngineKernel, 1, "everywhere"},
		{[]string{"provider", "long"}, config.EngineKernel, 2, "provider"},
		{[]string{"all"}, config.EngineKernel, len(Cuts()), "everywhere"},
		{[]string{"all"}, config.EngineUser, 6, "everywhere"},
		{[]string{Cuts()[killed].Name}, config.EngineKernel, 1, "everywhere-kill-xtr0"},
		{[]string{"nowhere"}, config.EngineKernel, -1, ""},
	} {
		got, err := FindCuts(c.names, c.engine)
		if (err != nil) != (c.want < 0) || err == nil && (len(got) != c.want || got[0].Name != c.first) {
			t.Errorf("%v, %s: %d variants, %v; want %d", c.names, c.engine, len(got), err, c.want)
		}
	}
}

// TestCutsAreJudged: a lost datagram fails its variant and the whole, one that a dead provider excuses does not.
func TestCutsAreJudged(t *testing.T) {
	good := &CutReport{Cut: Cut{Name: "a", lasts: time.Minute}, Sent: 10, Excused: 1}
	bad := &CutReport{Cut: Cut{Name: "b"}, Sent: 20, Lost: 3, Losses: []Loss{{"s", time.Second, 3, 0, "kill ms"}}}
	wrong := &CutReport{Cut: Cut{Name: "c"}, Sent: 1, Wrong: []Wrong{{What: again}}}
	d := DocumentOfCuts("kernel", []*CutReport{good, bad, wrong})
	if d.Passed || d.Sent != 31 || d.Lost != 3 || !d.Variants[0].Passed || d.Variants[1].Passed || d.Variants[2].Passed || d.Variants[1].Losses[0].Lost != 3 {
		t.Errorf("%+v", d)
	}
	if d = DocumentOfCuts("kernel", []*CutReport{good}); !d.Passed || d.Lost != 0 || d.Variants[0].Excused != 1 {
		t.Errorf("%+v", d)
	}
	var text strings.Builder
	bad.Write(&text)
	if want := "b: 20 datagrams, 3 lost\nlost: 3 datagrams (0 large) from s at 1.0 s, after kill ms\n"; text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
}

// TestExcuseTowardsASite excuses nothing that the site sends.
func TestExcuseTowardsASite(t *testing.T) {
	e := excuse{to: time.Hour, site: 0, towardsOnly: true}
	if !e.covers(sentEvery(1, 0, 1), 0) || e.covers(sentEvery(0, 1, 1), 0) || e.covers(sentEvery(1, 2, 1), 0) {
		t.Error("an excuse of another direction")
	}
}

// TestPlacesOfDrops: a direction is seen from the router.
func TestPlacesOfDrops(t *testing.T) {
	d := testnet.Drop{Port: controlPort}
	for place, want := range map[string][]testnet.Drop{
		coreName:       {d},
		"xtr0 towards": {{Port: controlPort, Out: "to-xtr0"}},
		"xtr0b from":   {{Port: controlPort, In: "to-xtr0b"}},
		"xtr1 both":    {{Port: controlPort, Out: "to-xtr1"}, {Port: controlPort, In: "to-xtr1"}},
	} {
		if got := drops(place, d); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", place, got, want)
		}
	}
	if got := len(places(append([]string{coreName}, usual.xtrNames()...))); got != 1+3*5 {
		t.Errorf("%d places", got)
	}
	if siteOf("xtr1b towards") != 1 || siteOf("xtr2") != 2 {
		t.Error("sites of targets")
	}
}

// TestVerdictsAreJudged: a run fails where no daemon reported a fault, or one reported it too long.
func TestVerdictsAreJudged(t *testing.T) {
	told := Verdict{Kind: "data-dropped", Target: "xtr2 both", By: "xtr0", After: time.Second}
	silent, late := told, told
	silent.By = ""
	late.Late = []string{"xtr1 tells of data-path-lost"}
	for _, c := range []struct {
		verdict Verdict
		fails   bool
	}{{told, false}, {silent, true}, {late, true}} {
		r := Report{Verdicts: []Verdict{c.verdict}}
		var text strings.Builder
		r.Write(&text)
		if (r.Failed() != nil) != c.fails || r.Document().Verdicts[0].Passed == c.fails || strings.Contains(text.String(), "data-dropped") != c.fails {
			t.Errorf("%+v: %v, %s", c.verdict, r.Failed(), text.String())
		}
	}
	if k := verdictKinds(usual); len(k[0].targets) != 3 || siteOf(k[0].targets[0]) != 2 {
		t.Errorf("%v: want the directions of the router that is alone", k[0].targets)
	}
}

// TestMissedFailovers are those of a site whose daemon is frozen, towards the router without a link, and of no other.
func TestMissedFailovers(t *testing.T) {
	down := &fault{kind: kind{name: "link-down"}, target: "xtr1b", from: 10 * time.Second}
	frozen := &fault{kind: kind{name: "freeze"}, target: "xtr2", from: 9 * time.Second}
	if list := missedFailovers([]*fault{frozen}, time.Minute); len(list) != 0 {
		t.Errorf("nothing is down: %v", list)
	}
	if list := missedFailovers([]*fault{{kind: frozen.kind, target: msName}, down}, time.Minute); len(list) != 0 {
		t.Errorf("a frozen Map-Server: %v", list)
	}
	list := missedFailovers([]*fault{frozen, down}, time.Minute)
	if len(list) != 1 {
		t.Fatalf("%v", list)
	}
	for want, s := range map[bool][]*stream{
		true:  {{from: 2, to: 1, sent: []time.Duration{11 * time.Second}}},
		false: {{from: 0, to: 1, sent: []time.Duration{11 * time.Second}}, {from: 1, to: 2, sent: []time.Duration{11 * time.Second}}, {from: 2, to: 1, sent: []time.Duration{2 * time.Minute}}},
	} {
		for _, s := range s {
			if list[0].covers(s, 0) != want {
				t.Errorf("from %d to %d at %s: excused %t", s.from, s.to, s.sent[0], !want)
			}
		}
	}
}
