// SPDX-License-Identifier: Apache-2.0

// `loci bench control`: a Map-Server and Map-Resolver with a million registered EID-Prefixes, half of each family, of a
// thousand xTRs with two locators each. The daemon has one core, with what the kernel does to receive for it; the load and
// its judge have another. Everything that a deployment has is on: algorithm 3, Map-Notifies, and the state on disk.
//
// Limits: map-replies, map-replies-total and map-notifies are raised, because their defaults bound what a flood is worth;
// all others are those that ship.

package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"loci/internal/testnet"
)

const (
	armMapServer = "loci map-server"

	controlMeasure = 30 * time.Second
	// controlMappings are registered, unless the bench is told to be short.
	controlMappings      = 1_000_000
	controlMappingsShort = 20_000
	controlShort         = 5 * time.Second

	loadCPU   = 0
	serverCPU = 1

	controlXTRs    = 1000
	recordsOfLarge = 20
	requestBurst   = 32 // Map-Requests of one ITR that come together
	// bothRequests and bothRecords a second are offered together: what a million mappings that are refreshed each minute mean,
	// and some thousand ITRs.
	bothRequests = 50_000
	bothRecords  = controlMappings / 60
)

var (
	controlServer = nth(pairs[0].sources, 1)
	// controlPeers are the addresses of all xTRs and ITRs, at the load's end of the link.
	controlPeers = netip.MustParsePrefix("172.30.0.0/15")
)

func controlBench() kind {
	return kind{
		name: "control", title: "a Map-Server with a million registrations on one core",
		rounds: 1, length: controlMeasure, arms: []arm{{name: armMapServer, key: "control", build: buildControl}},
		measure: measureControl, judge: judgeControl, share: controlShare,
		cases: []string{
			"register/20-records", "register/1-record", "request/proxied", "request/proxied-apart", "request/forwarded", "both", "restart",
		},
	}
}

func controlShare(caseName string) int {
	if caseName == "restart" {
		return 0 // takes what it takes
	}
	return 1
}

// controlRun is the server with its load.
type controlRun struct {
	server   *process
	load     *mapLoad
	mappings int
	cores    int // GOMAXPROCS before
}

func buildControl(ctx context.Context, b *bench, l *line) error {
	if runtime.NumCPU() < 2 {
		return errors.New("one core for the server and one for the load: this machine has one")
	}
	c := &controlRun{mappings: controlMappings, cores: runtime.GOMAXPROCS(1)}
	if b.options.Measure < controlShort {
		c.mappings = controlMappingsShort
	}
	b.control = c
	l.closers = append(l.closers, c.close)
	err := errors.Join(pin(os.Getpid(), loadCPU), receiveOn(b.instance.Path("sys"), l.enc, siteLink, serverCPU),
		queueAt(l.enc, siteLink), receiveByThreadOn(b.instance.Path("sys"), l.src, hostLink, loadCPU), routePeers(l))
	if err != nil {
		return err
	}
	if c.load, err = newMapLoad(l.src, c.mappings); err != nil {
		return err
	}
	b.pinned = true
	if c.server, err = b.startDaemon(ctx, l.enc, c.configuration(b)); err != nil {
		return err
	}
	began := time.Now()
	if err := c.fill(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	resident, err := residentOctets(c.server.cmd.Process.Pid)
	if err != nil {
		return err
	}
	b.report.add("register/20-records", armMapServer, []sample{
		{"first registration of all", "s", took.Seconds()}, {"first records", "records/s", float64(c.mappings) / took.Seconds()},
		{"memory", "octets/mapping", resident / float64(c.mappings)}, {"mappings", "", float64(c.mappings)},
	})
	return nil
}

func (c *controlRun) configuration(b *bench) string {
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
`, b.instance.Path("state"), controlKey)
}

// fill registers everything, message by message, and waits until each is acknowledged.
func (c *controlRun) fill(ctx context.Context) error {
	for tries := 0; ; tries++ {
		if err := c.load.registerAll(ctx, recordsOfLarge); err != nil {
			return err
		}
		status, err := c.server.client.Status(ctx)
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
	err := unpin(os.Getpid())
	if c.load != nil {
		err = errors.Join(err, c.load.close())
	}
	return err
}

func measureControl(ctx context.Context, b *bench, _ *line, caseName string, slot time.Duration) ([]sample, error) {
	c := b.control
	switch caseName {
	case "register/20-records":
		return c.registers(ctx, recordsOfLarge, slot)
	case "register/1-record":
		return c.registers(ctx, 1, slot)
	case "request/proxied":
		return c.requests(ctx, requestsProxied, slot)
	case "request/proxied-apart":
		return c.requests(ctx, requestsProxiedApart, slot)
	case "request/forwarded":
		return c.requests(ctx, requestsForwarded, slot)
	case "both":
		return c.both(ctx, slot)
	}
	return c.restart(ctx, b)
}

func (c *controlRun) registers(ctx context.Context, records int, slot time.Duration) ([]sample, error) {
	o, work, err := c.timed(ctx, loadPlan{records: records, length: slot})
	if err != nil {
		return nil, err
	}
	samples := []sample{
		{"processor time", "µs/message", work.Seconds() * 1e6 / float64(max(o.notified, 1))},
		{"records", "records/s", float64(o.notified*records) / o.took.Seconds()}, {"messages", "messages/s", float64(o.notified) / o.took.Seconds()},
		{"not acknowledged", "messages", float64(o.registered - o.notified)},
	}
	return c.counters(ctx, samples)
}

// counters adds what the daemon says of itself.
func (c *controlRun) counters(ctx context.Context, samples []sample) ([]sample, error) {
	counters, err := c.server.client.Counters(ctx)
	if err != nil {
		return nil, err
	}
	return append(append(samples, turnSamples(counters.Control)...),
		sample{"longest turn so far, processor time", "ms", float64(counters.Control["longest_turn_processor_nanoseconds"]) / 1e6},
		sample{"longest turn so far", "ms", float64(counters.Control["longest_turn_nanoseconds"]) / 1e6},
		sample{"durable after at most", "ms", float64(counters.Control["journal_slowest_write_nanoseconds"]) / 1e6},
		sample{"journal pieces lost", "", float64(counters.Control["journal_pieces_lost_total"])}), nil
}

// turnSamples are the longest turn by the clock of its thread, those of each kind that there was, and what helps to find out why.
func turnSamples(counters map[string]uint64) []sample {
	const longest = "longest turn so far, its thread's processor time"
	samples := []sample{
		{longest, "ms", float64(counters["longest_turn_thread_nanoseconds"]) / 1e6},
		{longest + ", page faults", "", float64(counters["longest_turn_thread_page_faults"])},
		{longest + ", switches", "", float64(counters["longest_turn_thread_switches"])},
		{"turns of more than 5 ms so far, their threads' processor time", "", float64(counters["long_turns_thread_total"])},
	}
	for _, kind := range []string{"messages", "call", "timeout"} { // a Map-Server has no others until it ends
		samples = append(samples, sample{longest + ", of " + kind, "ms", float64(counters["longest_"+kind+"_turn_thread_nanoseconds"]) / 1e6})
	}
	return samples
}

func (c *controlRun) requests(ctx context.Context, which requestSet, slot time.Duration) ([]sample, error) {
	requests := c.load.requestsOf(which)
	o, work, err := c.timed(ctx, loadPlan{requests: requests, burst: which.burst, window: which.window, length: slot})
	if err != nil {
		return nil, err
	}
	return []sample{
		{"answers", "messages/s", float64(o.answered) / o.took.Seconds()}, {"not answered", "messages", float64(o.asked - o.answered)},
		{"processor time", "µs/message", work.Seconds() * 1e6 / float64(max(o.answered, 1))},
	}, nil
}

// timed carries out a plan and tells what processor time the server took for it: on a machine that is at work otherwise,
// that says more than the rate.
func (c *controlRun) timed(ctx context.Context, p loadPlan) (o loadOutcome, work time.Duration, err error) {
	before, err := processorTime(c.server.cmd.Process.Pid)
	if err != nil {
		return o, 0, err
	}
	if o, err = c.load.run(ctx, p); err != nil {
		return o, 0, err
	}
	after, err := processorTime(c.server.cmd.Process.Pid)
	return o, after - before, err
}

// both offers refreshes and Map-Requests at fixed rates.
func (c *controlRun) both(ctx context.Context, slot time.Duration) ([]sample, error) {
	o, err := c.load.run(ctx, loadPlan{
		requests: c.load.requestsOf(requestsProxied), burst: requestBurst, requestRate: bothRequests,
		records: recordsOfLarge, registerRate: bothRecords / recordsOfLarge, length: slot,
	})
	if err != nil {
		return nil, err
	}
	resident, err := residentOctets(c.server.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	return c.counters(ctx, []sample{
		{"p50", "ms", percentile(o.delays, 0.50) / 1e6}, {"p99", "ms", percentile(o.delays, 0.99) / 1e6}, {"max", "ms", percentile(o.delays, 1) / 1e6},
		{"answers", "messages/s", float64(o.answered) / o.took.Seconds()}, {"not answered", "messages", float64(o.asked - o.answered)},
		{"records", "records/s", float64(o.notified*recordsOfLarge) / o.took.Seconds()}, {"memory", "octets/mapping", resident / float64(c.mappings)},
	})
}

// restart kills the server and times the next one until it answers with everything.
func (c *controlRun) restart(ctx context.Context, b *bench) ([]sample, error) {
	time.Sleep(time.Second) // what is at risk is at most this old
	if err := c.server.cmd.Process.Kill(); err != nil {
		return nil, err
	}
	<-c.server.ended
	b.daemons = b.daemons[:len(b.daemons)-1]
	began := time.Now()
	server, err := b.startDaemon(ctx, b.lines[0].enc, c.configuration(b))
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	c.server = server
	status, err := server.client.Status(ctx)
	if err != nil {
		return nil, err
	}
	if status.Registrations != c.mappings {
		return nil, fmt.Errorf("%d of %d EID-Prefixes are registered after the restart", status.Registrations, c.mappings)
	}
	resident, err := residentOctets(server.cmd.Process.Pid)
	return []sample{{"until ready", "s", took.Seconds()}, {"memory", "octets/mapping", resident / float64(c.mappings)}}, err
}

func judgeControl(r *Report) {
	for _, w := range []struct {
		caseName, metric, name string
		bound                  bound
	}{
		{"request/proxied", "answers", "Map-Requests answered a second, proxied", atLeast(200_000)},
		{"request/forwarded", "answers", "Map-Requests forwarded a second", atLeast(100_000)},
		{"register/20-records", "records", "records registered a second, 20 in a message", atLeast(60_000)},
		{"register/1-record", "messages", "Map-Registers a second, one record each", atLeast(20_000)},
		{"register/1-record", "durable after at most", "ms until a registration is durable", atMost(1000)},
		{"both", "memory", "octets of memory for a mapping", atMost(400)},
		{"both", "longest turn so far, its thread's processor time", "longest turn of the loop in ms of its thread's processor time", atMost(5)},
		{"restart", "until ready", "s of a restart", atMost(5)},
	} {
		if found := r.find(w.caseName, armMapServer, w.metric); found != nil {
			r.want(w.name, found.Value, w.bound)
		}
	}
}

// routePeers brings what goes to controlPeers to the load, which takes it for its own.
func routePeers(l *line) error {
	if err := l.enc.AddRoute(testnet.Route{Destination: controlPeers, Via: pairs[0].source()}); err != nil {
		return err
	}
	return l.src.Do(func() error {
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

// clockTick is USER_HZ, which is 100 on every architecture that Go runs on.
const clockTick = 10 * time.Millisecond

// processorTime is what a process has had, in user space and in the kernel.
func processorTime(pid int) (time.Duration, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0, errors.New("/proc tells no processor time")
	}
	user, userErr := strconv.Atoi(fields[11])
	system, systemErr := strconv.Atoi(fields[12])
	return time.Duration(user+system) * clockTick, errors.Join(userErr, systemErr)
}
