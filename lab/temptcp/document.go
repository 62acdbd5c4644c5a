// SPDX-License-Identifier: Apache-2.0

package temptcp

// What a run found, as one JSON object. Its keys are an interface: they are added to, not changed.

import (
	"loci/internal/jsondoc"
	"loci/lab/bench/report"
)

// Document is the result of a run.
type Document struct {
	Name              string             `json:"name"`
	Environment       report.Environment `json:"environment"`
	Engine            string             `json:"engine"`
	Seed              uint64             `json:"seed"`
	Rounds            int                `json:"rounds"`
	Lasts             jsondoc.Seconds    `json:"transfer_seconds"`
	CongestionControl string             `json:"congestion_control"`
	Scheduler         string             `json:"scheduler"` // of Multipath TCP, with what it is
	Took              jsondoc.Seconds    `json:"took_seconds"`
	// WiresLate is how much later than asked for the links delivered packets, at the 99th percentile, the worst of
	// them.
	WiresLate  jsondoc.Seconds `json:"wires_late_seconds"`
	RoundTrips []RoundTrip     `json:"round_trips"` // that were drawn
	Choices    []Choice        `json:"choices"`
	Transfers  []Transfer      `json:"transfers"`
	Relations  []Verdict       `json:"relations"`
	Deviations []string        `json:"deviations"` // packets on other paths than their subflow's
	Error      string          `json:"error"`
}

// RoundTrip is what a round drew for a pair of sites.
type RoundTrip struct {
	Round   int             `json:"round"`
	Between []string        `json:"between"`
	RTT     jsondoc.Seconds `json:"rtt_seconds"`
}

// Choice is what `loci te choose` would have taken in a round, beside the paper's paths.
type Choice struct {
	Round        int             `json:"round"`
	Source       string          `json:"source"`
	Paths        int             `json:"paths"`
	Chosen       []string        `json:"chosen"` // each by the sites of its RTRs
	Differential jsondoc.Seconds `json:"differential_rtt_seconds"`
	Reason       string          `json:"reason"` // or why there is no set
	// Papers are the paper's paths, and PapersDifferential their differential RTT.
	Papers             []string        `json:"papers"`
	PapersDifferential jsondoc.Seconds `json:"papers_differential_rtt_seconds"`
}

// Transfer is one transfer.
type Transfer struct {
	Source  string  `json:"source"`
	Mode    string  `json:"mode"` // SD, SL1 to SL4, SF1 to SF4
	Buffer  int     `json:"receive_buffer_octets"`
	Round   int     `json:"round"`
	Goodput float64 `json:"goodput_bits_per_second"`
	// Swept is by how much the RTT of the second path was made longer than the first one's; nil outside the sweep.
	Swept    *jsondoc.Seconds `json:"swept_seconds"`
	Wanted   int              `json:"subflows_wanted"`
	Subflows []Subflow        `json:"subflows"` // in the order of their paths
}

// Subflow is what one subflow of a transfer was like.
type Subflow struct {
	Number int             `json:"number"`      // of its path; without RTRs, of itself
	By     string          `json:"path"`        // the site of its RTR; empty without
	Back   string          `json:"return_path"` // the same of what comes back
	RTT    jsondoc.Seconds `json:"mean_rtt_seconds"`
	Acked  uint64          `json:"acked_octets"`
	Share  float64         `json:"share"` // of what all subflows of the transfer had acknowledged
	Loss   float64         `json:"loss"`  // segments sent again, of all segments

	flow flow
}

// differential is the least difference of RTT between two subflows.
func (t *Transfer) differential() (least float64, known bool) {
	for i, a := range t.Subflows {
		for _, b := range t.Subflows[:i] {
			if d := max(a.RTT, b.RTT) - min(a.RTT, b.RTT); !known || float64(d) < least {
				least, known = float64(d), true
			}
		}
	}
	return least, known
}

// Verdict is what was found of one relation of the paper.
type Verdict struct {
	Relation string `json:"relation"`
	Paper    string `json:"paper"`   // its words
	Verdict  string `json:"verdict"` // reproduced, not, or depends
	Text     string `json:"text"`
	Cases    []Case `json:"cases"`
}

// Case is a relation for one source, receive buffer and binding.
type Case struct {
	Source  string `json:"source"`
	Buffer  int    `json:"receive_buffer_octets"`
	Binding string `json:"binding"` // empty where it is of both
	Holds   bool   `json:"holds"`
	Found   string `json:"found"`
}
