// SPDX-License-Identifier: Apache-2.0

package temptcp

// Medians of what was measured, which relations are judged by and figures drawn of.

import (
	"cmp"
	"math"
	"slices"

	"loci/lab/bench/report"
)

// of says which transfers are meant.
type of struct {
	source string
	mode   string
	buffer int
}

// find are those transfers, without those of the sweep.
func (d *Document) find(o of) (found []*Transfer) {
	for i := range d.Transfers {
		if t := &d.Transfers[i]; t.Swept == nil && t.Source == o.source && t.Mode == o.mode &&
			t.Buffer == o.buffer {
			found = append(found, t)
		}
	}
	return found
}

func median(all []float64) (float64, bool) {
	return report.SpreadOf(all).Median, len(all) > 0
}

// gain is by how much one mode carries more than another, round by round: both of a round have the same RTTs.
func (d *Document) gain(o of, mode, to string) (float64, bool) {
	base := map[int]float64{}
	for _, t := range d.find(of{o.source, to, o.buffer}) {
		base[t.Round] = t.Goodput
	}
	var all []float64
	for _, t := range d.find(of{o.source, mode, o.buffer}) {
		if base[t.Round] > 0 {
			all = append(all, t.Goodput/base[t.Round]-1)
		}
	}
	return median(all)
}

// ofSubflows is the median of a figure of all subflows, or of those of one path.
func (d *Document) ofSubflows(o of, path int, figure func(*Subflow) float64) (float64, bool) {
	var all []float64
	for _, t := range d.find(o) {
		for i := range t.Subflows {
			if s := &t.Subflows[i]; path == 0 || s.Number == path {
				all = append(all, figure(s))
			}
		}
	}
	return median(all)
}

func lossOf(s *Subflow) float64  { return s.Loss }
func shareOf(s *Subflow) float64 { return s.Share }
func rttOf(s *Subflow) float64   { return float64(s.RTT) }

// spearman is the correlation of two rows of numbers by their ranks.
func spearman(x, y []float64) (float64, bool) {
	if len(x) < 3 {
		return 0, false
	}
	a, b := ranks(x), ranks(y)
	mean := float64(len(x)+1) / 2
	var both, ofX, ofY float64
	for i := range a {
		both += (a[i] - mean) * (b[i] - mean)
		ofX += (a[i] - mean) * (a[i] - mean)
		ofY += (b[i] - mean) * (b[i] - mean)
	}
	if ofX == 0 || ofY == 0 { // all are equal
		return 0, false
	}
	return both / math.Sqrt(ofX*ofY), true
}

// ranks are from 1; equal values share the mean of theirs.
func ranks(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	all := make([]float64, len(v))
	for from := 0; from < len(order); {
		to := from
		for to < len(order) && v[order[to]] == v[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			all[i] = float64(from+1+to) / 2
		}
		from = to
	}
	return all
}
