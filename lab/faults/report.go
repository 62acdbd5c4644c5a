// SPDX-License-Identifier: Apache-2.0

package faults

// What a run says in the end: a page of text, or one JSON object.

import (
	"fmt"
	"io"
	"net/netip"

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
		Recovered: jsondoc.SecondsOf(r.Recovered), Faults: []FaultDocument{}, Losses: []LossDocument{}, Wrong: []WrongDocument{}, NotBack: append([]string{}, r.NotBack...),
	}
	for _, f := range r.Faults {
		d.Faults = append(d.Faults, FaultDocument{f.Kind, f.Target, jsondoc.SecondsOf(f.From), jsondoc.SecondsOf(f.To)})
	}
	for _, l := range r.Losses {
		d.Losses = append(d.Losses, LossDocument{l.Stream, jsondoc.SecondsOf(l.At), l.Packets, l.LastDone})
	}
	for _, w := range r.Wrong {
		d.Wrong = append(d.Wrong, WrongDocument{jsondoc.SecondsOf(w.At), w.Host, w.Sender, w.What})
	}
	return d
}

// Write prints the text form.
func (r *Report) Write(to io.Writer) {
	fmt.Fprintf(to, "%d faults in %s; %d datagrams of known mappings, %d of them lost by cut links and smaller MTUs", len(r.Faults), r.Duration, r.Sent, r.Excused)
	if len(r.NotBack) == 0 {
		fmt.Fprintf(to, "; all back %.1f s after a fault at the latest", r.Recovered.Seconds())
	}
	fmt.Fprintln(to)
	for _, l := range r.Losses {
		fmt.Fprintf(to, "lost without a cause: %d datagrams from %s at %.1f s, after %s\n", l.Packets, l.Stream, l.At.Seconds(), l.LastDone)
	}
	for _, w := range r.Wrong {
		fmt.Fprintf(to, "wrong delivery: at %.1f s %s reached %s from %s\n", w.At.Seconds(), w.What, w.Host, w.Sender)
	}
	for _, f := range r.NotBack {
		fmt.Fprintf(to, "not all pairs of hosts were back %s after %s\n", recovery, f)
	}
	if r.Failed() != nil {
		fmt.Fprintf(to, "again: loci lab run faults --seed %d --duration %s --engine %s\n", r.Seed, r.Duration, r.Engine)
	}
}
