// SPDX-License-Identifier: Apache-2.0

// What the user sees: progress, then tables of figures, ratios and targets. Errors of writing are ignored: a closed pipe
// must not leave a network behind.

package bench

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// screen writes for people.
type screen struct {
	out      io.Writer
	terminal bool
}

func newScreen(out io.Writer) *screen {
	file, isFile := out.(*os.File)
	if !isFile {
		return &screen{out: out}
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return &screen{out: out, terminal: err == nil}
}

func (s *screen) line(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// progress rewrites one line of a terminal; a file gets none of it.
func (s *screen) progress(done, of int) {
	if !s.terminal {
		return
	}
	if done == of {
		fmt.Fprint(s.out, "\r\x1b[K")
		return
	}
	fmt.Fprintf(s.out, "\rround %d of %d\x1b[K", done+1, of)
}

// report writes everything that was found.
func (s *screen) report(r *Report) {
	for _, rows := range tables(r) {
		if len(rows) > 1 {
			s.line("")
			s.table(rows)
		}
	}
	if missed := len(r.Missed()); missed > 0 {
		s.line("\n%d of %d targets are missed.", missed, len(r.Targets))
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
			x.Case, x.Arm, x.Metric, figure(x.Median), figure(x.Min) + " … " + figure(x.Max), x.Unit, fmt.Sprint(len(x.Samples)),
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
		targets = append(targets, []string{x.Name, x.Target, figure(x.Measured), met})
	}
	return [][][]string{results, ratios, targets}
}

// figure shows four digits that matter.
func figure(v float64) string {
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

func (s *screen) table(rows [][]string) {
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
		s.line("%s", strings.TrimRight(line.String(), " "))
	}
}
