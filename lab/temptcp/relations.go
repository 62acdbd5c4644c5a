// SPDX-License-Identifier: Apache-2.0

package temptcp

// Each relation of the paper, with its words.

import (
	"fmt"
	"slices"
)

// Sites of which the paper says something that it does not say of the others.
const (
	siteLIP6     = "lip6"
	siteNSS      = "nss"
	siteRezopole = "rezopole"
)

func (p *parameters) relations() []relation {
	return append(p.throughput(), p.subflows()...)
}

// throughput are those of Figures 6 and 8, and of the sweep.
func (p *parameters) throughput() []relation {
	return []relation{
		{
			name: "two paths gain 10 to 25 % over SD", sources: []string{siteLIP6, siteRezopole},
			paper: "Fig. 8: for the other two sources, the gain ranges from 10% to 25% with two paths",
			holds: (*judged).twoGain,
		},
		{
			name: "more paths gain nothing for NSS", sources: []string{siteNSS},
			paper: "Fig. 8: there is practically no improvement with the NSS source",
			holds: (*judged).noneGains,
		},
		{
			name:  "a third path helps LIP6 only",
			paper: "Fig. 8: adding a third ELP leads marginal gains only for the LIP6 source",
			holds: (*judged).thirdHelps,
		},
		{
			name:  "a fourth path lowers throughput",
			paper: "Fig. 8: adding the fourth ELP, with high RTT, does decrease the throughput",
			holds: (*judged).fourthLowers,
		},
		{
			name: "stateless and stateful are alike", both: true,
			paper: "Fig. 8: there is no better mode in terms of throughput between stateless and stateful",
			holds: (*judged).alike,
		},
		{
			name: "throughput is highest where the differential RTT is least", both: true,
			paper: "Fig. 6: strong correlation, with highest throughput reached for least differential RTTs",
			holds: (*judged).correlates,
		},
		{
			name: "the same, in the sweep", both: true, sources: []string{p.Sweep.Source},
			paper: "Fig. 6, with nothing changed but the RTT of the second path",
			holds: (*judged).sweepCorrelates,
		},
	}
}

// subflows are those of Figures 5, 7 and 9.
func (p *parameters) subflows() []relation {
	return []relation{
		{
			name:  "SD loses more than subflows on paths",
			paper: "Fig. 5: the SD mode suffered an important packet loss",
			holds: (*judged).defaultLoses,
		},
		{
			name: "NSS loses most", sources: []string{siteNSS},
			paper: "Fig. 5: among the sources, the NSS one suffered more",
			holds: func(j *judged, c *Case) (bool, string) { return j.losesMost(c, p.siteNames()) },
		},
		{
			name:  "the fourth path has a much higher RTT",
			paper: "Fig. 7: the fourth ELP for all sources suffers from a much higher RTT",
			holds: (*judged).fourthIsFar,
		},
		{
			name: "the third path of NSS has a slightly higher RTT", sources: []string{siteNSS},
			paper: "Fig. 7: for the NSS source, ELP3 has a slightly higher RTT than the others",
			holds: (*judged).thirdIsFarther,
		},
		{
			name:  "the fourth path carries about nothing",
			paper: "Fig. 9: the fourth ELP does indeed bring a very low, in practice null contribution",
			holds: (*judged).fourthCarriesNothing,
		},
		{
			name:  "the first subflow carries most",
			paper: "Fig. 9: the scheduler loads mostly one subflow, this subflow often being the first one",
			holds: (*judged).firstCarriesMost,
		},
	}
}

func (j *judged) twoGain(c *Case) (bool, string) {
	g, known := j.gain(c.of(""), c.mode(2), modeDefault)
	if !known {
		return false, notMeasured
	}
	return g >= j.by.GainFrom && g <= j.by.GainTo, "two paths gain " + percent(g)
}

func (j *judged) noneGains(c *Case) (bool, string) {
	most := -1.0
	for paths := 2; paths <= mostPaths; paths++ {
		g, known := j.gain(c.of(""), c.mode(paths), modeDefault)
		if !known {
			return false, notMeasured
		}
		most = max(most, g)
	}
	return most <= j.by.None, "the most that two to four paths gain is " + percent(most)
}

func (j *judged) thirdHelps(c *Case) (bool, string) {
	g, known := j.gain(c.of(""), c.mode(3), c.mode(2))
	if !known {
		return false, notMeasured
	}
	return (g >= j.by.Marginal) == (c.Source == siteLIP6), "the third path changes throughput by " + percent(g)
}

func (j *judged) fourthLowers(c *Case) (bool, string) {
	g, known := j.gain(c.of(""), c.mode(4), c.mode(3))
	if !known {
		return false, notMeasured
	}
	return g <= -j.by.Marginal, "the fourth path changes throughput by " + percent(g)
}

func (j *judged) alike(c *Case) (bool, string) {
	far := 0.0
	for paths := 1; paths <= mostPaths; paths++ {
		g, known := j.gain(c.of(""), mode{modeStateful, paths}.String(), mode{modeStateless, paths}.String())
		if !known {
			return false, notMeasured
		}
		if max(g, -g) > max(far, -far) {
			far = g
		}
	}
	return max(far, -far) <= j.by.Alike, "from stateless to stateful throughput changes by " + percent(far) +
		" at most"
}

// correlates looks at all transfers with two subflows or more.
func (j *judged) correlates(c *Case) (bool, string) {
	var apart, goodput []float64
	for i := range j.Transfers {
		t := &j.Transfers[i]
		differential, known := t.differential()
		if known && t.Swept == nil && t.Source == c.Source && t.Buffer == c.Buffer {
			apart, goodput = append(apart, differential), append(goodput, t.Goodput)
		}
	}
	return j.isCorrelated(apart, goodput)
}

func (j *judged) sweepCorrelates(c *Case) (bool, string) {
	var apart, goodput []float64
	for _, t := range j.Transfers {
		if t.Swept != nil && t.Buffer == c.Buffer {
			apart, goodput = append(apart, float64(*t.Swept)), append(goodput, t.Goodput)
		}
	}
	return j.isCorrelated(apart, goodput)
}

func (j *judged) isCorrelated(apart, goodput []float64) (bool, string) {
	found, known := spearman(apart, goodput)
	if !known {
		return false, notMeasured
	}
	return found <= j.by.Correlation, fmt.Sprintf("the correlation is %+.2f, over %d transfers", found, len(apart))
}

func (j *judged) defaultLoses(c *Case) (bool, string) {
	loss, known := j.ofSubflows(c.of(modeDefault), 0, lossOf)
	most := 0.0
	for paths := 2; paths <= mostPaths; paths++ {
		other, knownToo := j.ofSubflows(c.of(c.mode(paths)), 0, lossOf)
		if !known || !knownToo {
			return false, notMeasured
		}
		most = max(most, other)
	}
	return loss > most, fmt.Sprintf("SD loses %.2f %%, two to four paths at most %.2f %%", 100*loss, 100*most)
}

func (j *judged) losesMost(c *Case, sources []string) (bool, string) {
	for _, name := range []string{modeDefault, c.mode(2), c.mode(3), c.mode(4)} {
		own, known := j.ofSubflows(c.of(name), 0, lossOf)
		for _, source := range sources {
			other, knownToo := j.ofSubflows(of{source, name, c.Buffer}, 0, lossOf)
			switch {
			case !known || !knownToo:
				return false, notMeasured
			case source != c.Source && other >= own:
				return false, fmt.Sprintf("with %s it loses %.2f %%, %s %.2f %%", name, 100*own, source,
					100*other)
			}
		}
	}
	return true, "it loses more than the others in each mode"
}

// rtts are the medians of the paths of the mode with all of them.
func (j *judged) rtts(c *Case) (all [mostPaths]float64, known bool) {
	for i := range all {
		if all[i], known = j.ofSubflows(c.of(c.mode(mostPaths)), i+1, rttOf); !known {
			return all, false
		}
	}
	return all, true
}

func (j *judged) fourthIsFar(c *Case) (bool, string) {
	rtts, known := j.rtts(c)
	if !known {
		return false, notMeasured
	}
	others := slices.Max(rtts[:3])
	return rtts[3] >= j.by.MuchHigher*others,
		fmt.Sprintf("its RTT is %.0f ms, of the others at most %.0f ms", 1e3*rtts[3], 1e3*others)
}

func (j *judged) thirdIsFarther(c *Case) (bool, string) {
	rtts, known := j.rtts(c)
	if !known {
		return false, notMeasured
	}
	others := max(rtts[0], rtts[1])
	return rtts[2] > others, fmt.Sprintf("its RTT is %.0f ms, of the first two at most %.0f ms", 1e3*rtts[2],
		1e3*others)
}

func (j *judged) fourthCarriesNothing(c *Case) (bool, string) {
	share, known := j.ofSubflows(c.of(c.mode(mostPaths)), mostPaths, shareOf)
	if !known {
		return false, notMeasured
	}
	return share <= j.by.NullShare, fmt.Sprintf("it carries %.1f %%", 100*share)
}

func (j *judged) firstCarriesMost(c *Case) (bool, string) {
	for paths := 2; paths <= mostPaths; paths++ {
		first, known := j.ofSubflows(c.of(c.mode(paths)), 1, shareOf)
		for other := 2; other <= paths; other++ {
			share, knownToo := j.ofSubflows(c.of(c.mode(paths)), other, shareOf)
			switch {
			case !known || !knownToo:
				return false, notMeasured
			case share >= first:
				return false, fmt.Sprintf("of %d paths the first carries %.0f %%, path %d %.0f %%",
					paths, 100*first, other, 100*share)
			}
		}
	}
	return true, "the first path carries most of two, three and four"
}
