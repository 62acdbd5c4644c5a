// SPDX-License-Identifier: Apache-2.0

package measured

// te-paths, its second part: the RTR of one of two paths is cut off in the middle of a transfer, and comes back.

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loci/daemon/api"
	"loci/internal/testnet"
	"loci/lab"
	"loci/lab/bench/report"
)

const (
	cutRounds  = 3
	cutBefore  = 4 * time.Second
	cutLasts   = 30 * time.Second
	cutReturns = 60 * time.Second // that the goodput may take to be back
	cutWindow  = 4                // seconds over which it is back
	// cutBack is the share of the goodput before the cut from which on the transfer need not go on.
	cutBack = 0.95
	// boundWait is how long it may take until a subflow is bound to a path that returned a while ago.
	boundWait = 60 * time.Second
	// cutMoved is how long packets of a subflow may go to the RTR that was cut off: as long as RLOC-probes take to
	// miss a locator.
	cutMoved = 16.0
	// pathDelay is that of the file's paths.
	pathDelay = 5 * time.Millisecond

	armCut = "RTR of a path cut"

	metricSilent   = "seconds without goodput"
	metricMoved    = "until its subflow has moved"
	metricPause    = "longest pause of a subflow" // TCP's next retransmission is later than the move
	metricReturned = "goodput after the return"
)

// cut is one transfer over two paths, the second of which is cut for a while.
func (m *measuring) cut(ctx context.Context, f pathFamily) error {
	if _, err := m.signalPorts(ctx, f.hostB(byTwoPaths), 1); err != nil {
		return err
	}
	t := m.pathTransfer("host-a", f.hostB(byTwoPaths), 2, cutBefore)
	open := &flows{}
	defer open.close()
	if err := open.listen(ctx, t); err != nil {
		return err
	}
	if err := open.dial(ctx, t); err != nil {
		return err
	}
	if err := lab.Sleep(ctx, pathsSettles); err != nil {
		return err
	}
	rtr := f.rtr(2)
	xtr := m.Daemons["xtr-a"]
	q, err := flowBoundTo(ctx, xtr, rtr)
	if err != nil {
		return err
	}
	s := &seconds{flows: open, from: t.client}
	if err := s.pass(ctx, cutBefore, nil); err != nil {
		return err
	}
	before := mean(s.rates)
	if err := m.setPath(1, 1); err != nil {
		return err
	}
	s.watch(func() (bool, error) { return goesBy(ctx, xtr, q, rtr) })
	if err := s.pass(ctx, cutLasts, nil); err != nil {
		return err
	}
	if err := m.setPath(1, 0); err != nil {
		return err
	}
	back := len(s.rates)
	isBack := func() bool {
		return len(s.rates)-back >= cutWindow && mean(s.rates[len(s.rates)-cutWindow:]) >= cutBack*before
	}
	if err := s.pass(ctx, cutReturns, isBack); err != nil {
		return err
	}
	m.fileCut(f, s, back)
	return nil
}

func (m *measuring) fileCut(f pathFamily, s *seconds, back int) {
	arm := pathArm(m.engine, armCut)
	silent, returned, pause := s.silent(), bestOf(s.rates[back:]), s.longestPause()
	m.add(f.name, arm, metricSilent, "s", float64(silent))
	m.add(f.name, arm, metricMoved, "s", s.moved.Seconds())
	m.add(f.name, arm, metricPause, "s", pause.Seconds())
	m.add(f.name, arm, metricReturned, "Mbit/s", returned/1e6)
	m.screen.Line("%s  %-40s %d s without goodput, moved after %.1f s, longest pause %.1f s, %s Mbit/s %d s after",
		f.name, arm, silent, s.moved.Seconds(), pause.Seconds(), report.Digits(returned/1e6), len(s.rates)-back)
}

// flowBoundTo waits for a subflow that an ITR binds to a path: one that has returned is not used at once.
func flowBoundTo(ctx context.Context, xtr *lab.Daemon, rtr netip.Addr) (q api.ExplainQuery, err error) {
	limited, cancel := context.WithTimeout(ctx, boundWait)
	defer cancel()
	err = lab.Poll(limited, []*lab.Daemon{xtr}, func() (bool, error) {
		subflows, err := xtr.Client.Subflows(limited)
		at := slices.IndexFunc(subflows, func(s api.Subflow) bool {
			return s.RLOC != nil && s.RLOC.Addr() == rtr && s.InForce && s.State != "closing"
		})
		if at < 0 {
			return false, err
		}
		s := subflows[at]
		q = api.ExplainQuery{EID: s.Destination, From: s.Source, Protocol: unix.IPPROTO_TCP,
			SourcePort:      s.SourcePort,
			DestinationPort: s.DestinationPort}
		return true, err
	})
	if err != nil {
		return q, fmt.Errorf("no subflow is bound to the path by %s: %w", rtr, err)
	}
	return q, nil
}

// goesBy says whether packets of a flow go to an RTR, by what `loci explain` tells at an ITR.
func goesBy(ctx context.Context, xtr *lab.Daemon, q api.ExplainQuery, rtr netip.Addr) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	e, err := xtr.Client.Explain(limited, q)
	return err == nil && e.Flow != nil && e.Flow.RLOC != nil && e.Flow.RLOC.Addr() == rtr, err
}

// worstOfCuts is the highest value of all rounds, one that meets no target where there is none.
func worstOfCuts(r *report.Report, engine string, f pathFamily, metric string) float64 {
	found := r.Find(f.name, pathArm(engine, armCut), metric)
	if found == nil || len(found.Samples) == 0 {
		return cutReturns.Seconds()
	}
	return slices.Max(found.Samples)
}

// setPath has so large a share of a path's frames be lost; all else is as in the file.
func (m *measuring) setPath(path int, loss float64) error {
	return m.Emulated[1+path].ImpairBoth(m.Nodes["core"], m.Nodes[fmt.Sprintf("rtr-%d", path+1)],
		testnet.Impairment{Delay: pathDelay, Rate: pathsBottleneck, Loss: loss})
}

// seconds are what has arrived of a transfer in each, in bit/s, and when its subflows were seen to send.
type seconds struct {
	flows *flows
	from  *testnet.Namespace
	rates []float64

	seen     map[string]*progress // of the subflows, from watch on
	began    time.Time            // when that was
	stays    func() (bool, error) // whether a subflow goes by the path that is cut
	moved    time.Duration        // how long one was, so far
	hasMoved bool
}

// progress is how far a subflow has come.
type progress struct {
	acked uint64
	at    time.Time
	pause time.Duration // the longest so far
}

// pass lets seconds pass, until done says so if it is not nil.
func (s *seconds) pass(ctx context.Context, length time.Duration, done func() bool) error {
	for range int(length / time.Second) {
		before, began := s.flows.arrived.Load(), time.Now()
		if err := lab.Sleep(ctx, time.Second); err != nil {
			return err
		}
		s.rates = append(s.rates, float64(s.flows.arrived.Load()-before)*8/time.Since(began).Seconds())
		if s.seen != nil {
			if err := s.look(ctx); err != nil {
				return err
			}
		}
		if done != nil && done() {
			return nil
		}
	}
	return nil
}

// watch begins to look after the pauses of subflows, and after the path of one.
func (s *seconds) watch(stays func() (bool, error)) {
	s.seen, s.began, s.stays = map[string]*progress{}, time.Now(), stays
}

// look notes how far each subflow has come.
func (s *seconds) look(ctx context.Context) error {
	acked, err := ackedOf(ctx, s.from)
	if err != nil {
		return err
	}
	s.note(acked, time.Now())
	if s.hasMoved {
		return nil
	}
	same, err := s.stays()
	s.moved, s.hasMoved = time.Since(s.began), !same
	return err
}

// note is how far each subflow has come at a time.
func (s *seconds) note(acked map[string]uint64, now time.Time) {
	for subflow, octets := range acked {
		p := s.seen[subflow]
		if p == nil {
			s.seen[subflow] = &progress{acked: octets, at: now}
			continue
		}
		p.pause = max(p.pause, now.Sub(p.at))
		if octets > p.acked {
			p.acked, p.at = octets, now
		}
	}
}

// longestPause is the longest time in which a subflow had nothing acknowledged.
func (s *seconds) longestPause() (longest time.Duration) {
	for _, p := range s.seen {
		longest = max(longest, p.pause)
	}
	return longest
}

// silent are the seconds in which nothing arrived.
func (s *seconds) silent() (count int) {
	for _, rate := range s.rates {
		if rate == 0 {
			count++
		}
	}
	return count
}

// bestOf is the highest mean of cutWindow rates that follow each other.
func bestOf(rates []float64) (best float64) {
	for i := cutWindow; i <= len(rates); i++ {
		best = max(best, mean(rates[i-cutWindow:i]))
	}
	return best
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

// ackedOf are the octets that each TCP connection of a node to the transfer's server has had acknowledged, by ss(8).
func ackedOf(ctx context.Context, at *testnet.Namespace) (map[string]uint64, error) {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "ss", "-tniHO", "state", "established")
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := at.Start(cmd); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("ss -tni: %w: %s", err, bytes.TrimSpace(output.Bytes()))
	}
	return readAcked(output.String())
}

var ackedOctets = regexp.MustCompile(`\bbytes_acked:(\d+)`)

// readAcked reads a line of ss for each connection: queues, own address, the peer's, and what TCP knows.
func readAcked(text string) (map[string]uint64, error) {
	acked := map[string]uint64{}
	for line := range strings.Lines(text) {
		fields, found := strings.Fields(line), ackedOctets.FindStringSubmatch(line)
		if len(fields) < 4 || found == nil {
			continue
		}
		octets, err := strconv.ParseUint(found[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("ss -tni: %q: %w", line, err)
		}
		if from, err := netip.ParseAddrPort(fields[2]); err == nil {
			acked[from.String()+" "+fields[3]] = octets
		}
	}
	return acked, nil
}
