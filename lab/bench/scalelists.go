// SPDX-License-Identifier: Apache-2.0

// The lists of `loci bench scale`: the control socket is asked for whole tables, for a fourth of them, and for one EID.
// What comes is read and thrown away, but for the number of entries: what a client does with it is not the daemon's.

package bench

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
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"loci/daemon/api"
	"loci/lisp"
)

const (
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
func (b *bench) scaleMapCache(ctx context.Context, l *line, entries int) ([]sample, error) {
	mix, err := mixOf("")
	if err != nil {
		return nil, err
	}
	l.entries = drawEntries(mix, []string{pairs[0].name + "/", pairs[3].name + "/"}, entries)
	b.screen.line("filling the map-cache")
	if err := b.fillEntries(ctx, l, entries); err != nil {
		return nil, err
	}
	configuration := siteConfig(sourcesOf, destinationsOf, func(p pair) (own, remote netip.Prefix) { return p.encCore, p.decCore })
	configuration = strings.Replace(configuration, "map-cache:\n", fmt.Sprintf("map-cache:\n    limit: %d\n", entries+otherMappings), 1)
	configuration = strings.Replace(configuration, "itr:\n", "itr:\n  map-resolvers: [\"192.0.2.1\"]\n", 1)
	p, err := b.startDaemon(ctx, l.enc, fmt.Sprintf("interfaces:\n  site: [%s]\n  core: [%s]\n", siteLink, coreLink)+configuration)
	if err != nil {
		return nil, err
	}
	status, err := p.client.Status(ctx)
	if err != nil {
		return nil, err
	}
	prefix, err := lisp.PrefixFromNetip(0, l.entries[0].prefixes[entries/8])
	if err != nil {
		return nil, err
	}
	samples, err := b.lists(ctx, p, api.PathMapCache, status.MapCacheSize)
	if err != nil {
		return nil, err
	}
	one, err := timeOne(func(q api.ListQuery) iter.Seq2[api.MapCacheEntry, error] { return p.client.EachMapCache(ctx, q) }, prefix)
	return append(samples, one), errors.Join(err, b.stop(p), b.detach(l.enc))
}

// scaleRegistrations has a Map-Server list what is registered, alone and beside the load of a Map-Server of that size.
func (b *bench) scaleRegistrations(ctx context.Context, l *line, slot time.Duration) ([]sample, error) {
	if err := buildControl(ctx, b, l); err != nil {
		return nil, err
	}
	c := b.control
	samples, err := b.lists(ctx, c.server, api.PathRegistrations, c.mappings)
	if err != nil {
		return nil, err
	}
	mapping, _ := c.load.mapping(c.mappings / 2)
	one, err := timeOne(func(q api.ListQuery) iter.Seq2[api.Registration, error] {
		return c.server.client.EachRegistrations(ctx, q)
	}, mapping.Prefix)
	if err != nil {
		return nil, err
	}
	answers, err := b.answersWithLists(ctx, slot)
	return append(append(samples, one), answers...), err
}

// answersWithLists compares the p99 of answers without and beside lists, in pairs one after the other: a machine that is at work
// otherwise disturbs both of a pair.
func (b *bench) answersWithLists(ctx context.Context, slot time.Duration) ([]sample, error) {
	var without, beside, ratios []float64
	lists := 0
	for range answerPairs {
		alone, err := b.answersBeside(ctx, slot/(2*answerPairs), nil)
		if err != nil {
			return nil, err
		}
		listing, err := b.answersBeside(ctx, slot/(2*answerPairs), func(ctx context.Context) error {
			entries, err := b.list(ctx, b.control.server, api.PathRegistrations, 0)
			lists += entries
			return err
		})
		if err != nil {
			return nil, err
		}
		without, beside, ratios = append(without, alone), append(beside, listing), append(ratios, listing/alone)
	}
	return []sample{
		{"p99 of answers", "ms", medianOf(without)}, {"p99 of answers beside lists", "ms", medianOf(beside)},
		{"p99 of answers beside lists / without", "", medianOf(ratios)}, {"entries listed beside answers", "", float64(lists)},
	}, nil
}

func medianOf(values []float64) float64 {
	slices.Sort(values)
	return percentile(values, 0.5)
}

// answersBeside is the p99 in ms of answers while something is done again and again.
func (b *bench) answersBeside(ctx context.Context, slot time.Duration, work func(context.Context) error) (p99 float64, err error) {
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
	samples, err := b.control.both(ctx, slot)
	stop()
	if err = errors.Join(err, <-ended); err != nil {
		return 0, err
	}
	return samples[slices.IndexFunc(samples, func(s sample) bool { return s.metric == "p99" })].value, nil
}

// lists times the list of a fourth of a table and of the whole, and looks at the daemon's memory meanwhile.
func (b *bench) lists(ctx context.Context, p *process, path string, entries int) ([]sample, error) {
	before, err := ownOctets(p.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	peak := b.watchMemory(p)
	var samples []sample
	var times []float64
	for _, most := range []int{entries / scaleStep, entries} {
		began := time.Now()
		listed, err := b.list(ctx, p, path, most)
		if err != nil || listed != most {
			return nil, errors.Join(err, fmt.Errorf("%d of %d entries listed", listed, most))
		}
		times = append(times, time.Since(began).Seconds())
		samples = append(samples, sample{fmt.Sprintf("list of %d entries", most), "s", times[len(times)-1]})
	}
	return append(samples, sample{"exponent of the time", "", exponent(times[0], times[1])},
		sample{"more memory", "MB", (peak() - before) / 1e6}), nil
}

// watchMemory begins to look at what a daemon has; the function that it returns ends that, and tells the most.
func (b *bench) watchMemory(p *process) (peak func() float64) {
	done, most := make(chan struct{}), make(chan float64, 1)
	go func() {
		tick := time.NewTicker(residentEvery)
		defer tick.Stop()
		highest := 0.0
		for {
			if octets, err := ownOctets(p.cmd.Process.Pid); err == nil {
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

// ownOctets is what a process has resident beside files and the kernel's maps.
func ownOctets(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kibibytes, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kibibytes * 1024, err
		}
	}
	return 0, errors.New("/proc tells no anonymous memory")
}

// list reads a list, and returns how many entries it has.
func (b *bench) list(ctx context.Context, p *process, path string, limit int) (entries int, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", b.instance.Path(p.name+".sock"))
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
func timeOne[T any](ask func(api.ListQuery) iter.Seq2[T, error], prefix lisp.Prefix) (sample, error) {
	times := make([]float64, 0, oneEIDTimes)
	for range oneEIDTimes {
		began, found := time.Now(), 0
		for _, err := range ask(api.ListQuery{EIDPrefix: prefix}) {
			if err != nil {
				return sample{}, err
			}
			found++
		}
		if found == 0 {
			return sample{}, fmt.Errorf("nothing is shown of %s", prefix)
		}
		times = append(times, float64(time.Since(began))/1e6)
	}
	slices.Sort(times)
	return sample{"one EID", "ms", percentile(times, 0.5)}, nil
}
