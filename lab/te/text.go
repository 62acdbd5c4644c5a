// SPDX-License-Identifier: Apache-2.0

package te

// A choice for reading, and as configuration.

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"loci/internal/table"
)

// WriteText writes graph, ages, candidates, choice and reason.
func (d *Document) WriteText(out io.Writer) error {
	fmt.Fprintf(out, "from %s to %s\n\n", d.From, d.To)
	w := table.New(out)
	w.Rows("NODE\tFILE\tAVOIDED")
	for _, n := range d.Nodes {
		w.Rows(fmt.Sprintf("%s\t%s\t%s", n.RLOC, n.File, yes(n.Avoided)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	w = table.New(out)
	w.Rows("LINK FROM\tTO\tROUND TRIP\tAGE\tMEASURED BY\tNOTE")
	for _, l := range d.Links {
		w.Rows(l.row())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	w = table.New(out)
	w.Rows("CANDIDATE\tROUND TRIP\tWITHIN RATIO\tCHOSEN\tHOPS")
	for i, p := range d.Candidates {
		w.Rows(fmt.Sprintf("%d\t%.3fms\t%s\t%s\t%s", i+1, p.RTT.Milliseconds(), yes(p.Within), yes(p.Chosen),
			hopsText(p.Hops)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, note := range d.Notes {
		fmt.Fprintf(out, "note: %s\n", note)
	}
	for _, p := range d.Chosen.Paths {
		fmt.Fprintf(out, "chosen: %s, %.3fms\n", hopsText(p.Hops), p.RTT.Milliseconds())
	}
	fmt.Fprintf(out, "differential RTT: %.3fms, from shortest to longest: %.3fms\n",
		d.Chosen.Differential.Milliseconds(), d.Chosen.Spread.Milliseconds())
	_, err := fmt.Fprintf(out, "reason: %s\n", d.Chosen.Reason)
	return err
}

func (l *LinkDocument) row() string {
	if l.RTT == nil {
		return fmt.Sprintf("%s\t%s\tno link\t\t\t%s", l.From, l.To, l.Note)
	}
	return fmt.Sprintf("%s\t%s\t%.3fms\t%s\t%s\t%s", l.From, l.To, l.RTT.Milliseconds(),
		l.Age.Duration().Round(time.Second), l.MeasuredBy, l.Note)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

// WriteYAML writes the set that was chosen as locator-sets of the configuration of the router at its end. The shortest
// path has the best priority. With strict no router skips an RTR that does not answer: the whole path is down then.
func (d *Document) WriteYAML(out io.Writer, strict bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# paths from %s to %s, by loci te choose\nlocator-sets:\n  %s:\n", d.From, d.To, d.Chosen.Name)
	for i, p := range d.Chosen.Paths {
		fmt.Fprintf(&b, "    # round trip %.3f ms\n%s      priority: %d\n", p.RTT.Milliseconds(),
			p.yaml(strict), i+1)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// yaml is the path as a locator; a path without RTRs is a plain one.
func (p *PathDocument) yaml(strict bool) string {
	last := len(p.Hops) - 1
	if last == 0 {
		return fmt.Sprintf("    - address: %s\n", yamlAddress(p.Hops[0]))
	}
	text := "    - explicit-locator-path:\n"
	for _, rtr := range p.Hops[:last] {
		if strict {
			text += fmt.Sprintf("        - {address: %s, lrs-bits: [strict]}\n", yamlAddress(rtr))
		} else {
			text += fmt.Sprintf("        - %s\n", yamlAddress(rtr))
		}
	}
	return text + fmt.Sprintf("        - %s\n", yamlAddress(p.Hops[last]))
}

// yamlAddress is an address as a value of YAML, in which a colon at the end would be a key's.
func yamlAddress(a netip.Addr) string {
	if a.Is6() {
		return `"` + a.String() + `"`
	}
	return a.String()
}
