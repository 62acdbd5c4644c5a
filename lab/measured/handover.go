// SPDX-License-Identifier: Apache-2.0

package measured

// oor-handover: how long mobile nodes are unreachable when they move to another link, beside the same move without
// LISP.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"loci/internal/testnet"
	"loci/lab"
	"loci/lab/bench/report"
	"loci/lab/chart"
	"loci/lab/experiment"
)

const (
	handoverMoves = 31
	// handoverAway is how long the link layer takes, which is scripted: the paper's time without
	// OpenOverlayRouter.
	handoverAway = 3980 * time.Millisecond
	// handoverJoins is how long of it the new link has no carrier. After it there is none of the node's addresses yet: a
	// kernel takes up to a second to send by a link that came up, at both its ends.
	handoverJoins = 2 * time.Second
	// handoverStays is from the new link to the next move: a link that was up for 3 s is no flap.
	handoverStays    = 3320 * time.Millisecond
	handoverRound    = handoverAway + handoverStays
	handoverInterval = 20 * time.Millisecond
	handoverPaths    = 11 // pings of each path
	// handoverMore is what a move may take beyond what its messages take on their links.
	handoverMore  = 50 * time.Millisecond
	handoverShare = 0.95
	// paperBeyond is 4.16 s with OpenOverlayRouter, 3.98 s without.
	paperBeyond = 180.0

	metricBreak, metricBeyond, metricMessages = "break", "beyond", "messages on their links"
	metricLost, metricTCP                     = "pings lost", "TCP transfers broken"
)

var (
	handoverHost = netip.AddrFrom4([4]byte{10, 2, 0, 2})
	handoverETR  = netip.AddrFrom4([4]byte{172, 16, 2, 2})
	handoverRLOC = map[string]netip.Addr{
		"ms": netip.AddrFrom4([4]byte{172, 16, 9, 2}), "rtr": netip.AddrFrom4([4]byte{172, 16, 7, 2}), "xtr-b": handoverETR,
	}
)

// mobile is a node of the file that moves between two links.
type mobile struct {
	node, title string
	eid         netip.Addr
	links       [2]access
	// overlaps says that the new link is there before the old one is lost.
	overlaps bool
	// foreign says that OpenOverlayRouter makes it one. It leads all that its node sends into its tunnel, so its
	// moves are compared with those of "plain", which has such links.
	foreign bool
	every   int // it moves in one of so many rounds
	// messages are the legs of a move, until packets go to the new link.
	messages [][2]string
}

// access is a link of a mobile node, as DHCP configures it.
type access struct {
	name    string
	address netip.Prefix
	gateway netip.Addr
}

func accesses(format string, first, second int) [2]access {
	of := func(name string, number int) access {
		return access{name, netip.MustParsePrefix(fmt.Sprintf(format, number, 2) + "/24"), netip.MustParseAddr(fmt.Sprintf(format, number, 1))}
	}
	return [2]access{of("wlan0", first), of("wwan0", second)}
}

var mobiles = []mobile{
	{
		node: "plain", title: "without NAT", eid: netip.AddrFrom4([4]byte{10, 1, 0, 1}),
		links: accesses("172.16.%d.%d", 11, 15), every: 1,
		// Map-Register, Map-Notify, SMR, Map-Request, the same to the ETR, Map-Reply: as `loci demo --move`
		// has them.
		messages: [][2]string{{"plain", "ms"}, {"ms", "plain"}, {"plain", "xtr-b"}, {"xtr-b", "ms"}, {"ms", "plain"}, {"plain", "xtr-b"}},
	},
	{
		node: "behind", title: "from NAT to NAT", eid: netip.AddrFrom4([4]byte{10, 1, 0, 3}),
		links: accesses("192.168.%d.%d", 31, 35), every: 1,
		// Info-Request, Info-Reply, Map-Register to the RTR, the same to the Map-Server, Map-Notify to the
		// RTR.
		messages: [][2]string{{"behind", "ms"}, {"ms", "behind"}, {"behind", "rtr"}, {"rtr", "ms"}, {"ms", "rtr"}},
	},
	{
		node: "make", title: "make before break", eid: netip.AddrFrom4([4]byte{10, 1, 0, 2}), links: accesses("172.16.%d.%d", 21, 25),
		overlaps: true, every: 1,
	},
	{
		node: "oor", title: "OpenOverlayRouter", eid: netip.AddrFrom4([4]byte{10, 1, 0, 4}),
		links:   accesses("172.16.%d.%d", 41, 45),
		foreign: true, every: 2, // it registers 4 s after the last change of its links
	},
}

// handoverNodes are the mobile nodes whose program is on this machine.
func handoverNodes() []mobile {
	isMissing := func(node mobile) bool { return node.foreign && !hasOOR() }
	return slices.DeleteFunc(slices.Clone(mobiles), isMissing)
}

func measureHandover(ctx context.Context, m *measuring) error {
	if !hasOOR() {
		m.screen.Line("no OpenOverlayRouter on this machine: its moves are left out; apt-get install openoverlayrouter")
	}
	for _, node := range handoverNodes() {
		if err := m.prepareMobile(ctx, node); err != nil {
			return fmt.Errorf("%s: %w", node.node, err)
		}
	}
	return m.handover(ctx)
}

// moveOf is which of its moves a node makes in a round, if it makes one. The last rounds are for the move that began
// before.
func (node mobile) moveOf(round int) (move int, moves bool) {
	return round / node.every, round%node.every == 0 && round+node.every <= handoverMoves
}

// handover moves all nodes at once and files what their pings saw.
func (m *measuring) handover(ctx context.Context) error {
	transfers, err := m.openTransfers(ctx)
	if err != nil {
		return err
	}
	count := int((handoverMoves*handoverRound + time.Second) / handoverInterval)
	pings := m.startPings(ctx, count)
	began, err := m.moveAll(ctx)
	m.endTransfers(transfers)
	results, pingErr := pings()
	if err := errors.Join(err, pingErr); err != nil {
		return err
	}
	for round, from := range began {
		for _, node := range handoverNodes() {
			if its, moved := node.moveOf(round); moved {
				m.fileMove(node, its, results, from, from.Add(time.Duration(node.every)*handoverRound))
			}
		}
	}
	return nil
}

// openTransfers has the other site send to each node by TCP, in the order of handoverNodes.
func (m *measuring) openTransfers(ctx context.Context) (all []*session, err error) {
	for _, node := range handoverNodes() {
		s, err := openSession(ctx, m.Nodes[node.node], m.Nodes["host-b"], handoverHost)
		if err != nil {
			m.endTransfers(all)
			return nil, fmt.Errorf("TCP to %s: %w", node.node, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// endTransfers files which of them broke.
func (m *measuring) endTransfers(all []*session) {
	for i, s := range all {
		records, err := s.end()
		broken := 0.0
		if err != nil {
			broken = 1
		}
		title := handoverNodes()[i].title
		m.add(title, m.engine, metricTCP, "", broken)
		m.screen.Line("%s  %-17s TCP: %d records of %d octets, error: %v", m.engine, title, records,
			sessionRecord, err)
	}
}

// prepareMobile waits until the node answers, gives its route a metric that others can be better than, and measures
// its paths.
func (m *measuring) prepareMobile(ctx context.Context, node mobile) error {
	if err := node.links[0].connect(m.Nodes[node.node], handoverMoves+1, false); err != nil {
		return err
	}
	if err := node.links[0].forgetFirstRoute(m.Nodes[node.node]); err != nil {
		return err
	}
	// now: when it sees a default route go, it forgets the gateway, also if there is another route to it
	if node.foreign {
		if err := m.startOOR(); err != nil {
			return err
		}
	}
	answered := false
	for began := time.Now(); !answered && time.Since(began) < experiment.DefaultTimeout; {
		result, err := m.ping(node, 1, 2*time.Second).Run(ctx)
		if err != nil {
			return err
		}
		answered = result.Received > 0
	}
	if !answered {
		return errors.New("it is not reached")
	}
	return m.measureMessages(ctx, node)
}

// measureMessages adds up half the round trips of the pairs that exchange messages.
func (m *measuring) measureMessages(ctx context.Context, node mobile) error {
	var sum time.Duration
	delays := map[[2]string]time.Duration{}
	for _, leg := range node.messages {
		if handoverRLOC[leg[1]] == (netip.Addr{}) {
			leg[0], leg[1] = leg[1], leg[0] // the node is not at one address
		}
		if _, known := delays[leg]; !known {
			result, err := testnet.Ping{Namespace: m.Nodes[leg[0]], Destination: handoverRLOC[leg[1]],
				Count: handoverPaths, Timeout: time.Second}.Run(ctx)
			if err != nil || result.Received == 0 {
				return errors.Join(fmt.Errorf("no path from %s to %s", leg[0], leg[1]), err)
			}
			trips := slices.DeleteFunc(result.RoundTrips, func(d time.Duration) bool { return d < 0 })
			slices.Sort(trips)
			delays[leg] = trips[len(trips)/2] / 2
		}
		sum += delays[leg]
	}
	if len(node.messages) > 0 {
		m.add(node.title, m.engine, metricMessages, "ms", milliseconds(sum))
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ping sends echo requests to the EID of a node.
func (m *measuring) ping(node mobile, count int, timeout time.Duration) testnet.Ping {
	return testnet.Ping{
		Namespace: m.Nodes["host-b"], Source: handoverHost, Destination: node.eid, Count: count,
		Interval: handoverInterval, Timeout: timeout,
	}
}

// arms of a node: its EID is pinged, and it pings a router from the address that its link has.
const lispArm, plainArm = "with LISP", "without LISP"

// startPings begins to ping, and returns what waits for the results, by node and arm.
func (m *measuring) startPings(ctx context.Context, count int) func() (map[[2]string]testnet.PingResult, error) {
	type pinged struct {
		key    [2]string
		result testnet.PingResult
		err    error
	}
	done := make(chan pinged)
	running := 0
	start := func(key [2]string, p testnet.Ping) {
		running++
		go func() {
			result, err := p.Run(ctx)
			done <- pinged{key, result, err}
		}()
	}
	for _, node := range handoverNodes() {
		start([2]string{node.node, lispArm}, m.ping(node, count, time.Second))
		if node.foreign {
			continue
		}
		start([2]string{node.node, plainArm}, testnet.Ping{
			Namespace: m.Nodes[node.node], Destination: handoverETR, Count: count,
			Interval: handoverInterval, Timeout: time.Second,
		})
	}
	return func() (map[[2]string]testnet.PingResult, error) {
		results, all := map[[2]string]testnet.PingResult{}, []error(nil)
		for range running {
			p := <-done
			results[p.key] = p.result
			all = append(all, p.err)
		}
		return results, errors.Join(all...)
	}
}

// moveAll moves the nodes, and returns when their rounds began.
func (m *measuring) moveAll(ctx context.Context) (began []time.Time, err error) {
	if err := lab.Sleep(ctx, time.Second/2); err != nil {
		return nil, err
	}
	next := time.Now()
	for round := range handoverMoves {
		began = append(began, time.Now())
		for phase, length := range []time.Duration{handoverJoins, handoverAway - handoverJoins, handoverStays} {
			if err := m.stepAll(round, phase); err != nil {
				return nil, err
			}
			next = next.Add(length)
			if err := lab.Sleep(ctx, time.Until(next)); err != nil {
				return nil, err
			}
		}
	}
	return began, nil
}

// stepAll makes one step of the moves of a round.
func (m *measuring) stepAll(round, phase int) error {
	for _, node := range handoverNodes() {
		move, moves := node.moveOf(round)
		if !moves {
			continue
		}
		if err := node.step(m.Nodes[node.node], move, phase); err != nil {
			return fmt.Errorf("move %d of %s: %w", move+1, node.node, err)
		}
	}
	return nil
}

// step is one of a move: the old link is lost; the new one has a carrier; it has an address. A node whose links overlap
// has all of the new one first, and loses the old one last.
func (node mobile) step(ns *testnet.Namespace, move, phase int) error {
	from, to := node.links[move%2], node.links[(move+1)%2]
	if node.overlaps {
		phase = 2 - phase
	}
	switch phase {
	case 0:
		// it goes on without its route when it comes back to a link whose route the kernel removed
		if node.foreign {
			if err := from.forgetRoutes(ns); err != nil {
				return err
			}
		}
		return from.disconnect(ns)
	case 1:
		return ns.SetUp(to.name, true)
	default:
		return to.connect(ns, handoverMoves-move, true)
	}
}

func judgeHandover(r *report.Report, engines []string) {
	for _, engine := range engines {
		for _, node := range mobiles {
			if node.foreign {
				continue
			}
			r.Want(fmt.Sprintf("%s, %s: TCP transfers broken", engine, node.title), r.Find(node.title, engine, metricTCP).Max, report.AtMost(0))
			if node.overlaps {
				r.Want(fmt.Sprintf("%s, %s: pings lost", engine, node.title), sum(r.Find(node.title, engine, metricLost).Samples), report.AtMost(0))
				continue
			}
			bound := r.Find(node.title, engine, metricMessages).Median + milliseconds(handoverMore)
			r.Want(fmt.Sprintf("%s, %s: ms beyond the move without LISP, 95 %% of moves", engine, node.title),
				beyondShare(r.Find(node.title, engine, metricBeyond).Samples), report.AtMost(bound))
		}
	}
}

// beyondShare is what 95 % of the moves do not exceed.
func beyondShare(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[max(0, int(float64(len(sorted))*handoverShare+0.999)-1)]
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// drawHandover draws the moves one by one.
func drawHandover(r *report.Report, engines []string) []chart.Panel {
	panels := []chart.Panel{{
		Title: "The paper, section VIII.C", Notes: []string{"A tablet, WiFi to 3G, 31 moves, 50 ICMP packets/s.", "On average 4.16 s with OpenOverlayRouter, 3.98 s without:", "180 ms beyond."},
	}}
	for _, node := range handoverNodes() {
		if node.overlaps {
			continue
		}
		title := "Loci, " + node.title
		if node.foreign {
			title = node.title + ", by ITR engine"
		}
		p := chart.Panel{Title: title + ", " + r.Environment.Date, X: "move",
			Y: "ms beyond the move without LISP", YTo: 2 * paperBeyond}
		for _, engine := range engines {
			l := chart.Line{Name: engine}
			for i, v := range r.Find(node.title, engine, metricBeyond).Samples {
				l.Points = append(l.Points, chart.Point{X: float64(i + 1), Y: v})
				p.YTo = max(p.YTo, v)
			}
			p.Lines = append(p.Lines, l)
		}
		last := float64(len(p.Lines[0].Points))
		p.Lines = append(p.Lines, chart.Line{Name: "the paper's average", Points: []chart.Point{{X: 1, Y: paperBeyond}, {X: last, Y: paperBeyond}}})
		panels = append(panels, p)
	}
	return panels
}
