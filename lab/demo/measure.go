// SPDX-License-Identifier: Apache-2.0

// The traffic of the demo: pings and TCP transfers between EIDs for each pair of families, and the same transfers plainly
// routed over the same namespaces and links, interleaved, because a machine's speed drifts.
//
// Nothing here retries: a ping that is lost stays lost, and fails the demo.

package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"loci/internal/jsondoc"
	"loci/internal/testnet"
)

const (
	pingCount    = 20
	pingInterval = 10 * time.Millisecond
	pingTimeout  = 2 * time.Second

	verifiedOctets = 1 << 20 // of the transfer whose content is compared
	transferRounds = 3
	transferTime   = 400 * time.Millisecond

	maxPcapOctets = 128 << 20
	pcapName      = "core.pcap"
)

// pingAllPairs sends the first packets of each pair and follows them.
func (r *run) pingAllPairs(ctx context.Context) error {
	r.screen.step(fmt.Sprintf("The first packets: no mapping is known yet, %d pings for each pair of families", pingCount))
	rows := [][]string{{"EIDs in RLOCs", "sent", "received", "Map-Request", "Map-Reply", "first packet delivered", "median round trip"}}
	var failed []error
	for pair := range pairNames {
		path, err := r.pingPair(ctx, pair)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failed = append(failed, err)
		if pair == 0 && err == nil {
			r.tellStory(path)
		}
		p := r.report.Pairs[pair]
		rows = append(rows, []string{
			p.Name, strconv.Itoa(p.PingsSent), strconv.Itoa(p.PingsReceived),
			"after " + milliseconds(path.mapRequest), "after " + milliseconds(path.mapReply), "after " + milliseconds(path.delivered),
			fmt.Sprintf("%.2f ms", p.RoundTrip.Milliseconds()),
		})
	}
	r.screen.table(rows, 1, 2, 3, 4, 5, 6)
	if err := errors.Join(failed...); err != nil {
		return err
	}
	r.screen.good("no ping lost, the first ones included: they waited for their mapping")
	return nil
}

// pingPair pings over one pair while the captures watch. A lost ping is an error.
func (r *run) pingPair(ctx context.Context, pair int) (firstPath, error) {
	watch, err := r.topology.startWatch()
	if err != nil {
		return firstPath{}, err
	}
	result, err := testnet.Ping{
		Namespace: r.topology.at(siteA.host), Source: siteA.eid(pair), Destination: siteB.eid(pair),
		Count: pingCount, Interval: pingInterval, Timeout: pingTimeout,
	}.Run(ctx)
	if err := errors.Join(err, watch.stop()); err != nil {
		return firstPath{}, err
	}
	report := &r.report.Pairs[pair]
	report.PingsSent, report.PingsReceived = result.Sent, result.Received
	if result.Lost() > 0 || result.Refused > 0 {
		return firstPath{}, fmt.Errorf("%s: %d pings sent, %d answered, %d refused by the kernel of %s",
			report.Name, result.Sent, result.Received, result.Refused, siteA.host)
	}
	path, err := watch.path(pair)
	report.MapRequest, report.MapReply = jsondoc.SecondsOf(path.mapRequest), jsondoc.SecondsOf(path.mapReply)
	report.FirstPacket = jsondoc.SecondsOf(path.delivered)
	report.RoundTrip = jsondoc.SecondsOf(median(result.RoundTrips))
	return path, err
}

func (r *run) tellStory(path firstPath) {
	r.screen.line("What the first packet caused, as captures on the links saw it:")
	rows := [][]string{{"after", "from → to", "what"}}
	for _, m := range path.story {
		hop := m.from
		if m.to != "" {
			hop += " → " + m.to
		}
		rows = append(rows, []string{milliseconds(m.after), hop, m.what})
	}
	r.screen.table(rows, 0)
	fmt.Fprintln(r.screen.out)
}

// transferAllPairs compares TCP between EIDs with TCP plainly routed.
func (r *run) transferAllPairs(ctx context.Context) error {
	r.screen.step(fmt.Sprintf("TCP from %s to %s (CUBIC, one stream), interleaved with plain routing, medians of %d rounds",
		siteA.host, siteB.host, transferRounds))
	if err := r.verifyAllPairs(ctx); err != nil {
		return err
	}
	if err := r.core.stop(); err != nil { // a capture would slow down what is measured now
		return err
	}
	rows := [][]string{{"EIDs in RLOCs", "through Loci", "plainly routed", "ratio"}}
	for pair := range pairNames {
		if err := r.transferPair(ctx, pair); err != nil {
			return err
		}
		p := r.report.Pairs[pair]
		rows = append(rows, []string{p.Name, gigabits(p.TCPBitsPerSecond), gigabits(p.RoutingBitsPerSecond), fmt.Sprintf("%.2f", p.TCPRatio)})
	}
	r.screen.table(rows, 1, 2, 3)
	r.screen.good("every transfer arrived whole")
	return nil
}

// verifyAllPairs compares what is sent with what arrives, in both directions.
func (r *run) verifyAllPairs(ctx context.Context) error {
	for pair := range pairNames {
		for _, ends := range [][2]site{{siteA, siteB}, {siteB, siteA}} {
			transfer := r.transfer(ends[0], ends[1])
			transfer.Source, transfer.Destination = ends[0].eid(pair), ends[1].eid(pair)
			transfer.Octets, transfer.Verify = verifiedOctets, true
			if _, err := transfer.Run(ctx); err != nil {
				return fmt.Errorf("%s: %w", pairNames[pair], err)
			}
		}
	}
	return nil
}

func (r *run) transferPair(ctx context.Context, pair int) error {
	kinds := []struct {
		name    string
		address func(site, int) netip.Addr
	}{{"through Loci", site.eid}, {"plainly routed", site.plain}}
	rates := map[string][]float64{}
	for range transferRounds {
		transfer := r.transfer(siteA, siteB)
		transfer.Duration = transferTime
		for _, kind := range kinds {
			transfer.Source, transfer.Destination = kind.address(siteA, pair), kind.address(siteB, pair)
			result, err := transfer.Run(ctx)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", pairNames[pair], kind.name, err)
			}
			rates[kind.name] = append(rates[kind.name], result.BitsPerSecond)
		}
	}
	report := &r.report.Pairs[pair]
	report.TCPBitsPerSecond, report.RoutingBitsPerSecond = median(rates[kinds[0].name]), median(rates[kinds[1].name])
	report.TCPRatio = report.TCPBitsPerSecond / report.RoutingBitsPerSecond
	return nil
}

func (r *run) transfer(from, to site) testnet.TCP {
	return testnet.TCP{Client: r.topology.at(from.host), Server: r.topology.at(to.host)}
}

func median[T float64 | time.Duration](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// coreCapture is the capture file that the user asked for. The nil one does nothing.
type coreCapture struct {
	running *testnet.Running
	file    *testnet.PcapFile
	path    string
}

// startPcap captures everything that enters the core, once, from the first registration to the last verified transfer.
func (r *run) startPcap() error {
	if r.options.PcapDir == "" {
		return nil
	}
	if err := os.MkdirAll(r.options.PcapDir, 0o755); err != nil {
		return fmt.Errorf("directory for the capture: %w", err)
	}
	path := filepath.Join(r.options.PcapDir, pcapName)
	file, err := testnet.CreatePcap(path, maxPcapOctets)
	if err != nil {
		return err
	}
	running, err := testnet.Capture{Namespace: r.topology.at("core"), Links: coreLinks(), IncomingOnly: true}.Start(file.Take)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	r.core = &coreCapture{running: running, file: file, path: path}
	r.report.Capture = path
	return nil
}

// stop finishes the file. A second stop does nothing.
func (c *coreCapture) stop() error {
	if c == nil || c.running == nil {
		return nil
	}
	err := errors.Join(c.running.Stop(), c.file.Close())
	_, missed := c.running.Packets()
	c.running = nil
	if left := c.file.LeftOut(); err == nil && missed+left > 0 {
		err = fmt.Errorf("the capture %s misses %d packets", c.path, missed+left)
	}
	return err
}
