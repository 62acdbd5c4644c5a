// SPDX-License-Identifier: Apache-2.0

package measured

// te-paths: what subflows of Multipath TCP carry that are bound to paths of their own, beside one TCP flow on each path
// alone, and beside subflows that a hash leads.

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"loci/lab/bench/report"
	"loci/lab/chart"
)

const (
	pathsRounds  = 10
	pathsMost    = 4
	pathsSettles = 2 * time.Second
	pathsLasts   = 4 * time.Second
	// pathsHashed is how many rounds subflows without binding are measured.
	pathsHashed      = 30
	pathsHashedLasts = time.Second
	// pathsBottleneck is the rate of a path, which the link of xtr-a has while all share it.
	pathsBottleneck = 20_000_000
	// pathShared is the share of the frames beyond which a path counts as the only one.
	pathShared = 0.9

	leastOfPaths                  = 0.9
	leastShared, mostShared       = 0.9, 1.1
	leastOnOnePath, mostOnOnePath = 0.2, 0.8

	armAlone, armTwo, armFour  = "each path alone", "two subflows bound", "four subflows bound"
	armOneShared, armTwoShared = "one TCP flow, bottleneck", "two subflows bound, bottleneck"
	armHashed                  = "two subflows by their hash"

	metricOnOnePath = "rounds on one path"
	metricOnOne     = "goodput on one path"
	metricOfTwo     = "of two paths"
	metricOfFour    = "of four paths"
)

// pathFamily are the addresses of one family of EIDs, and of RLOCs.
type pathFamily struct {
	name  string
	hostB func(last int) netip.Addr
	rtr   func(path int) netip.Addr
}

var pathFamilies = []pathFamily{
	{
		"IPv4", func(last int) netip.Addr { return netip.AddrFrom4([4]byte{10, 2, 0, byte(last)}) },
		func(path int) netip.Addr { return netip.AddrFrom4([4]byte{172, 16, byte(10 + path), 2}) },
	},
	{
		"IPv6", func(last int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:2::%d", last)) },
		func(path int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:ff1%d::2", path)) },
	},
}

// The last octets of host-b's EIDs.
const (
	byTwoPaths   = 2
	byFourPaths  = 4
	byFirstPath  = 11 // the following ones by the following paths
	xtrLinkDelay = time.Millisecond
)

func pathArm(engine, arm string) string { return engine + ", " + arm }

func measurePaths(ctx context.Context, m *measuring) error {
	if err := m.allowSubflows(ctx); err != nil {
		return err
	}
	for round := range pathsRounds {
		for _, f := range pathFamilies {
			if err := m.boundRound(ctx, f, round); err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, f.name, err)
			}
		}
	}
	for round := range cutRounds {
		for _, f := range pathFamilies {
			if err := m.cut(ctx, f); err != nil {
				return fmt.Errorf("cut %d, %s: %w", round+1, f.name, err)
			}
		}
	}
	for _, f := range pathFamilies {
		if err := m.hashed(ctx, f); err != nil {
			return fmt.Errorf("%s, without binding: %w", f.name, err)
		}
	}
	return nil
}

// boundRound measures each arm once.
func (m *measuring) boundRound(ctx context.Context, f pathFamily, round int) error {
	for _, arm := range []struct {
		name    string
		measure func(context.Context, pathFamily) (float64, error)
	}{
		{armTwo, m.twoBound}, {armFour, m.fourBound}, {armOneShared, m.sharedBy(m.oneFlow)},
		{armTwoShared, m.sharedBy(m.twoBound)},
	} {
		rate, err := arm.measure(ctx, f)
		if err != nil {
			return fmt.Errorf("%s: %w", arm.name, err)
		}
		m.add(f.name, pathArm(m.engine, arm.name), metricGoodput, "Mbit/s", rate/1e6)
		m.screen.Line("round %d  %s  %-40s %s Mbit/s", round+1, f.name, pathArm(m.engine, arm.name),
			report.Digits(rate/1e6))
	}
	return m.alone(ctx, f, round)
}

// alone measures one TCP flow on each path, all at the same time: they share no link that they fill.
func (m *measuring) alone(ctx context.Context, f pathFamily, round int) error {
	var rates [pathsMost]float64
	errs := make(chan error, pathsMost)
	for i := range pathsMost {
		go func() {
			var err error
			rates[i], err = m.goodput(ctx, m.pathTransfer("host-a", f.hostB(byFirstPath+i), 1, pathsLasts))
			errs <- err
		}()
	}
	for range pathsMost {
		if err := <-errs; err != nil {
			return fmt.Errorf("one flow on a path: %w", err)
		}
	}
	two, four := rates[0]+rates[1], rates[0]+rates[1]+rates[2]+rates[3]
	m.add(f.name, pathArm(m.engine, armAlone), metricOfTwo, "Mbit/s", two/1e6)
	m.add(f.name, pathArm(m.engine, armAlone), metricOfFour, "Mbit/s", four/1e6)
	m.add(f.name, pathArm(m.engine, armAlone), metricGoodput, "Mbit/s", rates[0]/1e6)
	m.screen.Line("round %d  %s  %-40s %s Mbit/s in all", round+1, f.name, pathArm(m.engine, armAlone),
		report.Digits(four/1e6))
	return nil
}

func (m *measuring) pathTransfer(client string, to netip.Addr, subflows int, lasts time.Duration) transfer {
	return transfer{
		client: m.Nodes[client], server: m.Nodes["host-b"], to: to, flows: 1, multipath: subflows > 1,
		settles: pathsSettles, lasts: lasts,
	}
}

func (m *measuring) oneFlow(ctx context.Context, f pathFamily) (float64, error) {
	return m.goodput(ctx, m.pathTransfer("host-a", f.hostB(byFirstPath), 1, pathsLasts))
}

func (m *measuring) twoBound(ctx context.Context, f pathFamily) (float64, error) {
	return m.subflows(ctx, "host-a", f.hostB(byTwoPaths), 2, pathsLasts)
}

func (m *measuring) fourBound(ctx context.Context, f pathFamily) (float64, error) {
	return m.subflows(ctx, "host-a", f.hostB(byFourPaths), pathsMost, pathsLasts)
}

// sharedBy measures while the link of xtr-a carries no more than one path does.
func (m *measuring) sharedBy(measure func(context.Context, pathFamily) (float64, error)) func(context.Context,
	pathFamily) (float64, error) {
	return func(ctx context.Context, f pathFamily) (float64, error) {
		if err := m.limitXTR(pathsBottleneck); err != nil {
			return 0, err
		}
		rate, err := measure(ctx, f)
		if back := m.limitXTR(0); err == nil {
			err = back
		}
		return rate, err
	}
}

// hashed measures subflows that no router binds, and on how many rounds both were on one path.
func (m *measuring) hashed(ctx context.Context, f pathFamily) error {
	onOne := 0
	for round := range pathsHashed {
		before, err := m.framesByPath()
		if err != nil {
			return err
		}
		rate, err := m.subflows(ctx, "host-c", f.hostB(byTwoPaths), 2, pathsHashedLasts)
		if err != nil {
			return err
		}
		after, err := m.framesByPath()
		if err != nil {
			return err
		}
		first, second := float64(after[0]-before[0]), float64(after[1]-before[1])
		one := max(first, second) > pathShared*(first+second)
		arm := pathArm(m.engine, armHashed)
		if one {
			onOne++
			m.add(f.name, arm, metricOnOne, "Mbit/s", rate/1e6)
		}
		m.screen.Line("round %d  %s  %-40s %s Mbit/s, on one path: %t", round+1, f.name, arm,
			report.Digits(rate/1e6), one)
	}
	m.add(f.name, pathArm(m.engine, armHashed), metricOnOnePath, "", float64(onOne)/pathsHashed)
	return nil
}

// framesByPath are the frames that each RTR has been sent.
func (m *measuring) framesByPath() (frames [pathsMost]uint64, err error) {
	for i := range frames {
		counts, err := m.Emulated[1+i].Counts(m.Nodes["core"], m.Nodes[fmt.Sprintf("rtr-%d", i+1)])
		if err != nil {
			return frames, err
		}
		frames[i] = counts.Delivered
	}
	return frames, nil
}

func judgePaths(r *report.Report, engines []string) {
	for _, engine := range engines {
		for _, f := range pathFamilies {
			of := func(arm, metric string) float64 {
				found := r.Find(f.name, pathArm(engine, arm), metric)
				if found == nil { // no round was on one path
					return 0
				}
				return found.Median
			}
			want := func(what string, measured float64, b report.Bound) {
				r.Want(fmt.Sprintf("%s, %s: %s", engine, f.name, what), measured, b)
			}
			two := ratioOf(of(armTwo, metricGoodput), of(armAlone, metricOfTwo))
			four := ratioOf(of(armFour, metricGoodput), of(armAlone, metricOfFour))
			want("two subflows bound / both paths alone", two, report.AtLeast(leastOfPaths))
			want("four subflows bound / four paths alone", four, report.AtLeast(leastOfPaths))
			want("RTR of a path cut: seconds without goodput",
				worstOfCuts(r, engine, f, metricSilent), report.AtMost(0))
			want("RTR of a path cut: seconds until its subflow has moved",
				worstOfCuts(r, engine, f, metricMoved),
				report.AtMost(cutMoved))
			want("within 60 s of its return / both paths alone",
				ratioOf(of(armCut, metricReturned), of(armAlone, metricOfTwo)),
				report.AtLeast(leastOfPaths))
			shared := ratioOf(of(armTwoShared, metricGoodput), of(armOneShared, metricGoodput))
			want("one bottleneck: two subflows / one TCP flow", shared, report.AtLeast(leastShared))
			want("one bottleneck: two subflows / one TCP flow, at most", shared, report.AtMost(mostShared))
			want("by their hash: share of rounds on one path", of(armHashed, metricOnOnePath),
				report.AtLeast(leastOnOnePath))
			want("by their hash: share of rounds on one path, at most", of(armHashed, metricOnOnePath),
				report.AtMost(mostOnOnePath))
			want("by their hash, on one path / one path alone", ratioOf(of(armHashed, metricOnOne),
				of(armAlone, metricGoodput)), report.AtMost(mostShared))
		}
	}
}

// ratioOf is 0, which meets no target of the paths, where nothing was carried that it is the ratio to.
func ratioOf(of, to float64) float64 {
	if to <= 0 {
		return 0
	}
	return of / to
}

func drawPaths(r *report.Report, engines []string) []chart.Panel {
	panels := []chart.Panel{{
		Title: "LISP-TE and Multipath TCP", Notes: []string{
			"Two subflows over two paths of 20 Mbit/s, four over four.",
			"Bound by the ITR, beside one TCP flow on each path alone.",
		},
	}}
	for _, f := range pathFamilies {
		p := chart.Panel{Title: fmt.Sprintf("Loci, %s, %s", r.Environment.Date, f.name),
			X: "paths of 20 Mbit/s", Y: "goodput, Mbit/s", YTo: pathsMost * pathsBottleneck / 1e6}
		for _, engine := range engines {
			at := func(arm, metric string) float64 {
				return r.Find(f.name, pathArm(engine, arm),
					metric).Median
			}
			p.Lines = append(p.Lines,
				chart.Line{Name: pathArm(engine, "bound"), Points: []chart.Point{
					{}, {X: 1, Y: at(armAlone, metricGoodput)}, {X: 2, Y: at(armTwo,
						metricGoodput)}, {X: pathsMost, Y: at(armFour, metricGoodput)},
				}},
				chart.Line{Name: pathArm(engine, "paths alone, summed"), Points: []chart.Point{
					{}, {X: 1, Y: at(armAlone, metricGoodput)}, {X: 2, Y: at(armAlone,
						metricOfTwo)}, {X: pathsMost, Y: at(armAlone, metricOfFour)},
				}})
		}
		panels = append(panels, p)
	}
	return panels
}
