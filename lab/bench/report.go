// SPDX-License-Identifier: Apache-2.0

// What a bench found, as one JSON object. Its keys are an interface: they are added to, not changed.

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Report is the result of one bench.
type Report struct {
	Name        string      `json:"name"`
	Environment Environment `json:"environment"`
	Rounds      int         `json:"rounds"`
	Seconds     float64     `json:"seconds"` // that the bench took, building included
	Results     []Result    `json:"results"`
	Ratios      []Ratio     `json:"ratios"`
	Targets     []Target    `json:"targets"`
	Error       string      `json:"error,omitempty"`
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
}

// Target is what must be reached.
type Target struct {
	Name     string  `json:"name"`
	Target   string  `json:"target"` // such as "≥ 1.2"
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
	// Open says why the figure does not decide: the target is then neither met nor missed.
	Open string `json:"open,omitempty"`
}

// sample is what one round adds to a Result.
type sample struct {
	metric, unit string
	value        float64
}

// add files the samples of one round.
func (r *Report) add(caseName, arm string, samples []sample) {
	for _, s := range samples {
		result := r.find(caseName, arm, s.metric)
		if result == nil {
			r.Results = append(r.Results, Result{Case: caseName, Arm: arm, Metric: s.metric, Unit: s.unit})
			result = &r.Results[len(r.Results)-1]
		}
		result.Samples = append(result.Samples, s.value)
	}
}

func (r *Report) find(caseName, arm, metric string) *Result {
	i := slices.IndexFunc(r.Results, func(x Result) bool {
		return x.Case == caseName && x.Arm == arm && x.Metric == metric
	})
	if i < 0 {
		return nil
	}
	return &r.Results[i]
}

// sumUp computes the medians when all rounds are done.
func (r *Report) sumUp() {
	for i := range r.Results {
		result := &r.Results[i]
		result.Spread = spreadOf(result.Samples)
		result.Value = result.Median
		r.Rounds = max(r.Rounds, len(result.Samples))
	}
}

// compare adds the ratio of two arms in every case that has both.
func (r *Report) compare(metric, of, to string) {
	for _, result := range r.Results {
		base := r.find(result.Case, to, metric)
		if result.Metric != metric || result.Arm != of || base == nil {
			continue
		}
		r.Ratios = append(r.Ratios, Ratio{
			Case: result.Case, Metric: metric, Of: of, To: to, Spread: spreadOf(ratiosOf(result.Samples, base.Samples)),
		})
	}
}

// bound is one side of a comparison with a target.
type bound struct {
	limit  float64
	atMost bool
}

func atLeast(limit float64) bound { return bound{limit: limit} }
func atMost(limit float64) bound  { return bound{limit: limit, atMost: true} }

// wantRatio demands a bound of a ratio in every case that was measured.
func (r *Report) wantRatio(metric, of, to string, b bound) { r.wantRatioIn("", metric, of, to, b) }

// wantRatioIn is wantRatio for the cases whose names begin like that.
func (r *Report) wantRatioIn(cases, metric, of, to string, b bound) {
	for _, ratio := range r.Ratios {
		if strings.HasPrefix(ratio.Case, cases) && ratio.Metric == metric && ratio.Of == of && ratio.To == to {
			r.want(fmt.Sprintf("%s: %s of %s / %s", ratio.Case, metric, of, to), ratio.Median, b)
		}
	}
}

// want judges one figure.
func (r *Report) want(name string, measured float64, b bound) {
	sign, met := "≥", measured >= b.limit
	if b.atMost {
		sign, met = "≤", measured <= b.limit
	}
	r.Targets = append(r.Targets, Target{Name: name, Target: fmt.Sprintf("%s %g", sign, b.limit), Measured: measured, Met: met})
}

// leaveOpen says why the latest target is not decided.
func (r *Report) leaveOpen(reason string) {
	latest := &r.Targets[len(r.Targets)-1]
	latest.Met, latest.Open = false, reason
}

// Missed returns the targets that were not met.
func (r *Report) Missed() []Target {
	return slices.DeleteFunc(slices.Clone(r.Targets), func(t Target) bool { return t.Met || t.Open != "" })
}

// Print writes the object.
func (r *Report) Print(out io.Writer) error {
	r.Results, r.Ratios, r.Targets = emptyNotNull(r.Results), emptyNotNull(r.Ratios), emptyNotNull(r.Targets)
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("print the report: %w", err)
	}
	return nil
}

func emptyNotNull[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
