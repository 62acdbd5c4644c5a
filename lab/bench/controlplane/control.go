// SPDX-License-Identifier: Apache-2.0

// `loci bench control`: a Map-Server and Map-Resolver with a million registered EID-Prefixes, half of each family, of a
// thousand xTRs with two locators each. The daemon has one core, with what the kernel does to receive for it; the load and
// its judge have another. Everything that a deployment has is on: algorithm 3, Map-Notifies, and the state on disk.
//
// Limits: map-replies, map-replies-total and map-notifies are raised, because their defaults bound what a flood is worth;
// all others are those that ship.

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
)

const (
	armMapServer = "loci map-server"
	armEcho      = "UDP echo server"

	controlMeasure = 30 * time.Second
	controlRounds  = 5
	// controlMappings are registered, unless the bench is told to be short.
	controlMappings      = 1_000_000
	controlMappingsShort = 20_000
	controlShort         = 5 * time.Second

	recordsOfLarge = 20
	// bothRequests and bothRecords a second are offered together: what a million mappings that are refreshed each minute mean,
	// and some thousand ITRs.
	bothRequests = 50_000
	bothRecords  = controlMappings / 60
)

// Control is the bench of a Map-Server.
func Control() testbed.Bench {
	c := &controlRun{}
	return testbed.Bench{
		Name: "control", Title: "a Map-Server with a million registrations on one core",
		Rounds: controlRounds, Length: controlMeasure, Arms: []testbed.Arm{{Name: armMapServer, Key: "control", Build: c.build}},
		Measure: c.measure, Judge: judgeControl, Share: controlShare,
		Cases: []string{
			"register/20-records", "register/1-record", "request/proxied", "request/proxied-apart", "request/forwarded", "both", "restart",
		},
	}
}

// controlShare is the weight of a case in the time of the bench. Half the time of registrations and requests goes to the floor.
func controlShare(caseName string) int {
	switch caseName {
	case "restart":
		return 0 // takes what it takes
	case "both":
		return 1
	}
	return 2
}

// controlRun is the server with its load.
type controlRun struct {
	server   *testbed.Process
	echo     *testbed.Process
	load     *mapLoad
	mappings int
	cores    int // GOMAXPROCS before
	restarts int // cases of restart so far: the last round's alone does it
}

// controlEcho is where the echo server listens, beside the Map-Server.
var controlEcho = netip.AddrPortFrom(controlServer, 7)

func (c *controlRun) build(ctx context.Context, b *testbed.Run, l *testbed.Line) (err error) {
	if runtime.NumCPU() < 2 {
		return errors.New("one core for the server and one for the load: this machine has one")
	}
	c.mappings, c.cores = controlMappings, runtime.GOMAXPROCS(1)
	if b.Options.Measure < controlShort {
		c.mappings = controlMappingsShort
	}
	l.Closers = append(l.Closers, c.close)
	err = errors.Join(testbed.Pin(os.Getpid(), testbed.LoadCPU), testbed.ReceiveOn(b.Instance.Path("sys"), l.Enc, testbed.SiteLink, testbed.ServerCPU),
		testbed.QueueAt(l.Enc, testbed.SiteLink), testbed.ReceiveByThreadOn(b.Instance.Path("sys"), l.Src, testbed.HostLink, testbed.LoadCPU), routePeers(l))
	if err != nil {
		return err
	}
	if c.load, err = newMapLoad(l.Src, c.mappings); err != nil {
		return err
	}
	b.Pinned = true
	if c.server, err = b.StartDaemon(ctx, l.Enc, c.configuration(b)); err != nil {
		return err
	}
	if c.echo, err = b.StartEcho(ctx, l.Enc, controlEcho, true); err != nil {
		return err
	}
	began := time.Now()
	if err := c.fill(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	resident, err := testbed.ResidentOctets(c.server.PID())
	if err != nil {
		return err
	}
	b.Report.Add("register/20-records", armMapServer, []report.Sample{
		report.Figure("first registration of all", "s", took.Seconds()), report.Figure("first records", "records/s", float64(c.mappings)/took.Seconds()),
		report.Figure("memory", "octets/mapping", resident/float64(c.mappings)), report.Figure("mappings", "", float64(c.mappings)),
	})
	return nil
}

func (c *controlRun) configuration(b *testbed.Run) string {
	return fmt.Sprintf(`map-resolver: {}
map-server:
  state-directory: %s
  sites:
    - name: bench
      authentication-keys: [{auth-key-value: %s}]
      eid-prefixes:
        - {eid: 10.0.0.0/8, more-specifics-accepted: true}
        - {eid: "2001:db8:1000::/36", more-specifics-accepted: true}
limits:
  map-replies: {rate: 10000/s, burst: 10}
  map-replies-total: {rate: 1000000/s, burst: 1000000}
  map-notifies: {rate: 100000/s, burst: 10000}
control:
`, b.Instance.Path("state"), controlKey)
}

// fill registers everything, message by message, and waits until each is acknowledged.
func (c *controlRun) fill(ctx context.Context) error {
	for tries := 0; ; tries++ {
		if err := c.load.registerAll(ctx, recordsOfLarge); err != nil {
			return err
		}
		status, err := c.server.Client.Status(ctx)
		if err != nil || status.Registrations == c.mappings {
			return err
		}
		if tries == 3 {
			return fmt.Errorf("%d of %d EID-Prefixes are registered", status.Registrations, c.mappings)
		}
	}
}

func (c *controlRun) close() error {
	runtime.GOMAXPROCS(c.cores)
	err := testbed.Unpin(os.Getpid())
	if c.load != nil {
		err = errors.Join(err, c.load.close())
	}
	return err
}

func (c *controlRun) measure(ctx context.Context, b *testbed.Run, _ *testbed.Line, caseName string, slot time.Duration) ([]report.Sample, error) {
	switch caseName {
	case "both":
		return c.both(ctx, slot)
	case "restart":
		if c.restarts++; c.restarts < b.Bench.Rounds {
			return nil, nil
		}
		return c.restart(ctx, b)
	}
	if err := c.floor(ctx, b, caseName, slot/2); err != nil {
		return nil, err
	}
	switch caseName {
	case "register/20-records":
		return c.registers(ctx, recordsOfLarge, slot/2)
	case "register/1-record":
		return c.registers(ctx, 1, slot/2)
	case "request/proxied":
		return c.requests(ctx, requestsProxied, slot/2)
	case "request/proxied-apart":
		return c.requests(ctx, requestsProxiedApart, slot/2)
	}
	return c.requests(ctx, requestsForwarded, slot/2)
}

// floor measures what an echo server does on the same core with the Map-Requests of many ITRs, each message apart.
func (c *controlRun) floor(ctx context.Context, b *testbed.Run, caseName string, slot time.Duration) error {
	set := requestsProxiedApart
	plan := loadPlan{requests: c.load.requestsOf(set), burst: set.burst, window: set.window, length: slot, to: net.UDPAddrFromAddrPort(controlEcho)}
	o, work, err := c.timed(ctx, c.echo, plan)
	if err != nil {
		return err
	}
	b.Report.Add(caseName, armEcho, []report.Sample{
		report.Figure(messagesOf(caseName), "messages/s", float64(o.answered)/o.took.Seconds()), report.Figure("not answered", "messages", float64(o.asked-o.answered)),
		report.Figure("processor time", "µs/message", work.Seconds()*1e6/float64(max(o.answered, 1))),
	})
	return nil
}

// messagesOf names the figure that is compared with the floor: messages that the server dealt with.
func messagesOf(caseName string) string {
	if strings.HasPrefix(caseName, "request/") {
		return "answers"
	}
	return "messages"
}

func (c *controlRun) registers(ctx context.Context, records int, slot time.Duration) ([]report.Sample, error) {
	o, work, err := c.timed(ctx, c.server, loadPlan{records: records, length: slot})
	if err != nil {
		return nil, err
	}
	samples := []report.Sample{
		report.Figure("processor time", "µs/message", work.Seconds()*1e6/float64(max(o.notified, 1))),
		report.Figure("records", "records/s", float64(o.notified*records)/o.took.Seconds()), report.Figure("messages", "messages/s", float64(o.notified)/o.took.Seconds()),
		report.Figure("not acknowledged", "messages", float64(o.registered-o.notified)),
	}
	return c.counters(ctx, samples)
}

// counters adds what the daemon says of itself.
func (c *controlRun) counters(ctx context.Context, samples []report.Sample) ([]report.Sample, error) {
	counters, err := c.server.Client.Counters(ctx)
	if err != nil {
		return nil, err
	}
	return append(samples,
		report.Figure("longest iteration so far", "ms", counters.Times["longest_iteration_seconds"].Milliseconds()),
		report.Figure("durable after at most", "ms", counters.Times["journal_slowest_write_seconds"].Milliseconds()),
		report.Figure("journal pieces lost", "", float64(counters.Control["journal_pieces_lost_total"]))), nil
}

func (c *controlRun) requests(ctx context.Context, which requestSet, slot time.Duration) ([]report.Sample, error) {
	requests := c.load.requestsOf(which)
	o, work, err := c.timed(ctx, c.server, loadPlan{requests: requests, burst: which.burst, window: which.window, length: slot})
	if err != nil {
		return nil, err
	}
	return []report.Sample{
		report.Figure("answers", "messages/s", float64(o.answered)/o.took.Seconds()), report.Figure("not answered", "messages", float64(o.asked-o.answered)),
		report.Figure("processor time", "µs/message", work.Seconds()*1e6/float64(max(o.answered, 1))),
	}, nil
}

// timed carries out a plan and tells what processor time a server took for it: on a machine that is at work otherwise,
// that says more than the rate.
func (c *controlRun) timed(ctx context.Context, server *testbed.Process, p loadPlan) (o loadOutcome, work time.Duration, err error) {
	before, err := testbed.ProcessorTime(server.PID())
	if err != nil {
		return o, 0, err
	}
	if o, err = c.load.run(ctx, p); err != nil {
		return o, 0, err
	}
	after, err := testbed.ProcessorTime(server.PID())
	return o, after - before, err
}

// both offers refreshes and Map-Requests at fixed rates.
func (c *controlRun) both(ctx context.Context, slot time.Duration) ([]report.Sample, error) {
	o, err := c.load.run(ctx, loadPlan{
		requests: c.load.requestsOf(requestsProxied), burst: requestBurst, requestRate: bothRequests,
		records: recordsOfLarge, registerRate: bothRecords / recordsOfLarge, length: slot,
	})
	if err != nil {
		return nil, err
	}
	resident, err := testbed.ResidentOctets(c.server.PID())
	if err != nil {
		return nil, err
	}
	return c.counters(ctx, []report.Sample{
		report.Figure("p50", "ms", report.Percentile(o.delays, 0.50)/1e6), report.Figure("p99", "ms", report.Percentile(o.delays, 0.99)/1e6), report.Figure("max", "ms", report.Percentile(o.delays, 1)/1e6),
		report.Figure("answers", "messages/s", float64(o.answered)/o.took.Seconds()), report.Figure("not answered", "messages", float64(o.asked-o.answered)),
		report.Figure("records", "records/s", float64(o.notified*recordsOfLarge)/o.took.Seconds()), report.Figure("memory", "octets/mapping", resident/float64(c.mappings)),
	})
}

// restart kills the server and times the next one until it answers with everything.
func (c *controlRun) restart(ctx context.Context, b *testbed.Run) ([]report.Sample, error) {
	time.Sleep(time.Second) // what is at risk is at most this old
	if err := b.Kill(c.server); err != nil {
		return nil, err
	}
	began := time.Now()
	server, err := b.StartDaemon(ctx, b.Lines[0].Enc, c.configuration(b))
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	c.server = server
	status, err := server.Client.Status(ctx)
	if err != nil {
		return nil, err
	}
	if status.Registrations != c.mappings {
		return nil, fmt.Errorf("%d of %d EID-Prefixes are registered after the restart", status.Registrations, c.mappings)
	}
	resident, err := testbed.ResidentOctets(server.PID())
	return []report.Sample{report.Figure("until ready", "s", took.Seconds()), report.Figure("memory", "octets/mapping", resident/float64(c.mappings))}, err
}

func judgeControl(r *report.Report) {
	r.Compare("answers", armMapServer, armEcho)
	r.Compare("messages", armMapServer, armEcho)
	r.Compare("processor time", armMapServer, armEcho)
	for _, w := range []struct {
		caseName string
		limit    float64
	}{
		{"request/proxied-apart", 0.35}, {"request/forwarded", 0.8}, {"register/1-record", 0.1}, {"register/20-records", 0.015},
	} {
		r.WantRatioIn(w.caseName, messagesOf(w.caseName), armMapServer, armEcho, report.AtLeast(w.limit))
	}
	for _, w := range []struct {
		caseName, metric, name string
		bound                  report.Bound
	}{
		{"register/1-record", "durable after at most", "ms until a registration is durable", report.AtMost(1000)},
		{"both", "memory", "octets of memory for a mapping", report.AtMost(400)},
		{"restart", "until ready", "s of a restart", report.AtMost(5)},
	} {
		if found := r.Find(w.caseName, armMapServer, w.metric); found != nil {
			r.Want(w.name, found.Value, w.bound)
		}
	}
}

// routePeers brings what goes to controlPeers to the load, which takes it for its own.
func routePeers(l *testbed.Line) error {
	if err := l.Enc.AddRoute(testnet.Route{Destination: controlPeers, Via: testbed.Pairs[0].Source()}); err != nil {
		return err
	}
	return l.Src.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{
			LinkIndex: lo.Attrs().Index, Dst: ipNet(controlPeers), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: unix.RT_SCOPE_HOST,
		})
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
