// SPDX-License-Identifier: Apache-2.0

// Package table aligns columns of text for a terminal, whatever stands in them: characters that take two columns or none,
// IPv6 EID-Prefixes and paths beside IPv4, rows with fewer cells than others. It knows nothing of what it shows.
package table

import (
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

// gap is how many blanks stand between two columns at least.
const gap = 2

// Width is how many columns of a terminal a text takes.
func Width(text string) int { return uniseg.StringWidth(text) }

// Pad appends blanks up to a width; what is longer stays as it is.
func Pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-Width(text), 0))
}

// PadLeft puts blanks in front, for numbers.
func PadLeft(text string, width int) string {
	return strings.Repeat(" ", max(width-Width(text), 0)) + text
}

// Writer aligns rows. Those that are written later are aligned with the widest cells so far, so that a long table may be
// flushed in parts.
type Writer struct {
	to     io.Writer
	rows   [][]string
	widths []int
}

// New returns a Writer that writes when it is flushed.
func New(to io.Writer) *Writer { return &Writer{to: to} }

// Rows adds rows, one a line, with a tab between two cells.
func (w *Writer) Rows(lines ...string) {
	for _, line := range lines {
		cells := strings.Split(line, "\t")
		for i, cell := range cells {
			cells[i] = oneLine(cell)
			if i == len(w.widths) {
				w.widths = append(w.widths, 0)
			}
			w.widths[i] = max(w.widths[i], Width(cells[i]))
		}
		w.rows = append(w.rows, cells)
	}
}

// oneLine keeps a cell from breaking its row, and from moving a terminal's cursor.
func oneLine(cell string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, cell)
}

// Flush writes the rows that were added since the last time. No line ends with blanks.
func (w *Writer) Flush() error {
	var text strings.Builder
	for _, cells := range w.rows {
		line := ""
		for i, cell := range cells {
			line += Pad(cell, w.widths[i]+gap)
		}
		text.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	w.rows = w.rows[:0]
	_, err := io.WriteString(w.to, text.String())
	return err
}
