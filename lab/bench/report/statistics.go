// SPDX-License-Identifier: Apache-2.0

// What many rounds say together: median, spread, and an interval that holds the true median with a known confidence,
// whatever the distribution is (it comes from the order of the samples alone). It never drops an outlier.

package report

import (
	"math"
	"slices"
)

// wantedConfidence is what the interval reaches when there are samples enough for it: six.
const wantedConfidence = 0.95

// Spread sums up the samples of all rounds.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
	// Low and High hold the true median with the probability Confidence.
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"`
}

// SpreadOf needs at least one sample; of none it is all zero.
func SpreadOf(samples []float64) Spread {
	if len(samples) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	left, confidence := intervalOf(n)
	return Spread{
		Min: sorted[0], Max: sorted[n-1], Median: (sorted[(n-1)/2] + sorted[n/2]) / 2,
		Low: sorted[left], High: sorted[n-1-left], Confidence: confidence,
	}
}

// intervalOf returns how many samples may be left out at each end so that what is between still holds the median with the
// wanted confidence, and the confidence that is reached. Each sample is above the median with probability one half, so the
// number of samples below it follows the binomial distribution.
func intervalOf(n int) (left int, confidence float64) {
	term := math.Pow(0.5, float64(n)) // probability of exactly `left` samples below
	below := term
	confidence = 1 - 2*below
	for left+1 < (n+1)/2 {
		term *= float64(n-left) / float64(left+1)
		if 1-2*(below+term) < wantedConfidence {
			break
		}
		below += term
		left++
		confidence = 1 - 2*below
	}
	return left, max(0, confidence)
}

// Percentile returns the smallest value that at least the given share of the sorted values does not exceed.
func Percentile(sorted []float64, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	place := int(math.Ceil(share*float64(len(sorted)))) - 1
	return sorted[min(max(place, 0), len(sorted)-1)]
}

// ratiosOf divides round by round: what disturbs the machine for longer than a round disturbs both. A round in which
// a difference came out negative, or nothing was there to compare with, has no ratio.
func ratiosOf(of, to []float64) []float64 {
	var all []float64
	for i := range min(len(of), len(to)) {
		if to[i] > 0 && of[i] >= 0 {
			all = append(all, of[i]/to[i])
		}
	}
	return all
}

// DifferencesOf are by how much more each sample is than the one of the same round: what disturbs a round disturbs both.
func DifferencesOf(of, from []float64) []float64 {
	var all []float64
	for i := range min(len(of), len(from)) {
		all = append(all, of[i]-from[i])
	}
	return all
}

// geometricMeans are those over all cells, round by round, of the rounds that all of them have.
func geometricMeans(cells [][]float64) []float64 {
	if len(cells) == 0 {
		return nil
	}
	rounds := len(cells[0])
	for _, samples := range cells {
		rounds = min(rounds, len(samples))
	}
	var all []float64
	for round := range rounds {
		sum := 0.0
		for _, samples := range cells {
			sum += math.Log(samples[round])
		}
		all = append(all, math.Exp(sum/float64(len(cells))))
	}
	return all
}
