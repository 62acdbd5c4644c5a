// SPDX-License-Identifier: Apache-2.0

package measured

import (
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/chart"
	"loci/lab/experiment"
)

// smallFile is two nodes without a daemon, on a link of that impairment.
const smallFile = `
name: small
description: two nodes
nodes: [{name: a}, {name: b}]
links:
  - ends:
      - {node: a, interface: eth0, addresses: [192.0.2.1/24]}
      - {node: b, interface: eth0, addresses: [192.0.2.2/24]}
    impair: %s
`

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newSmallNetwork(t *testing.T, impairment string) *experiment.Network {
	t.Helper()
	f, err := experiment.Parse(fmt.Appendf(nil, smallFile, impairment))
	must(t, err)
	n, err := experiment.NewNetwork(f)
	must(t, err)
	t.Cleanup(func() { must(t, n.Close()) })
	must(t, n.Build(t.Context(), &experiment.Options{}))
	return n
}

// TestListedExperimentsAreWhole: each has a network that can be built.
func TestListedExperimentsAreWhole(t *testing.T) {
	all, err := List()
	must(t, err)
	for _, f := range all {
		if _, found := Find(f.Name); !found || f.Description == "" || f.Origin == "" {
			t.Errorf("%+v", f)
		}
	}
	if _, found := Find("p4-table1"); found {
		t.Error("an experiment of rows measures")
	}
}

// TestMultihomingIsJudged: links that add up meet the target, and those that do not miss it. The drawing is
// well-formed.
func TestMultihomingIsJudged(t *testing.T) {
	for share, missed := range map[float64]int{1: 0, 0.94: 3} {
		r := &report.Report{}
		for links := 1; links <= multihomingLinks; links++ {
			out, into := 9.7*float64(links), 9.7*float64(links)
			if links > 1 {
				into *= share
			}
			r.Add("out of the site", linksArm("user", links), []report.Sample{report.Figure(metricGoodput, "Mbit/s", out)})
			r.Add("into the site", linksArm("user", links), []report.Sample{report.Figure(metricGoodput, "Mbit/s", into)})
		}
		r.SumUp()
		judgeMultihoming(r, []string{"user"})
		if len(r.Targets) != 6 || len(r.Missed()) != missed {
			t.Errorf("share %v: %+v", share, r.Targets)
		}
		drawn := chart.Draw(drawMultihoming(r, []string{"user"})...)
		for decoder := xml.NewDecoder(strings.NewReader(drawn)); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if strings.Count(drawn, "<polyline") != 2 || strings.Contains(drawn, "NaN") {
			t.Errorf("drawn:\n%s", drawn)
		}
	}
}

// TestPathsAreJudged: subflows that fill their paths meet all targets; each thing that is not as wanted misses its own.
func TestPathsAreJudged(t *testing.T) {
	for name, change := range map[string]func(v map[string]float64){
		"":                 func(map[string]float64) {},
		"two subflows":     func(v map[string]float64) { v[armTwo] = 35 },
		"four subflows":    func(v map[string]float64) { v[armFour] = 71 },
		"one bottleneck":   func(v map[string]float64) { v[armTwoShared] = 23 },
		"rounds on one":    func(v map[string]float64) { v[metricOnOnePath] = 0.9 },
		"one path / one p": func(v map[string]float64) { v[armHashed] = 23 },
		"without goodput":  func(v map[string]float64) { v[metricSilent] = 1 },
		"has moved":        func(v map[string]float64) { v[metricMoved] = 17 },
		"its return":       func(v map[string]float64) { v[metricReturned] = 35 },
	} {
		v := map[string]float64{armTwo: 37, armFour: 75, armOneShared: 20, armTwoShared: 20, armHashed: 20,
			metricOnOnePath: 0.5, metricSilent: 0, metricMoved: 9, metricReturned: 38}
		change(v)
		r := &report.Report{}
		m := &measuring{report: r}
		for _, f := range pathFamilies {
			for _, arm := range []string{armTwo, armFour, armOneShared, armTwoShared} {
				m.add(f.name, pathArm("user", arm), metricGoodput, "Mbit/s", v[arm])
			}
			for _, metric := range []string{metricSilent, metricMoved} {
				for _, round := range []float64{0, v[metric], 0} { // the worst counts
					m.add(f.name, pathArm("user", armCut), metric, "s", round)
				}
			}
			m.add(f.name, pathArm("user", armCut), metricReturned, "Mbit/s", v[metricReturned])
			for metric, value := range map[string]float64{metricGoodput: 20, metricOfTwo: 40, metricOfFour: 80} {
				m.add(f.name, pathArm("user", armAlone), metric, "Mbit/s", value)
			}
			m.add(f.name, pathArm("user", armHashed), metricOnOne, "Mbit/s", v[armHashed])
			m.add(f.name, pathArm("user", armHashed), metricOnOnePath, "", v[metricOnOnePath])
		}
		r.SumUp()
		judgePaths(r, []string{"user"})
		missed := r.Missed()
		if want := map[bool]int{true: 0, false: len(pathFamilies)}[name == ""]; len(r.Targets) != 20 ||
			len(missed) != want {
			t.Errorf("%q: %+v", name, missed)
		}
		for _, target := range missed {
			if !strings.Contains(target.Name, name) {
				t.Errorf("%q: missed %+v", name, target)
			}
		}
		if drawn := chart.Draw(drawPaths(r, []string{"user"})...); strings.Count(drawn, "<polyline") != 4 ||
			strings.Contains(drawn, "NaN") {
			t.Errorf("drawn:\n%s", drawn)
		}
	}
}

// TestNetstatCounter: the second line of a group has the values.
func TestNetstatCounter(t *testing.T) {
	text := []byte("TcpExt: A B\nTcpExt: 1 2\nMPTcpExt: A MPJoinAckRx\nMPTcpExt: 3 4\n")
	if found, err := netstatCounter(text, "MPTcpExt", "MPJoinAckRx"); err != nil || found != 4 {
		t.Errorf("%d, %v", found, err)
	}
	for _, bad := range []string{"", "MPTcpExt: A\nMPTcpExt: 1\n", "MPTcpExt: MPJoinAckRx\nMPTcpExt:\n", "MPTcpExt: MPJoinAckRx\n"} {
		if found, err := netstatCounter([]byte(bad), "MPTcpExt", "MPJoinAckRx"); err == nil {
			t.Errorf("%q: %d", bad, found)
		}
	}
}

// TestPausesOfSubflows: what ss(8) prints of two connections, one of which stands still for a while.
func TestPausesOfSubflows(t *testing.T) {
	const text = "0 0 10.1.0.2:40000 10.2.0.2:5001 tcp-ulp-mptcp cubic bytes_sent:900 bytes_acked:800 segs_out:9\n" +
		"0 0 [2001:db8:1::2]:40002 [2001:db8:2::2]:5101 cubic rto:204 bytes_acked:70\n0 0 10.1.0.2:1 10.2.0.2:2 cubic\n"
	acked, err := readAcked(text)
	if err != nil || len(acked) != 2 || acked["10.1.0.2:40000 10.2.0.2:5001"] != 800 ||
		acked["[2001:db8:1::2]:40002 [2001:db8:2::2]:5101"] != 70 {
		t.Fatalf("%v, %v", acked, err)
	}
	s, now := &seconds{}, time.Now()
	s.watch(nil)
	for second := range 10 {
		moving, standing := uint64(second+1), uint64(1)
		if second >= 7 {
			standing = uint64(second)
		}
		s.note(map[string]uint64{"moving": moving, "standing": standing}, now.Add(time.Duration(second)*time.Second))
	}
	if longest := s.longestPause(); longest != 7*time.Second {
		t.Errorf("the longest pause is %v", longest)
	}
	if s.rates = []float64{1, 0, 5, 5, 5, 9}; s.silent() != 1 || bestOf(s.rates) != 6 || bestOf(s.rates[:3]) != 0 {
		t.Errorf("%d silent, best %v", s.silent(), bestOf(s.rates))
	}
}

// TestNATIsJudged: what is as wanted meets all targets; each thing that is not misses its own.
func TestNATIsJudged(t *testing.T) {
	for name, change := range map[string]func(v map[string]float64){
		"":                            func(map[string]float64) {},
		"goodput of user, masquerade": func(v map[string]float64) { v["masquerade"] = 80 },
		metricBindings:                func(v map[string]float64) { v[metricBindings] = 3 },
		metricBack:                    func(v map[string]float64) { v[metricBack] = 6.1 },
		metricAnswered:                func(v map[string]float64) { v[metricAnswered] = 1 },
		metricSends:                   func(v map[string]float64) { v[metricSends] = 15 },
		metricGets:                    func(v map[string]float64) { v[metricGets] = 15 },
	} {
		v := map[string]float64{"masquerade": 100, metricBindings: 2, metricBack: 6, metricSends: 14, metricGets: 14}
		change(v)
		r := &report.Report{}
		m := &measuring{report: r}
		for _, c := range natCases {
			m.add(c.name, masqueraded("user"), metricGoodput, "Mbit/s", v["masquerade"])
			m.add(c.name, routed("user"), metricGoodput, "Mbit/s", 100)
		}
		m.add(fmt.Sprintf("%d flows", natFlows), masqueraded("user"), metricBindings, "", v[metricBindings])
		m.add("NAT forgets", masqueraded("user"), metricBack, "s", v[metricBack])
		m.add("NAT forgets", "user, no keepalive", metricAnswered, "", v[metricAnswered])
		m.add("idle for a minute", masqueraded("user"), metricSends, "", v[metricSends])
		m.add("idle for a minute", masqueraded("user"), metricGets, "", v[metricGets])
		r.SumUp()
		judgeNAT(r, []string{"user"})
		missed := r.Missed()
		if len(r.Targets) != 7 || (name == "") != (len(missed) == 0) {
			t.Errorf("%q: %+v", name, r.Targets)
		}
		for _, target := range missed {
			if !strings.Contains(target.Name, name) {
				t.Errorf("%q: missed %+v", name, target)
			}
		}
		if drawn := chart.Draw(drawNAT(r, []string{"user"})...); strings.Count(drawn, "<polyline") != 4 || strings.Contains(drawn, "NaN") {
			t.Errorf("drawn:\n%s", drawn)
		}
	}
}

// TestGoodput: flows fill an emulated link, and stop when they were measured.
func TestGoodput(t *testing.T) {
	testnet.RequireRoot(t)
	const rate = 20_000_000
	n := newSmallNetwork(t, fmt.Sprintf("{rate: %d}", rate))
	m := &measuring{Network: n}
	of := transfer{client: n.Nodes["a"], server: n.Nodes["b"], to: netip.MustParseAddr("192.0.2.2"), flows: 4,
		settles: time.Second, lasts: time.Second}
	for range 2 { // the port is free again
		found, err := m.goodput(t.Context(), of)
		if err != nil || found < rate/2 || found > rate*1.1 {
			t.Errorf("%.0f bit/s, %v: want nearly %d", found, err, rate)
		}
	}
	of.to = netip.MustParseAddr("192.0.2.1") // not the server's
	if found, err := m.goodput(t.Context(), of); err == nil {
		t.Errorf("%.0f bit/s to an address that the server does not have", found)
	}
}

// TestHandoverIsJudged: moves that take what their messages take meet the targets; each thing that is not as wanted
// misses its own.
func TestHandoverIsJudged(t *testing.T) {
	for name, change := range map[string]struct {
		slow   int // of the moves without NAT
		beyond float64
		lost   float64
		broken float64
	}{
		"":                  {1, 291, 0, 0}, // 1 of 31 is beyond the bound
		"without NAT":       {2, 291, 0, 0},
		"make before break": {0, 0, 1, 0},
		"TCP":               {0, 0, 0, 1},
	} {
		r := &report.Report{}
		m := &measuring{report: r}
		for _, node := range mobiles {
			m.add(node.title, "user", metricMessages, "ms", 240)
			for move := range handoverMoves {
				beyond := 290.0
				if move < change.slow && node.node == "plain" {
					beyond = change.beyond
				}
				m.add(node.title, "user", metricBeyond, "ms", beyond)
				m.add(node.title, "user", metricLost, "", 0)
			}
			m.add(node.title, "user", metricLost, "", change.lost)
			m.add(node.title, "user", metricTCP, "", change.broken)
		}
		r.SumUp()
		judgeHandover(r, []string{"user"})
		missed := r.Missed()
		if len(r.Targets) != 6 || (name == "") != (len(missed) == 0) {
			t.Errorf("%q: %+v", name, r.Targets)
		}
		for _, target := range missed {
			if !strings.Contains(target.Name, name) {
				t.Errorf("%q: missed %+v", name, target)
			}
		}
		lines := 4
		if hasOOR() {
			lines = 6
		}
		if drawn := chart.Draw(drawHandover(r, []string{"user"})...); strings.Count(drawn,
			"<polyline") != lines || strings.Contains(drawn, "NaN") {
			t.Errorf("drawn:\n%s", drawn)
		}
	}
}

// TestBreakOf: the longest break in a stretch of time, also one that does not end in it, and all that was lost.
func TestBreakOf(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(i int) time.Time { return start.Add(time.Duration(i+handoverBefore) * handoverInterval) }
	for name, c := range map[string]struct {
		lost        []int
		from, to    int
		length, all int
	}{
		"nothing lost":          {nil, 0, 20, 1, 0},
		"one lost":              {[]int{5}, 0, 20, 2, 1},
		"the longer of two":     {[]int{3, 7, 8, 9}, 0, 20, 4, 4},
		"not in this stretch":   {[]int{3, 25}, 5, 20, 1, 0},
		"it does not end":       {[]int{17, 18, 19, 20, 21}, 0, 20, 4, 3},
		"nothing is answered":   {[]int{0, 1, 2, 3}, 0, 4, 5, 4},
		"beyond the last ping":  {[]int{29}, 20, 60, 2, 1},
		"before the first ping": {[]int{0}, -9, 10, 2, 1},
	} {
		r := testnet.PingResult{Start: start, RoundTrips: make([]time.Duration, 30)}
		for _, i := range c.lost {
			r.RoundTrips[i] = -1
		}
		found := breakOf(r, at(c.from), at(c.to))
		if found.lost != c.all || found.length != time.Duration(c.length)*handoverInterval {
			t.Errorf("%s: %v and %d lost, want %d intervals and %d", name, found.length, found.lost, c.length, c.all)
		}
	}
}

// TestRecordsInOrder: a record that is missing or cut off breaks a transfer.
func TestRecordsInOrder(t *testing.T) {
	for name, c := range map[string]struct {
		numbers []uint64
		cut     int
		records uint64
		broken  bool
	}{
		"all":     {[]uint64{0, 1, 2}, 0, 3, false},
		"missing": {[]uint64{0, 2}, 0, 1, true},
		"cut off": {[]uint64{0, 1}, 1, 1, true},
	} {
		from, into := net.Pipe()
		go func() {
			var all []byte
			for _, number := range c.numbers {
				all = append(binary.BigEndian.AppendUint64(all, number), make([]byte, sessionRecord-8)...)
			}
			_, _ = from.Write(all[:len(all)-c.cut])
			_ = from.Close()
		}()
		if r := receiveRecords(into); r.records != c.records || (r.err != nil) != c.broken {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestSession: all records arrive, and a server that cannot listen is an error.
func TestSession(t *testing.T) {
	testnet.RequireRoot(t)
	n := newSmallNetwork(t, "{delay: 1ms, jitter: 500us}")
	to := netip.MustParseAddr("192.0.2.2")
	if _, err := openSession(t.Context(), n.Nodes["a"], n.Nodes["b"],
		netip.MustParseAddr("192.0.2.1")); err == nil {
		t.Error("a server listens at the address of the client")
	}
	for range 2 { // the port is free again
		s, err := openSession(t.Context(), n.Nodes["a"], n.Nodes["b"], to)
		must(t, err)
		time.Sleep(5 * sessionInterval)
		if records, err := s.end(); err != nil || records == 0 {
			t.Errorf("%d records, %v", records, err)
		}
	}
}
