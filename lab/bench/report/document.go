// SPDX-License-Identifier: Apache-2.0

// Tables for the documentation. What stands outside the two marks of the document is never touched.

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// The marks between which figures stand.
const (
	BeginMark = "<!-- figures: written by `make bench` -->"
	EndMark   = "<!-- end of figures -->"
)

// WriteDocument puts the tables of some reports between the marks of a Markdown file, in place of all that was there.
func WriteDocument(path string, reports []*Report) error {
	return rewrite(path, func(string) string { return "\n\n" + markdown(reports) })
}

// UpdateDocument puts the table of one report in place of its last one, and leaves those of others. Behind them it names its machine.
func UpdateDocument(path string, r *Report) error {
	return rewrite(path, func(figures string) string {
		if begin, end, found := section(figures, r.Name); found {
			figures = figures[:begin] + figures[end:]
		}
		return strings.TrimRight(figures, "\n") + "\n\n" + markdown([]*Report{r})
	})
}

// section is where the table of a bench is, with the name of its machine where nothing else is said of that one.
func section(figures, name string) (begin, end int, found bool) {
	begin = strings.Index(figures, "### "+name+": ")
	if begin < 0 {
		return 0, 0, false
	}
	end = len(figures)
	for _, next := range []string{"\n### ", "\nMachine: "} {
		if at := strings.Index(figures[begin:], next); at >= 0 {
			end = min(end, begin+at+1)
		}
	}
	if machine := strings.LastIndex(figures[:begin], "Machine: "); machine >= 0 && !strings.Contains(figures[machine:begin], "### ") && !strings.HasPrefix(figures[end:], "### ") {
		begin = machine
	}
	return begin, end, true
}

// rewrite changes what is between the marks.
func rewrite(path string, change func(figures string) string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := bytes.Index(content, []byte(BeginMark)), bytes.Index(content, []byte(EndMark))
	if begin < 0 || end < begin {
		return fmt.Errorf("%s: it has no %q followed by %q", path, BeginMark, EndMark)
	}
	var b bytes.Buffer
	b.Write(content[:begin+len(BeginMark)])
	b.WriteString(change(string(content[begin+len(BeginMark) : end])))
	b.Write(content[end:])
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// markdown has a table for each report: the targets and the ratios, those that differ in their case alone in one row. The
// machine is named where it is another one than before.
func markdown(reports []*Report) string {
	var b strings.Builder
	machine := ""
	for _, r := range reports {
		e := r.Environment
		if here := fmt.Sprintf("%s, %d cores, Linux %s", e.CPU, e.Cores, e.Kernel); here != machine {
			machine = here
			b.WriteString("Machine: " + machine + ".\n\n")
		}
		fmt.Fprintf(&b, "### %s: %s, Loci %s, load %.1f at the start, %.1f %% stolen\n\n", r.Name, e.Date, e.Loci, e.LoadAtStart, e.StolenPercent)
		b.WriteString(markdownTable(withoutEmptyColumns([]string{"figure", "cases", "wanted", "measured", "medians"}, summaries(r))) + "\n")
	}
	return b.String()
}

// summary is what cases of one ratio have in common.
type summary struct {
	ratio    Ratio
	target   Target // "" where nothing is wanted
	cases    []string
	measured []float64
	of, to   []float64 // medians of both arms
	unit     string
	missed   bool
}

// summaries are rows: ratios first, then the targets that are none.
func summaries(r *Report) (rows [][]string) {
	var groups []*summary
	inRatio := map[string]bool{}
	for _, ratio := range r.Ratios {
		name := fmt.Sprintf("%s: %s of %s / %s", ratio.Case, ratio.Metric, ratio.Of, ratio.To)
		inRatio[name] = true
		for _, target := range targetsOf(r, name) {
			i := slices.IndexFunc(groups, func(g *summary) bool {
				return g.ratio.Metric == ratio.Metric && g.ratio.Of == ratio.Of && g.ratio.To == ratio.To && g.target.Target == target.Target
			})
			if i < 0 {
				i = len(groups)
				groups = append(groups, &summary{ratio: ratio, target: target})
			}
			groups[i].add(r, ratio, target)
		}
	}
	for _, g := range groups {
		if g.target.Target != "" || len(g.cases) <= namedCases || !slices.ContainsFunc(groups, g.isJudged) {
			rows = append(rows, g.row())
		}
	}
	for _, t := range r.Targets {
		if !inRatio[t.Name] {
			rows = append(rows, []string{t.Name, "", t.Target, Digits(t.Measured) + verdict(!t.Met && t.Open == "", t.Open), ""})
		}
	}
	return rows
}

// targetsOf are the targets of a ratio; one that wants nothing where there is none.
func targetsOf(r *Report, name string) []Target {
	all := slices.DeleteFunc(slices.Clone(r.Targets), func(t Target) bool { return t.Name != name })
	if len(all) == 0 {
		return []Target{{}}
	}
	return all
}

// isJudged says that other cases of the same ratio have a target: those without are then left out, where they are many.
func (g *summary) isJudged(other *summary) bool {
	return other.target.Target != "" && g.ratio.Metric == other.ratio.Metric && g.ratio.Of == other.ratio.Of && g.ratio.To == other.ratio.To
}

func (g *summary) add(r *Report, ratio Ratio, target Target) {
	g.cases = append(g.cases, ratio.Case)
	g.measured = append(g.measured, ratio.Median)
	g.missed = g.missed || target.Target != "" && !target.Met && target.Open == ""
	g.target.Open = cmp.Or(g.target.Open, target.Open)
	of, to := r.Find(ratio.Case, ratio.Of, ratio.Metric), r.Find(ratio.Case, ratio.To, ratio.Metric)
	if of == nil || to == nil {
		return
	}
	g.of, g.to, g.unit = append(g.of, of.Median), append(g.to, to.Median), of.Unit
}

// namedCases is how many cases a row names; of more it tells the number.
const namedCases = 2

func (g *summary) row() []string {
	cases := strings.Join(g.cases, ", ")
	if len(g.cases) > namedCases {
		cases = fmt.Sprint(len(g.cases))
	}
	medians := ""
	if len(g.of) > 0 {
		medians = fmt.Sprintf("%s to %s %s", span(g.of), span(g.to), g.unit)
	}
	return []string{fmt.Sprintf("%s of %s / %s", g.ratio.Metric, g.ratio.Of, g.ratio.To), cases, g.target.Target,
		span(g.measured) + verdict(g.missed, g.target.Open), medians}
}

func verdict(missed bool, open string) string {
	switch {
	case missed:
		return ", **missed**"
	case open != "":
		return ", open: " + open
	}
	return ""
}

// span shows the smallest and the largest value.
func span(values []float64) string {
	low, high := Digits(slices.Min(values)), Digits(slices.Max(values))
	if low == high {
		return low
	}
	return low + " … " + high
}

// withoutEmptyColumns puts a heading above rows and leaves out columns in which no row has anything.
func withoutEmptyColumns(heading []string, rows [][]string) [][]string {
	all := make([][]string, len(rows)+1)
	for column, name := range heading {
		if !slices.ContainsFunc(rows, func(row []string) bool { return row[column] != "" }) {
			continue
		}
		all[0] = append(all[0], name)
		for i, row := range rows {
			all[i+1] = append(all[i+1], row[column])
		}
	}
	return all
}

func markdownTable(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}
