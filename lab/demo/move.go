// SPDX-License-Identifier: Apache-2.0

// A site moves to another RLOC while a host talks to it (`loci demo --move`): how the change reaches the peer, leg by leg,
// as captures in the core saw it (RFC 9301 s.6.1, s.8.2). The new mapping is registered first, then the peer is solicited,
// asks the mapping system, and is answered by the site itself.
//
// It never takes a daemon's word for a time, and never waits for a timer of its own between two legs.

package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"loci/internal/jsondoc"
	"loci/internal/testnet"
	"loci/lisp"
	"loci/wire"
)

const (
	movePings        = 2500
	movePingInterval = time.Millisecond
	moveAfter        = 800 * time.Millisecond // of pinging
	moveTimeout      = 3 * time.Second
	pathPings        = 20

	// moveOwnTime is what all routers together may add to the delays of the paths.
	moveOwnTime = 20 * time.Millisecond
)

// movedRLOC is where site B moves to: another address of its core link.
var movedRLOC = netip.MustParsePrefix("172.16.2.3/24")

// MoveReport is what moving a site to another RLOC came to.
type MoveReport struct {
	EIDPrefix     string          `json:"eid_prefix"`
	From          string          `json:"from_rloc"`
	To            string          `json:"to_rloc"`
	Legs          []MoveLeg       `json:"legs"`
	Total         jsondoc.Seconds `json:"total_seconds"`       // from the Map-Register to the first packet to the new RLOC
	Paths         jsondoc.Seconds `json:"path_delays_seconds"` // of all messages, by pings of the RLOCs
	Bound         jsondoc.Seconds `json:"bound_seconds"`       // the delays of the paths and 20 ms
	WithinBound   bool            `json:"within_bound"`
	PingsSent     int             `json:"pings_sent"`
	PingsReceived int             `json:"pings_received"`
}

// MoveLeg is one message as it entered the core.
type MoveLeg struct {
	What  string          `json:"what"`
	From  string          `json:"from"`
	To    string          `json:"to"`
	After jsondoc.Seconds `json:"after_seconds"` // since the Map-Register
	Took  jsondoc.Seconds `json:"took_seconds"`  // since the leg before
}

// moveStation is a message that is waited for: who sends it to whom, and how to know it.
type moveStation struct {
	what, from, to string
	is             func(moveSighting) bool
}

// moveSighting is a frame that entered the core.
type moveSighting struct {
	at      time.Time
	from    string
	to      netip.Addr
	message wire.Message // nil for data
	inner   bool         // it came in an Encapsulated Control Message
	data    netip.Addr   // inner destination
}

// moveWatch keeps the first sighting of each station, in their order.
type moveWatch struct {
	stations []moveStation

	mu   sync.Mutex
	seen []moveSighting // of the first stations; no more than there are
}

// moveSteps are the steps of the demo of a move.
func (r *run) moveSteps() []func(context.Context) error {
	return []func(context.Context) error{r.buildNetwork, r.startDaemons, r.awaitRegistrations, r.moveSite}
}

// moveSite gives site B another RLOC while host A pings host B.
func (r *run) moveSite(ctx context.Context) error {
	prefix := siteB.eidPrefixes[0]
	r.screen.step(fmt.Sprintf("%s moves from RLOC %s to %s, while %s pings %s a thousand times a second", siteB.name, siteB.rloc4, movedRLOC.Addr(), siteA.host, siteB.host))
	delays, err := r.measurePaths(ctx)
	if err != nil {
		return err
	}
	watch := newMoveWatch(lisp.MustParsePrefix(prefix.String()))
	capture, err := testnet.Capture{Namespace: r.topology.at("core"), Links: coreLinks(), IncomingOnly: true}.Start(watch.see)
	if err != nil {
		return err
	}
	result, err := r.pingWhileMoving(ctx)
	if err := errors.Join(err, capture.Stop()); err != nil {
		return err
	}
	report, err := watch.report(delays)
	if err != nil {
		return err
	}
	report.EIDPrefix, report.PingsSent, report.PingsReceived = prefix.String(), result.Sent, result.Received
	r.report.Move = report
	return tellMove(r, report)
}

// pingWhileMoving moves the site in the middle of a ping.
func (r *run) pingWhileMoving(ctx context.Context) (testnet.PingResult, error) {
	var result testnet.PingResult
	pinged := make(chan error, 1)
	go func() {
		var err error
		result, err = testnet.Ping{
			Namespace: r.topology.at(siteA.host), Source: siteA.eid(0), Destination: siteB.eid(0),
			Count: movePings, Interval: movePingInterval, Timeout: pingTimeout,
		}.Run(ctx)
		pinged <- err
	}()
	var failed error
	select {
	case <-time.After(moveAfter):
		failed = r.reconfigureSiteB(ctx)
	case <-ctx.Done():
	}
	return result, errors.Join(failed, <-pinged)
}

// reconfigureSiteB does what an operator does: writes the other RLOC into the file, and has it read.
func (r *run) reconfigureSiteB(ctx context.Context) error {
	site := r.daemons[len(r.daemons)-1]
	text := strings.ReplaceAll(r.siteBConfig, fmt.Sprintf("{address: %q}", siteB.rloc4.String()), fmt.Sprintf("{address: %q}", movedRLOC.Addr().String()))
	if _, err := r.writeConfig(site.Name, text); err != nil {
		return err
	}
	_, err := site.Client.Reload(ctx)
	return err
}

// measurePaths is how long a message takes from one router to another, by the pair of their names.
func (r *run) measurePaths(ctx context.Context) (map[string]time.Duration, error) {
	delays := map[string]time.Duration{}
	for _, pair := range [][2]edge{{siteB.edge, mappingSystem}, {siteB.edge, siteA.edge}, {siteA.edge, mappingSystem}} {
		result, err := testnet.Ping{Namespace: r.topology.at(pair[0].name), Source: pair[0].rloc4, Destination: pair[1].rloc4, Count: pathPings}.Run(ctx)
		if err != nil {
			return nil, err
		}
		delay := median(result.RoundTrips) / 2
		delays[pair[0].name+pair[1].name], delays[pair[1].name+pair[0].name] = delay, delay
	}
	return delays, nil
}

func newMoveWatch(prefix lisp.Prefix) *moveWatch {
	to := movedRLOC.Addr()
	registers := func(records []wire.Record) bool {
		return slices.ContainsFunc(records, func(record wire.Record) bool {
			mapping, err := record.Mapping()
			_, moved := mapping.Locators.Find(lisp.RLOCFromAddr(to))
			return err == nil && mapping.Prefix == prefix && moved
		})
	}
	asks := func(s moveSighting, is func(*wire.MapRequest) bool) bool {
		m, ok := s.message.(*wire.MapRequest)
		if !ok || !is(m) {
			return false
		}
		asked, err := m.Records[0].Prefix()
		return err == nil && asked == prefix
	}
	invoked := func(s moveSighting) bool {
		return s.inner && asks(s, func(m *wire.MapRequest) bool { return m.SMRInvoked })
	}
	a, b, ms := siteA.name, siteB.name, mappingSystem.name
	return &moveWatch{stations: []moveStation{
		{"Map-Register with the new RLOC", b, ms, func(s moveSighting) bool { m, ok := s.message.(*wire.MapRegister); return ok && registers(m.Records) }},
		{"Map-Notify: it is registered", ms, b, func(s moveSighting) bool { m, ok := s.message.(*wire.MapNotify); return ok && registers(m.Records) }},
		{"Solicit-Map-Request", b, a, func(s moveSighting) bool { return asks(s, func(m *wire.MapRequest) bool { return m.SMR }) }},
		{"SMR-invoked Map-Request to the Map-Resolver", a, ms, invoked},
		{"the same, from the Map-Server to the ETR", ms, b, invoked},
		{"Map-Reply with the new RLOC", b, a, func(s moveSighting) bool { m, ok := s.message.(*wire.MapReply); return ok && registers(m.Records) }},
		{"first packet to the new RLOC", a, b, func(s moveSighting) bool { return s.message == nil && s.to == to }},
	}}
}

// see notes a frame when it is the next station.
func (w *moveWatch) see(p testnet.Captured) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) == len(w.stations) {
		return nil
	}
	s, ok := sightMove(p)
	if next := w.stations[len(w.seen)]; ok && s.from == next.from && next.is(s) {
		w.seen = append(w.seen, s)
	}
	return nil
}

// report turns what was seen into legs. A station that no capture saw is an error.
func (w *moveWatch) report(delays map[string]time.Duration) (*MoveReport, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) < len(w.stations) {
		missing := w.stations[len(w.seen)]
		return nil, fmt.Errorf("no %s from %s to %s was seen in its place", missing.what, missing.from, missing.to)
	}
	r := &MoveReport{From: siteB.rloc4.String(), To: movedRLOC.Addr().String()}
	var paths time.Duration
	for i, s := range w.seen {
		leg := MoveLeg{What: w.stations[i].what, From: s.from, To: w.stations[i].to, After: jsondoc.SecondsOf(s.at.Sub(w.seen[0].at))}
		if i > 0 {
			leg.Took = jsondoc.SecondsOf(s.at.Sub(w.seen[i-1].at))
			paths += delays[w.stations[i-1].from+w.stations[i-1].to]
		}
		r.Legs = append(r.Legs, leg)
	}
	r.Total, r.Paths = r.Legs[len(r.Legs)-1].After, jsondoc.SecondsOf(paths)
	r.Bound = r.Paths + jsondoc.SecondsOf(moveOwnTime)
	r.WithinBound = r.Total <= r.Bound
	return r, nil
}

func tellMove(r *run, m *MoveReport) error {
	rows := [][]string{{"after", "took", "from → to", "what entered the core"}}
	for _, l := range m.Legs {
		rows = append(rows, []string{fmt.Sprintf("%.2f ms", l.After.Milliseconds()), fmt.Sprintf("%.2f ms", l.Took.Milliseconds()), l.From + " → " + l.To, l.What})
	}
	r.screen.table(rows, 0, 1)
	r.screen.line("the paths of these messages take %.2f ms by pings of the RLOCs; with 20 ms for the routers the bound is %.2f ms", m.Paths.Milliseconds(), m.Bound.Milliseconds())
	switch {
	case m.PingsReceived < m.PingsSent:
		return fmt.Errorf("%d of %d pings were lost during the move", m.PingsSent-m.PingsReceived, m.PingsSent)
	case !m.WithinBound:
		r.screen.line("it took %.2f ms, which is beyond the bound: is this machine busy?", m.Total.Milliseconds())
	default:
		r.screen.good("the change reached the peer in %.2f ms", m.Total.Milliseconds())
	}
	r.screen.good("no ping of %d lost", m.PingsSent)
	return nil
}
