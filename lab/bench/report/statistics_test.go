// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"testing"
)

func TestSpreadOf(t *testing.T) {
	ascending := func(n int) []float64 {
		var all []float64
		for i := range n {
			all = append(all, float64(n-i)) // in the wrong order
		}
		return all
	}
	for _, c := range []struct {
		name    string
		samples []float64
		want    Spread
	}{
		{"none", nil, Spread{}},
		{"one", []float64{7}, Spread{Min: 7, Median: 7, Max: 7, Low: 7, High: 7}},
		{"two", []float64{4, 2}, Spread{Min: 2, Median: 3, Max: 4, Low: 2, High: 4, Confidence: 0.5}},
		{"five", ascending(5), Spread{Min: 1, Median: 3, Max: 5, Low: 1, High: 5, Confidence: 0.9375}},
		{"six", ascending(6), Spread{Min: 1, Median: 3.5, Max: 6, Low: 1, High: 6, Confidence: 0.96875}},
		// Order statistics 4 and 12 of 15: 1 - 2 * (1 + 15 + 105 + 455) / 32768.
		{"fifteen", ascending(15), Spread{Min: 1, Median: 8, Max: 15, Low: 4, High: 12, Confidence: 1 - 2*576.0/32768}},
	} {
		got := SpreadOf(c.samples)
		if math.Abs(got.Confidence-c.want.Confidence) > 1e-9 {
			t.Errorf("%s: confidence %v, want %v", c.name, got.Confidence, c.want.Confidence)
		}
		got.Confidence = c.want.Confidence
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestSpreadOfLeavesItsSamplesInOrder(t *testing.T) {
	samples := []float64{3, 1, 2}
	SpreadOf(samples)
	if !slices.Equal(samples, []float64{3, 1, 2}) {
		t.Errorf("the samples are now %v", samples)
	}
}

func TestPercentile(t *testing.T) {
	sorted := []float64{10, 20, 30, 40}
	for _, c := range []struct{ share, want float64 }{{0, 10}, {0.25, 10}, {0.5, 20}, {0.51, 30}, {0.99, 40}, {1, 40}} {
		if got := Percentile(sorted, c.share); got != c.want {
			t.Errorf("percentile %v: %v, want %v", c.share, got, c.want)
		}
	}
	if got := Percentile(nil, 0.5); got != 0 {
		t.Errorf("percentile of nothing: %v", got)
	}
}

func TestRatiosOf(t *testing.T) {
	if got := ratiosOf([]float64{1, 4, -1, 9}, []float64{2, 0, 2}); !slices.Equal(got, []float64{0.5}) {
		t.Errorf("%v, want one ratio: of what has a partner that is not zero", got)
	}
}

// Both were slower in the second round: what one adds to the other is 5, not the difference of medians, 4.
func TestDifferencesOf(t *testing.T) {
	of, from := []float64{15, 35, 16, 99}, []float64{10, 30, 12}
	if got := DifferencesOf(of, from); !slices.Equal(got, []float64{5, 5, 4}) {
		t.Errorf("differences %v", got)
	}
}

// One cell was twice as fast, the other half as fast, in the first round; both were as fast in the second; one has no
// third.
func TestGeometricMeans(t *testing.T) {
	got := geometricMeans([][]float64{{2, 1, 7}, {0.5, 1}})
	if len(got) != 2 || math.Abs(got[0]-1) > 1e-9 || math.Abs(got[1]-1) > 1e-9 {
		t.Errorf("geometric means %v", got)
	}
	if got := geometricMeans(nil); got != nil {
		t.Errorf("geometric means of nothing: %v", got)
	}
}

// The mean over the cells of a figure leaves out those of other figures.
func TestMeanRatio(t *testing.T) {
	var r Report
	cell := func(name, metric string, samples ...float64) Result {
		return Result{Case: name, Metric: metric, Samples: samples}
	}
	r.CompareCell(cell("a", "rate", 8, 8), cell("a", "rate", 4, 4))
	r.CompareCell(cell("b", "rate", 4, 4), cell("b", "rate", 8, 2))
	r.CompareCell(cell("b", "p50", 90), cell("b", "p50", 1))
	r.MeanRatio("all", "rate", "this", "that")
	mean := r.Ratios[len(r.Ratios)-1]
	if mean.Case != "all" || math.Abs(mean.Min-1) > 1e-9 || math.Abs(mean.Max-2) > 1e-9 {
		t.Errorf("mean %+v, want 1 in the first round and 2 in the second", mean)
	}
}
