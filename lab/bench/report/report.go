// SPDX-License-Identifier: Apache-2.0

// What a bench found, as one JSON object. Its keys are an interface: they are added to, not changed.

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"loci/internal/jsondoc"
)

// Report is the result of one bench.
type Report struct {
	Name        string          `json:"name"`
	Environment Environment     `json:"environment"`
	Rounds      int             `json:"rounds"`
	Took        jsondoc.Seconds `json:"took_seconds"` // that the bench took, building included
	Results     []Result        `json:"results"`
	Ratios      []Ratio         `json:"ratios"`
	Targets     []Target        `json:"targets"`
	Error       string          `json:"error"`
}

// Result is one figure of one arm in one case.
type Result struct {
	Case   string  `json:"case"`
	Arm    string  `json:"arm"`
	Metric string  `json:"metric"`
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"` // the median again
	Spread
	Samples []float64 `json:"samples"` // one for each round, in their order
}

// Ratio compares two arms of a case, round by round.
type Ratio struct {
	Case   string `json:"case"`
	Metric string `json:"metric"`
	Of     string `json:"of"`
	To     string `json:"to"`
	Spread

	samples []float64 // one for each round
}

// Target is what must be reached.
type Target struct {
	Name     string  `json:"name"`
	Target   string  `json:"target"` // such as "≥ 1.2"
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
	// Open says why the figure does not decide: the target is then neither met nor missed.
	Open string `json:"open"`
}

// Sample is what one round adds to a Result.
type Sample struct {
	Metric, Unit string
	Value        float64
}

// Figure is a sample.
func Figure(metric, unit string, value float64) Sample {
	return Sample{Metric: metric, Unit: unit, Value: value}
}

// Add files the samples of one round.
func (r *Report) Add(caseName, arm string, samples []Sample) {
	for _, s := range samples {
		result := r.Find(caseName, arm, s.Metric)
		if result == nil {
			r.Results = append(r.Results, Result{Case: caseName, Arm: arm, Metric: s.Metric, Unit: s.Unit})
			result = &r.Results[len(r.Results)-1]
		}
		result.Samples = append(result.Samples, s.Value)
	}
}

// Find returns one figure of one arm in one case, nil when it was not measured.
func (r *Report) Find(caseName, arm, metric string) *Result {
	i := slices.IndexFunc(r.Results, func(x Result) bool {
		return x.Case == caseName && x.Arm == arm && x.Metric == metric
	})
	if i < 0 {
		return nil
	}
	return &r.Results[i]
}

// SumUp computes the medians when all rounds are done.
func (r *Report) SumUp() {
	for i := range r.Results {
		result := &r.Results[i]
		result.Spread = SpreadOf(result.Samples)
		result.Value = result.Median
		r.Rounds = max(r.Rounds, len(result.Samples))
	}
}

// Compare adds the ratio of two arms in every case that has both.
func (r *Report) Compare(metric, of, to string) {
	for _, result := range r.Results {
		base := r.Find(result.Case, to, metric)
		if result.Metric != metric || result.Arm != of || base == nil {
			continue
		}
		r.CompareCell(result, *base)
	}
}

// CompareCell adds the ratio of one figure to another, sample by sample.
func (r *Report) CompareCell(of, to Result) {
	samples := ratiosOf(of.Samples, to.Samples)
	r.Ratios = append(r.Ratios, Ratio{
		Case: of.Case, Metric: of.Metric, Of: of.Arm, To: to.Arm, Spread: SpreadOf(samples), samples: samples,
	})
}

// MeanRatio adds the geometric mean over all cells of a metric, round by round.
func (r *Report) MeanRatio(caseName, metric, of, to string) {
	var cells [][]float64
	for _, ratio := range r.Ratios {
		if ratio.Metric == metric {
			cells = append(cells, ratio.samples)
		}
	}
	r.Ratios = append(r.Ratios, Ratio{
		Case: caseName, Metric: metric, Of: of, To: to, Spread: SpreadOf(geometricMeans(cells)),
	})
}

// Bound is one side of a comparison with a target.
type Bound struct {
	limit  float64
	atMost bool
}

// AtLeast is met by the limit and more.
func AtLeast(limit float64) Bound { return Bound{limit: limit} }

// AtMost is met by the limit and less.
func AtMost(limit float64) Bound { return Bound{limit: limit, atMost: true} }

// WantRatio demands a bound of a ratio in every case that was measured.
func (r *Report) WantRatio(metric, of, to string, b Bound) { r.WantRatioIn("", metric, of, to, b) }

// WantRatioIn is wantRatio for the cases whose names begin like that.
func (r *Report) WantRatioIn(cases, metric, of, to string, b Bound) {
	for _, ratio := range r.Ratios {
		if strings.HasPrefix(ratio.Case, cases) && ratio.Metric == metric && ratio.Of == of && ratio.To == to {
			r.Want(fmt.Sprintf("%s: %s of %s / %s", ratio.Case, metric, of, to), ratio.Median, b)
		}
	}
}

// Want judges one figure.
func (r *Report) Want(name string, measured float64, b Bound) {
	sign, met := "≥", measured >= b.limit
	if b.atMost {
		sign, met = "≤", measured <= b.limit
	}
	r.Targets = append(r.Targets, Target{Name: name, Target: fmt.Sprintf("%s %.4g", sign, b.limit), Measured: measured, Met: met})
}

// LeaveOpen says why the latest target is not decided.
func (r *Report) LeaveOpen(reason string) {
	latest := &r.Targets[len(r.Targets)-1]
	latest.Met, latest.Open = false, reason
}

// Missed returns the targets that were not met.
func (r *Report) Missed() []Target {
	return slices.DeleteFunc(slices.Clone(r.Targets), func(t Target) bool { return t.Met || t.Open != "" })
}

// Print writes the object.
func (r *Report) Print(out io.Writer) error {
	if err := jsondoc.WriteIndented(out, r); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return nil
}
