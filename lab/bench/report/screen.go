// SPDX-License-Identifier: Apache-2.0

// What the user sees: progress, then tables of figures, ratios and targets. Errors of writing are ignored: a closed pipe
// must not leave a network behind.

package report

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Screen writes for people.
type Screen struct {
	out      io.Writer
	terminal bool
}

// NewScreen writes to a file or a terminal.
func NewScreen(out io.Writer) *Screen {
	file, isFile := out.(*os.File)
	if !isFile {
		return &Screen{out: out}
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return &Screen{out: out, terminal: err == nil}
}

// Line writes one line.
func (s *Screen) Line(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// Progress rewrites one line of a terminal; a file gets none of it.
func (s *Screen) Progress(done, of int) {
	if !s.terminal {
		return
	}
	if done == of {
		fmt.Fprint(s.out, "\r\x1b[K")
		return
	}
	fmt.Fprintf(s.out, "\rround %d of %d\x1b[K", done+1, of)
}

// Report writes everything that was found.
func (s *Screen) Report(r *Report) {
	for _, rows := range tables(r) {
		if len(rows) > 1 {
			s.Line("")
			s.table(rows)
		}
	}
	if missed := len(r.Missed()); missed > 0 {
		s.Line("\n%d of %d targets are missed.", missed, len(r.Targets))
	}
}

// tables are results, ratios and targets, each with its heading.
func tables(r *Report) [][][]string {
	results := [][]string{{"case", "arm", "figure", "median", "min … max", "unit", "rounds"}}
	for _, x := range r.Results {
		if x.Unit == "packets" && x.Metric != "lost" {
			continue // how it was measured, not what; it is in the object
		}
		results = append(results, []string{
			x.Case, x.Arm, x.Metric, Digits(x.Median), Digits(x.Min) + " … " + Digits(x.Max), x.Unit, fmt.Sprint(len(x.Samples)),
		})
	}
	ratios := [][]string{{"case", "figure", "of", "to", "ratio", "interval", "confidence"}}
	for _, x := range r.Ratios {
		ratios = append(ratios, []string{
			x.Case, x.Metric, x.Of, x.To, fmt.Sprintf("%.3f", x.Median), fmt.Sprintf("%.3f … %.3f", x.Low, x.High),
			fmt.Sprintf("%.1f %%", 100*x.Confidence),
		})
	}
	targets := [][]string{{"target", "wanted", "measured", ""}}
	for _, x := range r.Targets {
		met := "met"
		switch {
		case x.Open != "":
			met = "open: " + x.Open
		case !x.Met:
			met = "MISSED"
		}
		targets = append(targets, []string{x.Name, x.Target, Digits(x.Measured), met})
	}
	return [][][]string{results, ratios, targets}
}

// Digits shows four digits that matter.
func Digits(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 3 - int(math.Floor(math.Log10(math.Abs(v))))
	if digits > 0 {
		return fmt.Sprintf("%.*f", min(digits, 4), v)
	}
	step := math.Pow(10, float64(-digits))
	return fmt.Sprintf("%.0f", math.Round(v/step)*step)
}

func (s *Screen) table(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for column, cell := range row {
			if column == len(widths) {
				widths = append(widths, 0)
			}
			widths[column] = max(widths[column], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for column, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell)) + "  ")
		}
		s.Line("%s", strings.TrimRight(line.String(), " "))
	}
}
