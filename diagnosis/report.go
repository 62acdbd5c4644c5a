// SPDX-License-Identifier: Apache-2.0

package diagnosis

// What `loci ping` and `loci netcheck` find: steps in their order, each with an outcome, and a reason and a remedy where it failed.

import (
	"loci/internal/jsondoc"
	"loci/lisp"
)

// Outcome is what became of a step.
type Outcome string

// The outcomes.
const (
	OutcomeOK       Outcome = "ok"
	OutcomeFailed   Outcome = "failed"
	OutcomeWarning  Outcome = "warning"   // it works, and may not for others
	OutcomeNotTried Outcome = "not-tried" // reason says why; it is no failure
	OutcomeUnknown  Outcome = "unknown"   // it was tried, and does not show it; no failure either
)

// Verdicts of a report, beside those of its steps.
const VerdictIncomplete = "incomplete" // nothing failed, and what matters could not be tried

// Step is one leg of a ping, or one check.
type Step struct {
	Name    string  `json:"name"`
	Subject string  `json:"subject"`
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail"` // what was seen
	Reason  string  `json:"reason"`
	Remedy  string  `json:"remedy"`
}

// Report is what a command finds.
type Report struct {
	Verdict string `json:"verdict"` // ok, failed or incomplete
	Steps   []Step `json:"steps"`
}

// add appends a step.
func (r *Report) add(s Step) {
	r.Steps = append(r.Steps, s)
	if s.Outcome == OutcomeFailed {
		r.Verdict = string(OutcomeFailed)
	}
}

// addEssential appends a step without which nothing is known to work: not tried, it makes the report incomplete.
func (r *Report) addEssential(s Step) {
	r.add(s)
	if s.Outcome == OutcomeNotTried && r.Verdict == string(OutcomeOK) {
		r.Verdict = VerdictIncomplete
	}
}

// Incomplete reports whether no step failed, and one that matters was not tried.
func (r *Report) Incomplete() bool { return r.Verdict == VerdictIncomplete }

// Failed reports whether a step failed.
func (r *Report) Failed() bool { return r.Verdict == string(OutcomeFailed) }

// PingReport is what `loci ping` finds.
type PingReport struct {
	EID        lisp.EID        `json:"eid"`
	InstanceID lisp.InstanceID `json:"instance_id"`
	Source     string          `json:"source"` // EID of the echo requests; empty where none were sent
	FailedLeg  string          `json:"failed_leg"`
	Report
	MapResolver string          `json:"map_resolver"` // that answered
	EIDPrefix   string          `json:"eid_prefix"`   // of the mapping
	Locators    []LocatorResult `json:"locators"`
	Echo        EchoResult      `json:"echo"`
}

// LocatorResult is what an RLOC-probe found.
type LocatorResult struct {
	RLOC      string           `json:"rloc"`
	Answered  bool             `json:"answered"`
	RoundTrip *jsondoc.Seconds `json:"round_trip_seconds"` // null without an answer
	State     string           `json:"state"`              // as the daemon has it; empty where it has none
	Reason    string           `json:"reason"`             // of no answer
}

// EchoResult sums up the echo requests.
type EchoResult struct {
	Sent             int              `json:"sent"`
	Received         int              `json:"received"`
	RoundTripMin     *jsondoc.Seconds `json:"round_trip_min_seconds"`
	RoundTripAverage *jsondoc.Seconds `json:"round_trip_average_seconds"`
	RoundTripMax     *jsondoc.Seconds `json:"round_trip_max_seconds"`
	LargestOctets    int              `json:"largest_octets"` // of an IP packet that came back
}
