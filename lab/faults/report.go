// SPDX-License-Identifier: Apache-2.0

package faults

// What a run says in the end: a page of text, or one JSON object.

import (
	"fmt"
	"io"
	"net/netip"
	"strings"

	"loci/internal/jsondoc"
)

// Document is a Report as JSON.
type Document struct {
	Seed      uint64          `json:"seed"`
	Engine    string          `json:"engine"`
	Duration  jsondoc.Seconds `json:"duration_seconds"`
	Passed    bool            `json:"passed"`
	Sent      int             `json:"sent"`    // datagrams of known mappings
	Excused   int             `json:"excused"` // of those, lost by a cut link or a smaller MTU
	Recovered jsondoc.Seconds `json:"longest_recovery_seconds"`
	Faults    []FaultDocument `json:"faults"`
	Losses    []LossDocument  `json:"losses"`
	Wrong     []WrongDocument `json:"wrong_deliveries"`
	NotBack   []string        `json:"not_back"`

	Verdicts []VerdictDocument `json:"verdicts"`
}

// VerdictDocument is a Verdict.
type VerdictDocument struct {
	Kind    string          `json:"kind"`
	Target  string          `json:"target"`
	Passed  bool            `json:"passed"`
	By      string          `json:"reported_by"` // empty: no daemon, in time
	After   jsondoc.Seconds `json:"reported_after_seconds"`
	Healthy jsondoc.Seconds `json:"healthy_after_seconds"` // since its end
	Late    []string        `json:"late_problems"`
}

// FaultDocument is a fault that was.
type FaultDocument struct {
	Kind   string          `json:"kind"`
	Target string          `json:"target"`
	From   jsondoc.Seconds `json:"from_seconds"`
	To     jsondoc.Seconds `json:"to_seconds"`
}

// LossDocument is a Loss.
type LossDocument struct {
	Stream string          `json:"stream"`
	At     jsondoc.Seconds `json:"at_seconds"`
	Lost   int             `json:"packets"`
	Large  int             `json:"large_packets"` // of them
	After  string          `json:"after"`
}

// WrongDocument is a Wrong.
type WrongDocument struct {
	At     jsondoc.Seconds `json:"at_seconds"`
	Host   netip.Addr      `json:"host"`
	Sender netip.Addr      `json:"sender"`
	What   string          `json:"what"`
}

// Document makes the JSON form.
func (r *Report) Document() Document {
	d := Document{
		Seed: r.Seed, Engine: string(r.Engine), Duration: jsondoc.SecondsOf(r.Duration), Passed: r.Failed() == nil, Sent: r.Sent, Excused: r.Excused,
		Recovered: jsondoc.SecondsOf(r.Recovered), Faults: []FaultDocument{}, Losses: lossDocuments(r.Losses), Wrong: wrongDocuments(r.Wrong), NotBack: append([]string{}, r.NotBack...),
	}
	for _, f := range r.Faults {
		d.Faults = append(d.Faults, FaultDocument{f.Kind, f.Target, jsondoc.SecondsOf(f.From), jsondoc.SecondsOf(f.To)})
	}
	d.Verdicts = []VerdictDocument{}
	for _, v := range r.Verdicts {
		d.Verdicts = append(d.Verdicts, VerdictDocument{v.Kind, v.Target, !v.failed(), v.By, jsondoc.SecondsOf(v.After), jsondoc.SecondsOf(v.Healthy), append([]string{}, v.Late...)})
	}
	return d
}

// CutDocument is what came of control-cut, as JSON.
type CutDocument struct {
	Engine   string               `json:"engine"`
	Passed   bool                 `json:"passed"`
	Sent     int                  `json:"sent"` // datagrams of all variants
	Lost     int                  `json:"lost"`
	Variants []CutVariantDocument `json:"variants"`
}

// CutVariantDocument is a CutReport.
type CutVariantDocument struct {
	Variant  string          `json:"variant"`
	Duration jsondoc.Seconds `json:"dropped_seconds"`
	Passed   bool            `json:"passed"`
	Sent     int             `json:"sent"`
	Lost     int             `json:"lost"`
	Excused  int             `json:"excused"` // lost as well, because a provider was dead
	Losses   []LossDocument  `json:"losses"`
	Wrong    []WrongDocument `json:"wrong_deliveries"`
}

// DocumentOfCuts makes the JSON form of variants of control-cut.
func DocumentOfCuts(engine string, reports []*CutReport) CutDocument {
	d := CutDocument{Engine: engine, Passed: true, Variants: []CutVariantDocument{}}
	for _, r := range reports {
		v := CutVariantDocument{
			Variant: r.Cut.Name, Duration: jsondoc.SecondsOf(r.Cut.lasts), Passed: r.Failed() == nil, Sent: r.Sent, Lost: r.Lost, Excused: r.Excused,
			Losses: lossDocuments(r.Losses), Wrong: wrongDocuments(r.Wrong),
		}
		d.Passed, d.Sent, d.Lost = d.Passed && v.Passed, d.Sent+v.Sent, d.Lost+v.Lost
		d.Variants = append(d.Variants, v)
	}
	return d
}

func lossDocuments(losses []Loss) []LossDocument {
	list := []LossDocument{}
	for _, l := range losses {
		list = append(list, LossDocument{l.Stream, jsondoc.SecondsOf(l.At), l.Packets, l.Large, l.LastDone})
	}
	return list
}

func wrongDocuments(wrong []Wrong) []WrongDocument {
	list := []WrongDocument{}
	for _, w := range wrong {
		list = append(list, WrongDocument{jsondoc.SecondsOf(w.At), w.Host, w.Sender, w.What})
	}
	return list
}

// Write prints the text form.
func (r *CutReport) Write(to io.Writer) {
	fmt.Fprintf(to, "%s: %d datagrams, %d lost", r.Cut.Name, r.Sent, r.Lost)
	if r.Excused > 0 {
		fmt.Fprintf(to, ", and %d by the dead provider", r.Excused)
	}
	fmt.Fprintln(to)
	for _, l := range r.Losses {
		fmt.Fprintf(to, "lost: %d datagrams (%d large) from %s at %.1f s, after %s\n", l.Packets, l.Large, l.Stream, l.At.Seconds(), l.LastDone)
	}
	for _, w := range r.Wrong {
		fmt.Fprintf(to, "wrong delivery: at %.1f s %s reached %s from %s\n", w.At.Seconds(), w.What, w.Host, w.Sender)
	}
}

// Write prints the text form.
func (r *Report) Write(to io.Writer) {
	fmt.Fprintf(to, "%d faults in %s; %d datagrams of known mappings, %d of them lost by cut links and smaller MTUs", len(r.Faults), r.Duration, r.Sent, r.Excused)
	if len(r.NotBack) == 0 {
		fmt.Fprintf(to, "; all back %.1f s after a fault at the latest", r.Recovered.Seconds())
	}
	fmt.Fprintln(to)
	for _, l := range r.Losses {
		fmt.Fprintf(to, "lost without a cause: %d datagrams (%d large) from %s at %.1f s, after %s\n", l.Packets, l.Large, l.Stream, l.At.Seconds(), l.LastDone)
	}
	for _, w := range r.Wrong {
		fmt.Fprintf(to, "wrong delivery: at %.1f s %s reached %s from %s\n", w.At.Seconds(), w.What, w.Host, w.Sender)
	}
	for _, v := range r.Verdicts {
		if v.failed() {
			fmt.Fprintf(to, "%s %s: reported by %q, late: %s\n", v.Kind, v.Target, v.By, strings.Join(v.Late, ", "))
		}
	}
	for _, f := range r.NotBack {
		fmt.Fprintf(to, "not all pairs of hosts were back %s after %s\n", recovery, f)
	}
	if r.Failed() != nil {
		fmt.Fprintf(to, "again: loci lab run faults --seed %d --duration %s --engine %s\n", r.Seed, r.Duration, r.Engine)
	}
}
