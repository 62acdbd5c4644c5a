// SPDX-License-Identifier: Apache-2.0

// What the user sees: numbered steps, aligned tables, colour on a terminal.
// It never colours what goes to a file or a pipe, nor when NO_COLOR is set.

package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	colourStep  = "\x1b[1;36m"
	colourGood  = "\x1b[32m"
	colourFaint = "\x1b[2m"
	colourEnd   = "\x1b[0m"
)

// screen writes the progress. Errors of writing are ignored: a closed pipe must not leave a network behind.
type screen struct {
	out    io.Writer
	colour bool
	steps  int
	began  time.Time
}

func newScreen(out io.Writer, now time.Time) *screen {
	return &screen{out: out, colour: isTerminal(out) && os.Getenv("NO_COLOR") == "", began: now}
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

func (s *screen) paint(colour, text string) string {
	if !s.colour {
		return text
	}
	return colour + text + colourEnd
}

// step begins a numbered step.
func (s *screen) step(title string) {
	s.steps++
	at := fmt.Sprintf("%5.1f s", time.Since(s.began).Seconds())
	fmt.Fprintf(s.out, "\n%s  %s\n", s.paint(colourStep, fmt.Sprintf("%d. %s", s.steps, title)), s.paint(colourFaint, at))
}

// line writes one indented line.
func (s *screen) line(format string, args ...any) {
	fmt.Fprintf(s.out, "   "+format+"\n", args...)
}

// good writes a line that is the result of a step.
func (s *screen) good(format string, args ...any) {
	s.line("%s", s.paint(colourGood, fmt.Sprintf(format, args...)))
}

// table writes rows in columns as wide as they need; columns named in right are flush right. The first row is the heading.
func (s *screen) table(rows [][]string, right ...int) {
	widths := columnWidths(rows)
	flushRight := map[int]bool{}
	for _, column := range right {
		flushRight[column] = true
	}
	for i, row := range rows {
		var line strings.Builder
		for column, cell := range row {
			padding := strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell))
			if flushRight[column] {
				line.WriteString(padding + cell + "  ")
				continue
			}
			line.WriteString(cell + padding + "  ")
		}
		text := strings.TrimRight(line.String(), " ")
		if i == 0 {
			text = s.paint(colourFaint, text)
		}
		s.line("%s", text)
	}
}

func columnWidths(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for column, cell := range row {
			if column == len(widths) {
				widths = append(widths, 0)
			}
			widths[column] = max(widths[column], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// milliseconds shows a duration with the digits that matter.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

func gigabits(bitsPerSecond float64) string {
	return fmt.Sprintf("%.2f Gbit/s", bitsPerSecond/1e9)
}

const picture = `
        site A                     core                      site B
   host-a ─── xtr-a ═══════════════ core ═══════════════ xtr-b ─── host-b
                                     ║
                                    ms    Map-Server and Map-Resolver
`
