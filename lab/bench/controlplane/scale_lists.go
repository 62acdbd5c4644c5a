// SPDX-License-Identifier: Apache-2.0

// The lists of `loci bench scale`: the control socket is asked for whole tables, for a fourth of them, and for one EID.
// What comes is read and thrown away, but for the number of entries: what a client does with it is not the daemon's.

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"loci/daemon/api"
	"loci/lab/bench/mappings"
	"loci/lab/bench/report"
	"loci/lab/bench/testbed"
	"loci/lisp"
)

const (
	// scaleStep is how many times more there is of everything in the second measurement.
	scaleStep = 4
	// oneEIDTimes is how often an entry is asked for alone.
	oneEIDTimes = 51
	// residentEvery is how often the daemon's memory is looked at.
	residentEvery = 5 * time.Millisecond
	// answerPairs is how often answers are measured without and beside lists.
	answerPairs = 5
	// entryMark is once in each entry.
	entryMark = `"eid_prefix"`
)

// scaleMapCache fills the data plane of an xTR and has it list what it took over.
func scaleMapCache(ctx context.Context, b *testbed.Run, l *testbed.Line, entries int) ([]report.Sample, error) {
	mix, err := mappings.MixOf("")
	if err != nil {
		return nil, err
	}
	sets := mappings.DrawEntries(mix, []string{testbed.Pairs[0].Name + "/", testbed.Pairs[3].Name + "/"}, entries)
	b.Screen.Line("filling the map-cache")
	if err := mappings.FillEntries(ctx, b, l, sets); err != nil {
		return nil, err
	}
	configuration := testbed.SiteConfig(testbed.SourcesOf, testbed.DestinationsOf, func(p testbed.Pair) (own, remote netip.Prefix) { return p.EncCore, p.DecCore })
	configuration = strings.Replace(configuration, "map-cache:\n", fmt.Sprintf("map-cache:\n    limit: %d\n", entries+mappings.OtherMappings), 1)
	configuration = strings.Replace(configuration, "itr:\n", "itr:\n  map-resolvers: [\"192.0.2.1\"]\n", 1)
	p, err := b.StartDaemon(ctx, l.Enc, fmt.Sprintf("interfaces:\n  site: [%s]\n  core: [%s]\n", testbed.SiteLink, testbed.CoreLink)+configuration+"metrics: {listen: [\""+scrapeAddress+"\"]}\n")
	if err != nil {
		return nil, err
	}
	scraped, err := scrapes(ctx, l.Enc, p)
	if err != nil {
		return nil, err
	}
	status, err := p.Client.Status(ctx)
	if err != nil {
		return nil, err
	}
	prefix, err := lisp.PrefixFromNetip(0, sets[0].Prefixes[entries/8])
	if err != nil {
		return nil, err
	}
	samples, err := lists(ctx, b, p, api.PathMapCache, status.MapCacheSize)
	if err != nil {
		return nil, err
	}
	one, err := timeOne(func(q api.ListQuery) iter.Seq2[api.MapCacheEntry, error] { return p.Client.EachMapCache(ctx, q) }, prefix)
	return append(samples, one, scraped), errors.Join(err, b.Stop(p), b.Detach(l.Enc))
}

// scaleRegistrations has a Map-Server list what is registered, alone and beside the load of a Map-Server of that size.
func scaleRegistrations(ctx context.Context, b *testbed.Run, l *testbed.Line, slot time.Duration) ([]report.Sample, error) {
	c := &controlRun{}
	if err := c.build(ctx, b, l); err != nil {
		return nil, err
	}
	samples, err := lists(ctx, b, c.server, api.PathRegistrations, c.mappings)
	if err != nil {
		return nil, err
	}
	mapping, _ := c.load.mapping(c.mappings / 2)
	one, err := timeOne(func(q api.ListQuery) iter.Seq2[api.Registration, error] {
		return c.server.Client.EachRegistrations(ctx, q)
	}, mapping.Prefix)
	if err != nil {
		return nil, err
	}
	ofCommand, err := command(ctx, b, c)
	if err != nil {
		return nil, err
	}
	answers, err := answersWithLists(ctx, b, c, slot)
	return slices.Concat(samples, []report.Sample{one}, ofCommand, answers), err
}

// answersWithLists compares the p99 of answers without and beside lists, in pairs one after the other: a machine that is at work
// otherwise disturbs both of a pair.
func answersWithLists(ctx context.Context, b *testbed.Run, c *controlRun, slot time.Duration) ([]report.Sample, error) {
	var without, beside, ratios []float64
	lists := 0
	for range answerPairs {
		alone, err := answersBeside(ctx, c, slot/(2*answerPairs), nil)
		if err != nil {
			return nil, err
		}
		listing, err := answersBeside(ctx, c, slot/(2*answerPairs), func(ctx context.Context) error {
			entries, err := list(ctx, b, c.server, api.PathRegistrations, 0)
			lists += entries
			return err
		})
		if err != nil {
			return nil, err
		}
		without, beside, ratios = append(without, alone), append(beside, listing), append(ratios, listing/alone)
	}
	return []report.Sample{
		report.Figure("p99 of answers", "ms", medianOf(without)), report.Figure("p99 of answers beside lists", "ms", medianOf(beside)),
		report.Figure("p99 of answers beside lists / without", "", medianOf(ratios)), report.Figure("entries listed beside answers", "", float64(lists)),
	}, nil
}

func medianOf(values []float64) float64 {
	slices.Sort(values)
	return report.Percentile(values, 0.5)
}

// answersBeside is the p99 in ms of answers while something is done again and again.
func answersBeside(ctx context.Context, c *controlRun, slot time.Duration, work func(context.Context) error) (p99 float64, err error) {
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		var err error
		for err == nil && work != nil && working.Err() == nil {
			if err = work(working); working.Err() != nil {
				err = nil
			}
		}
		ended <- err
	}()
	samples, err := c.both(ctx, slot)
	stop()
	if err = errors.Join(err, <-ended); err != nil {
		return 0, err
	}
	return samples[slices.IndexFunc(samples, func(s report.Sample) bool { return s.Metric == "p99" })].Value, nil
}

// lists times the list of a fourth of a table and of the whole, and looks at the daemon's memory meanwhile.
func lists(ctx context.Context, b *testbed.Run, p *testbed.Process, path string, entries int) ([]report.Sample, error) {
	before, err := testbed.OwnOctets(p.PID())
	if err != nil {
		return nil, err
	}
	peak := watchMemory(p)
	var samples []report.Sample
	var times []float64
	for _, most := range []int{entries / scaleStep, entries} {
		began := time.Now()
		listed, err := list(ctx, b, p, path, most)
		if err != nil || listed != most {
			return nil, errors.Join(err, fmt.Errorf("%d of %d entries listed", listed, most))
		}
		times = append(times, time.Since(began).Seconds())
		samples = append(samples, report.Figure(fmt.Sprintf("list of %d entries", most), "s", times[len(times)-1]))
	}
	return append(samples, report.Figure("exponent of the time", "", exponent(times[0], times[1])),
		report.Figure("more memory", "MB", (peak()-before)/1e6)), nil
}

// watchMemory begins to look at what a daemon has; the function that it returns ends that, and tells the most.
func watchMemory(p *testbed.Process) (peak func() float64) {
	done, most := make(chan struct{}), make(chan float64, 1)
	go func() {
		tick := time.NewTicker(residentEvery)
		defer tick.Stop()
		highest := 0.0
		for {
			if octets, err := testbed.OwnOctets(p.PID()); err == nil {
				highest = math.Max(highest, octets)
			}
			select {
			case <-tick.C:
			case <-done:
				most <- highest
				return
			}
		}
	}()
	return func() float64 { close(done); return <-most }
}

// list reads a list, and returns how many entries it has.
func list(ctx context.Context, b *testbed.Run, p *testbed.Process, path string, limit int) (entries int, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.Instance.Path(p.Name+".sock"))
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://loci%s?limit=%d", path, limit), nil)
	if err != nil {
		return 0, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	buffer, kept := make([]byte, 256<<10), 0
	for {
		n, err := answer.Body.Read(buffer[kept:])
		text := buffer[:kept+n]
		entries += bytes.Count(text, []byte(entryMark))
		if err != nil {
			if !bytes.HasSuffix(text, []byte("]\n")) {
				return entries, fmt.Errorf("the list has no end: %w", err)
			}
			return entries, nil
		}
		kept = copy(buffer, text[max(0, len(text)-len(entryMark)+1):]) // a mark may be cut in two
	}
}

// timeOne is the median of how long it takes to be shown one entry.
func timeOne[T any](ask func(api.ListQuery) iter.Seq2[T, error], prefix lisp.Prefix) (report.Sample, error) {
	times := make([]float64, 0, oneEIDTimes)
	for range oneEIDTimes {
		began, found := time.Now(), 0
		for _, err := range ask(api.ListQuery{EIDPrefix: prefix}) {
			if err != nil {
				return report.Sample{}, err
			}
			found++
		}
		if found == 0 {
			return report.Sample{}, fmt.Errorf("nothing is shown of %s", prefix)
		}
		times = append(times, float64(time.Since(began))/1e6)
	}
	slices.Sort(times)
	return report.Figure("one EID", "ms", report.Percentile(times, 0.5)), nil
}

// exponent is e where scaleStep times as much takes scaleStep^e times as long.
func exponent(first, second float64) float64 {
	return math.Log(second/first) / math.Log(scaleStep)
}
